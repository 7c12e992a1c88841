//! Authentication of datagrams: each carries a tag that only members of the job can make.
//!
//! The tag is AEGIS used as a message authentication code, as the CFRG draft "The AEGIS Family of
//! Authenticated Encryption Algorithms" defines it: 128 bits, under a fresh key for each job. Short
//! datagrams use AEGIS-128L, whose start and end cost least; long ones AEGIS-128X4, which is faster
//! on processors with wide AES vectors. Each has a key of its own, derived from the job's.
//!
//! Datagrams are authenticated and not encrypted: the network can read the job's data.

use aegis::aegis128l::Aegis128LMac;
use aegis::aegis128x4::Aegis128X4Mac;
use farside_fabric::{Error, Result};

/// The length of a tag.
pub(crate) const TAG_BYTES: usize = 16;

/// The length from which on a datagram counts as long.
const LONG_BYTES: usize = 4096;

/// The label of the key of short datagrams.
const SHORT_LABEL: &[u8] = b"farside nic 3: datagrams, AEGIS-128L";
/// The label of the key of long datagrams.
const LONG_LABEL: &[u8] = b"farside nic 3: datagrams, AEGIS-128X4";

/// The label of the key of streams.
const STREAM_LABEL: &[u8] = b"farside nic 5: streams, AEGIS-128L";

/// The key that the members of a job share as a secret. It tags no datagram itself.
#[derive(Clone)]
pub struct Key {
    bytes: [u8; 16],
    short: Aegis128LMac<TAG_BYTES>,
    long: Aegis128X4Mac<TAG_BYTES>,
}

impl Key {
    /// Makes a fresh random key.
    pub fn random() -> Result<Key> {
        random_bytes().map(Key::from_bytes)
    }

    /// Makes the key of these bytes, which another member has given.
    pub fn from_bytes(bytes: [u8; 16]) -> Key {
        let short = Aegis128LMac::new(&derive(&bytes, SHORT_LABEL));
        let long = Aegis128X4Mac::new(&derive(&bytes, LONG_LABEL));
        Key { bytes, short, long }
    }

    /// Returns the bytes of the key, to be given to a member over a secret channel.
    pub fn bytes(&self) -> [u8; 16] {
        self.bytes
    }

    /// Derives the key by which members prove to each other that a stream is theirs.
    pub(crate) fn stream_key(&self) -> StreamKey {
        StreamKey(Aegis128LMac::new(&derive(&self.bytes, STREAM_LABEL)))
    }

    /// Computes the tag of a message.
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

    /// Returns whether a tag is that of a message, in constant time.
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

/// The key of the job's streams. It tags the proof with which a stream begins, and nothing else.
#[derive(Clone)]
pub(crate) struct StreamKey(Aegis128LMac<TAG_BYTES>);

impl StreamKey {
    /// Computes the tag of a proof.
    pub(crate) fn tag(&self, proof: &[u8]) -> [u8; TAG_BYTES] {
        let mut mac = self.0.clone();
        mac.update(proof);
        mac.finalize()
    }

    /// Returns whether a tag is that of a proof, in constant time.
    #[must_use]
    pub(crate) fn accepts(&self, proof: &[u8], tag: &[u8; TAG_BYTES]) -> bool {
        let mut mac = self.0.clone();
        mac.update(proof);
        mac.verify(tag).is_ok()
    }
}

/// Returns random bytes that no other stream has.
pub(crate) fn random_bytes() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        filled +=
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())
                .map_err(|errno| Error::System {
                    call: "getrandom, for a key or a challenge",
                    errno: errno.raw_os_error(),
                })?;
    }
    Ok(bytes)
}

/// Derives a key from the job's: the tag of a label. No datagram is tagged with the job's key, so
/// the tag of a datagram, whatever its bytes are, is never a derived key.
fn derive(job_key: &[u8; 16], label: &[u8]) -> [u8; 16] {
    let mut mac = Aegis128LMac::<16>::new(job_key);
    mac.update(label);
    mac.finalize()
}

fn is_long(parts: &[&[u8]]) -> bool {
    parts.iter().map(|part| part.len()).sum::<usize>() >= LONG_BYTES
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A key must not get into a log.
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
    fn the_tag_of_no_datagram_is_a_derived_key() {
        let bytes = [7; 16];
        let key = Key::from_bytes(bytes);
        let derived = [derive(&bytes, SHORT_LABEL), derive(&bytes, LONG_LABEL)];
        assert!(derived[0] != derived[1] && !derived.contains(&bytes));
        for label in [SHORT_LABEL, LONG_LABEL] {
            // What a datagram would have to be for its tag to be a derived key, of both lengths.
            let long = [label, &[0; LONG_BYTES]].concat();
            for message in [label, &long] {
                assert!(!derived.contains(&key.tag(&[message])), "{label:?}");
                assert!(derived.iter().all(|tag| !key.accepts(&[message], tag)), "{label:?}");
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
