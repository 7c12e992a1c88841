//! The protocols of the hash tables: what they share, and a file for each.

pub(crate) mod bucket;
pub(crate) mod fixed;
pub(crate) mod integers;
pub(crate) mod layout;
pub(crate) mod many;
pub(crate) mod split;
pub mod steps;
pub(crate) mod sweep;

/// A number that every bit of the words goes into. It is the same on every rank, and nothing relies
/// on it from one version to the next.
pub(crate) fn hash_of(words: &[u64]) -> u64 {
    let mix = |hash: u64, word: u64| {
        let product =
            u128::from(hash ^ word).wrapping_mul(0xA076_1D64_78BD_642F_E703_7ED1_A0B4_28DB);
        (product as u64) ^ ((product >> 64) as u64)
    };
    let hash = words.iter().fold(0x2D35_8DCC_AA6C_78A5, |hash, &word| mix(hash, word));
    mix(hash, 0x8BB8_4B93_962E_ACC9)
}

/// Which of so many volumes a hash belongs to: the upper half decides, since the lower one chooses
/// the bucket.
pub(crate) fn volume_of(hash: u64, volumes: usize) -> usize {
    (((hash >> 32) * volumes as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_spread_over_volumes_and_buckets() {
        let (mut volumes, mut buckets) = ([0u32; 7], [0u32; 64]);
        for key in 0..70_000u64 {
            let hash = hash_of(&[key << 7]);
            volumes[volume_of(hash, 7)] += 1;
            buckets[(hash & 63) as usize] += 1;
        }
        assert!(volumes.iter().all(|&count| (9_500..10_500).contains(&count)), "{volumes:?}");
        assert!(buckets.iter().all(|&count| (950..1_250).contains(&count)), "{buckets:?}");
        assert_ne!(hash_of(&[1, 2]), hash_of(&[2, 1]));
    }
}
