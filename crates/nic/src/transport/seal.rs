//! Every datagram carries a tag that only members of the job can make.
//!
//! The tag is AEGIS used as a message authentication code, as the CFRG draft "The AEGIS Family of
//! Authenticated Encryption Algorithms" defines it: 128 bits, under a key that is made anew for
//! each job. Short datagrams take AEGIS-128L, whose beginning and end cost least; long ones take
//! AEGIS-128X4, which is faster where processors do AES in wide vectors. Each has a key of its own.
//!
//! What is sent is authentic, not secret: whoever can read the network can read the job's data.

use aegis::aegis128l::Aegis128LMac;
use aegis::aegis128x4::Aegis128X4Mac;
use farside_fabric::{Error, Result};

/// How long a tag is.
pub(crate) const TAG_BYTES: usize = 16;

/// From here on a datagram is long.
const LONG_BYTES: usize = 4096;

/// What the members of a job share, and nobody else knows.
#[derive(Clone)]
pub struct Key {
    bytes: [u8; 16],
    short: Aegis128LMac<TAG_BYTES>,
    long: Aegis128X4Mac<TAG_BYTES>,
}

impl Key {
    /// A key that nobody has seen before.
    pub fn random() -> Result<Key> {
        let mut bytes = [0; 16];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += rustix::rand::getrandom(
                &mut bytes[filled..],
                rustix::rand::GetRandomFlags::empty(),
            )
            .map_err(|errno| Error::System {
                call: "getrandom, for the job's key",
                errno: errno.raw_os_error(),
            })?;
        }
        Ok(Key::from_bytes(bytes))
    }

    /// The key that another member has.
    pub fn from_bytes(bytes: [u8; 16]) -> Key {
        let short = Aegis128LMac::new(&bytes);
        let mut derived = short.clone();
        derived.update(b"the key of long datagrams");
        Key { bytes, long: Aegis128X4Mac::new(&derived.finalize()), short }
    }

    /// The key, to be handed to a member in secret.
    pub fn bytes(&self) -> [u8; 16] {
        self.bytes
    }

    /// The tag of a message.
    pub(crate) fn tag(&self, parts: &[&[u8]]) -> [u8; TAG_BYTES] {
        if is_long(parts) {
            let mut mac = self.long.clone();
            parts.iter().for_each(|part| mac.update(part));
            mac.finalize()
        } else {
            let mut mac = self.short.clone();
            parts.iter().for_each(|part| mac.update(part));
            mac.finalize()
        }
    }

    /// Whether a tag is that of a message. Takes as long for a wrong tag as for a right one.
    #[must_use]
    pub(crate) fn accepts(&self, parts: &[&[u8]], tag: &[u8; TAG_BYTES]) -> bool {
        if is_long(parts) {
            let mut mac = self.long.clone();
            parts.iter().for_each(|part| mac.update(part));
            mac.verify(tag).is_ok()
        } else {
            let mut mac = self.short.clone();
            parts.iter().for_each(|part| mac.update(part));
            mac.verify(tag).is_ok()
        }
    }
}

fn is_long(parts: &[&[u8]]) -> bool {
    parts.iter().map(|part| part.len()).sum::<usize>() >= LONG_BYTES
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A key has no business in a log.
        write!(f, "Key(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_depends_on_the_key_and_on_every_byte() {
        let key = Key::from_bytes([7; 16]);
        for length in [100, LONG_BYTES - 1, LONG_BYTES, LONG_BYTES + 300] {
            let mut message = vec![1u8; length];
            let tag = key.tag(&[&message[..48], &message[48..]]);
            assert!(key.accepts(&[&message[..48], &message[48..]], &tag));
            assert!(!Key::from_bytes([8; 16]).accepts(&[&message[..48], &message[48..]], &tag));
            for at in 0..message.len() {
                message[at] ^= 1;
                assert!(
                    !key.accepts(&[&message[..48], &message[48..]], &tag),
                    "byte {at} of {length}"
                );
                message[at] ^= 1;
            }
        }
    }

    #[test]
    fn keys_are_fresh_and_do_not_show() {
        let (a, b) = (Key::random().unwrap(), Key::random().unwrap());
        assert_ne!(a.bytes(), b.bytes());
        assert_eq!(format!("{a:?}"), "Key(…)");
    }
}
