//! Plain data as words.

use farside_rma::Plain;
use zerocopy::IntoBytes;

pub(super) const fn words_of<T>() -> usize {
    size_of::<T>().div_ceil(8)
}

/// A value as words; what is left of the last one is zero.
#[inline]
pub(super) fn pack<T: Plain>(value: &T, words: &mut [u64]) {
    if let Some(last) = words.last_mut() {
        *last = 0;
    }
    words.as_mut_bytes()[..size_of::<T>()].copy_from_slice(value.as_bytes());
}

#[inline]
pub(super) fn unpack<T: Plain>(words: &[u64]) -> T {
    T::read_from_bytes(&words.as_bytes()[..size_of::<T>()])
        .expect("the slice is as long as the value")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_as_words() {
        let mut words = [u64::MAX; 2];
        pack(b"nine byte", &mut words);
        assert_eq!(unpack::<[u8; 9]>(&words), *b"nine byte");
        assert_eq!(words[1], u64::from(b'e'));
        assert_eq!((words_of::<[u8; 9]>(), words_of::<u32>(), words_of::<()>()), (2, 1, 0));
    }
}
