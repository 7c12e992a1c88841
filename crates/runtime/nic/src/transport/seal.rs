//! Authentication of datagrams: each carries a tag that only members of the job can make.
//!
//! The tag is AEGIS used as a message authentication code, as the CFRG draft "The AEGIS Family of
//! Authenticated Encryption Algorithms" defines it: 128 bits, under a fresh key for each job. Short
//! datagrams use AEGIS-128L, whose start and end cost least; long ones AEGIS-128X4, which is faster
//! on processors with wide AES vectors. Each has a key of its own: a piece of the keystream that
//! AEGIS-128L makes of the job's key. The draft forbids keys that are tags, since nobody says that
//! tags look random; keystreams must.
//!
//! Datagrams are authenticated and not encrypted: the network can read the job's data.

use aegis::aegis128l::{Aegis128L, Aegis128LMac};
use aegis::aegis128x4::Aegis128X4Mac;
use farside_fabric::{Error, Result};

pub(crate) const TAG_BYTES: usize = 16;

/// The length from which on a datagram counts as long.
const LONG_BYTES: usize = 4096;

/// The nonce of the keystream, of which there is one for each job's key.
const KEYS_NONCE: &[u8; 16] = b"farside nic 6 ks";

/// The key that the members of a job share as a secret. It tags no datagram itself.
#[derive(Clone)]
pub struct Key {
    bytes: [u8; 16],
    short: Aegis128LMac<TAG_BYTES>,
    long: Aegis128X4Mac<TAG_BYTES>,
    stream: StreamKey,
}

impl Key {
    /// Makes a fresh random key.
    pub fn random() -> Result<Key> {
        random_bytes().map(Key::from_bytes)
    }

    /// Makes the key of these bytes, which another member has given.
    pub fn from_bytes(bytes: [u8; 16]) -> Key {
        let [short, long, stream] = derive(&bytes);
        Key {
            bytes,
            short: Aegis128LMac::new(&short),
            long: Aegis128X4Mac::new(&long),
            stream: StreamKey(Aegis128LMac::new(&stream)),
        }
    }

    /// Returns the bytes of the key, to be given to a member over a secret channel.
    pub fn bytes(&self) -> [u8; 16] {
        self.bytes
    }

    /// Returns the key by which members prove to each other that a stream is theirs.
    pub(crate) fn stream_key(&self) -> StreamKey {
        self.stream.clone()
    }

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

/// Derives the keys of short datagrams, of long ones and of streams from the job's, which is used
/// for nothing else.
fn derive(job_key: &[u8; 16]) -> [[u8; 16]; 3] {
    let mut keys = [[0; 16]; 3];
    Aegis128L::<TAG_BYTES>::new(job_key, KEYS_NONCE).stream(keys.as_flattened_mut());
    keys
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

    /// What the keystream of a key of sevens begins with.
    const KNOWN: [[u8; 16]; 3] = [
        0xa28b_d15e_0841_cff0_f254_8ecb_e5f1_7ba6_u128.to_be_bytes(),
        0x7ecc_b7b7_45ec_d17c_b3a3_dacb_859f_7e17_u128.to_be_bytes(),
        0x6ba0_6d77_cba9_2b1b_d5cb_eec7_6082_d2aa_u128.to_be_bytes(),
    ];

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
    fn keys_are_a_keystream_and_no_tags() {
        let job_key = [7; 16];
        let keys = derive(&job_key);
        // The same in every build, of C or of Rust: members of a job may differ in that.
        assert_eq!(keys, KNOWN);
        let key = Key::from_bytes(job_key);
        for message in [&KEYS_NONCE[..], b"", &[0; 48], &[0; LONG_BYTES]] {
            let under = |key: &[u8; 16]| {
                let mut mac = Aegis128LMac::<TAG_BYTES>::new(key);
                mac.update(message);
                mac.finalize()
            };
            let tags = [key.tag(&[message]), key.stream_key().tag(message), under(&job_key)];
            assert!(keys.iter().all(|key| !tags.contains(key)), "{message:?}");
        }
    }

    #[test]
    fn keys_are_fresh_and_do_not_show() {
        let (a, b) = (Key::random().unwrap(), Key::random().unwrap());
        assert_ne!(a.bytes(), b.bytes());
        assert_eq!(format!("{a:?}"), "Key(…)");
    }
}
