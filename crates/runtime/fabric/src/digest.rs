//! A digest by which ranks find out whether they mean the same.

/// Returns the FNV-1a digest of some bytes: the same on every machine, and no protection against
/// texts that are made to look alike.
///
/// ```
/// assert_eq!(farside_fabric::digest::of(b"put"), 0x77F3_7019_5699_CDEE);
/// ```
pub fn of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}
