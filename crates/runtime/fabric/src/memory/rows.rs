//! Rows of equal length: what a strided transfer of two dimensions is, checked once for all rows.

use super::Mapped;
use super::copy::{copy_in, copy_out};

/// Rows of equal length, which begin at equal distances on either side. All in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// The number of rows.
    pub count: usize,
    /// The length of each.
    pub bytes: usize,
    /// How far apart they begin in private memory.
    pub near: usize,
    /// How far apart they begin in the mapping.
    pub far: usize,
}

impl Rows {
    /// Returns the number of bytes from the first row's begin to the last one's end in private
    /// memory and in the mapping; nothing if there is no row, or if that, or all bytes of the rows
    /// together, cannot be counted.
    #[inline]
    pub fn reach(&self) -> Option<(u64, u64)> {
        let steps = self.count.checked_sub(1)?;
        self.count.checked_mul(self.bytes)?;
        let reach =
            |stride: usize| Some(steps.checked_mul(stride)?.checked_add(self.bytes)? as u64);
        Some((reach(self.near)?, reach(self.far)?))
    }
}

impl Mapped {
    /// Writes rows of `from` to rows from `offset` on; false, and nothing written, if they do not
    /// all fit.
    #[inline]
    #[must_use]
    pub fn put_rows(&self, offset: u64, from: &[u8], rows: Rows) -> bool {
        let Some(mut to) = self.first_row(offset, from.len(), rows) else { return false };
        let mut from = from.as_ptr();
        for _ in 0..rows.count {
            // SAFETY: all rows are inside on both sides, by the check of the first one.
            unsafe { copy_in(to, from, rows.bytes) };
            (to, from) = (to.wrapping_add(rows.far), from.wrapping_add(rows.near));
        }
        true
    }

    /// Reads rows from `offset` on into rows of `into`; false, and nothing read, if they do not all
    /// fit.
    #[inline]
    #[must_use]
    pub fn get_rows(&self, offset: u64, into: &mut [u8], rows: Rows) -> bool {
        let Some(from) = self.first_row(offset, into.len(), rows) else { return false };
        let (mut from, mut to) = (from.cast_const(), into.as_mut_ptr());
        for _ in 0..rows.count {
            // SAFETY: all rows are inside on both sides, by the check of the first one.
            unsafe { copy_out(to, from, rows.bytes) };
            (to, from) = (to.wrapping_add(rows.near), from.wrapping_add(rows.far));
        }
        true
    }

    /// Returns where the first row begins, if all of them are inside of the mapping from `offset`
    /// on, and of private memory of `near_bytes`.
    #[inline]
    fn first_row(&self, offset: u64, near_bytes: usize, rows: Rows) -> Option<*mut u8> {
        let (near, far) = rows.reach()?;
        let fits = near <= near_bytes as u64 && self.holds(offset, far);
        fits.then(|| self.base.as_ptr().wrapping_add(offset as usize))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::mapped;
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 20 } else { 1000 }))]
        #[test]
        fn rows_go_where_single_puts_would(
            offset in 0u64..200, count in 0usize..9, bytes in 0usize..80,
            near in 0usize..100, far in 0usize..100, seed in any::<u8>(),
        ) {
            let (one, _heap) = mapped(1024);
            let (other, _other_heap) = mapped(1024);
            let data: Vec<u8> = (0..700).map(|at| seed.wrapping_add(at as u8)).collect();
            let rows = Rows { count, bytes, near, far };
            let fits = count > 0
                && (count - 1) * near + bytes <= data.len()
                && offset as usize + (count - 1) * far + bytes <= 1024;
            prop_assert_eq!(one.put_rows(offset, &data, rows), fits);
            for row in 0..if fits { count } else { 0 } {
                let from = &data[row * near..row * near + bytes];
                prop_assert!(other.put(offset + (row * far) as u64, from));
            }
            let (mut held, mut expected) = ([0; 1024], [0; 1024]);
            prop_assert!(one.get(0, &mut held) && other.get(0, &mut expected));
            prop_assert_eq!(&held[..], &expected[..]);
            let (mut read, mut singly) = (vec![0; 700], vec![0; 700]);
            prop_assert_eq!(one.get_rows(offset, &mut read, rows), fits);
            for row in 0..if fits { count } else { 0 } {
                let into = &mut singly[row * near..row * near + bytes];
                prop_assert!(one.get(offset + (row * far) as u64, into));
            }
            prop_assert_eq!(read, singly);
        }
    }

    #[test]
    fn rows_beyond_what_can_be_counted_are_refused() {
        let (mapped, _heap) = mapped(64);
        let rows = Rows { count: 3, bytes: 8, near: 8, far: usize::MAX / 2 };
        assert_eq!(rows.reach(), None);
        assert!(!mapped.put_rows(0, &[0; 24], rows));
        let again_and_again = Rows { count: usize::MAX, bytes: 8, near: 0, far: 0 };
        assert!(!mapped.put_rows(0, &[0; 24], again_and_again));
    }
}
