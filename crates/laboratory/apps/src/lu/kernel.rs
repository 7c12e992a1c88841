//! What is computed with single blocks, row by row in memory: products by a linear algebra crate,
//! the rest in terms of them.

/// Rows that are eliminated one by one before a product updates the rest.
const PANEL: usize = 16;

/// The extents of a product: m x k by k x n.
#[derive(Clone, Copy)]
pub(super) struct Extents {
    pub(super) m: usize,
    pub(super) k: usize,
    pub(super) n: usize,
}

/// How far apart the rows of the matrices of a product `c -= a b` are.
#[derive(Clone, Copy)]
pub(super) struct RowDistances {
    pub(super) c: usize,
    pub(super) a: usize,
    pub(super) b: usize,
}

impl RowDistances {
    /// All matrices have rows so far apart.
    pub(super) fn all(ld: usize) -> RowDistances {
        RowDistances { c: ld, a: ld, b: ld }
    }
}

/// `c -= a b`, where `a` is m x k, `b` is k x n and `c` is m x n, each with rows `ld` apart.
pub(super) fn multiply(
    c: &mut [f64],
    a: &[f64],
    b: &[f64],
    Extents { m, k, n }: Extents,
    ld: RowDistances,
) {
    if m == 0 || k == 0 || n == 0 {
        return;
    }
    let RowDistances { c: ldc, a: lda, b: ldb } = ld;
    assert!(ldc >= n && lda >= k && ldb >= n, "rows overlap");
    assert!(
        c.len() >= (m - 1) * ldc + n
            && a.len() >= (m - 1) * lda + k
            && b.len() >= (k - 1) * ldb + n,
        "out of range"
    );
    // SAFETY: every element that the product reads or writes lies within its slice, as was just
    // checked, and `c` is borrowed exclusively.
    unsafe {
        matrixmultiply::dgemm(
            m,
            k,
            n,
            -1.0,
            a.as_ptr(),
            lda as isize,
            1,
            b.as_ptr(),
            ldb as isize,
            1,
            1.0,
            c.as_mut_ptr(),
            ldc as isize,
            1,
        );
    }
}

/// Replaces a square block by its factors: U above and on the diagonal, L with ones on the diagonal
/// below it.
pub(super) fn factor(a: &mut [f64], n: usize, ld: usize) {
    for first in (0..n).step_by(PANEL) {
        let last = (first + PANEL).min(n);
        for pivot in first..last {
            let (above, below) = a.split_at_mut((pivot + 1) * ld);
            let pivot_row = &above[pivot * ld..];
            for row in below.chunks_mut(ld).take(n - pivot - 1) {
                row[pivot] /= pivot_row[pivot];
                let factor = row[pivot];
                for column in pivot + 1..last {
                    row[column] -= factor * pivot_row[column];
                }
            }
        }
        if last == n {
            break;
        }
        // The rows of the panel to the right of it, and then all that is below and to the right.
        let width = n - last;
        for pivot in first..last {
            let (above, below) = a.split_at_mut((pivot + 1) * ld);
            let pivot_row = &above[pivot * ld..];
            for row in below.chunks_mut(ld).take(last - pivot - 1) {
                let factor = row[pivot];
                for column in last..n {
                    row[column] -= factor * pivot_row[column];
                }
            }
        }
        let left: Vec<f64> =
            (last..n).flat_map(|row| a[row * ld + first..row * ld + last].to_vec()).collect();
        let (above, below) = a.split_at_mut(last * ld);
        let size = Extents { m: width, k: last - first, n: width };
        multiply(
            &mut below[last..],
            &left,
            &above[first * ld + last..],
            size,
            RowDistances { a: last - first, ..RowDistances::all(ld) },
        );
    }
}

/// `b` becomes the solution x of L x = b, where L is the lower factor in `l`, n x n, and b is n x
/// m.
pub(super) fn solve_lower(l: &[f64], b: &mut [f64], (n, m): (usize, usize), ld: usize) {
    for first in (0..n).step_by(PANEL) {
        let last = (first + PANEL).min(n);
        for pivot in first..last {
            let (above, below) = b.split_at_mut((pivot + 1) * ld);
            let pivot_row = &above[pivot * ld..][..m];
            for (at, row) in below.chunks_mut(ld).take(last - pivot - 1).enumerate() {
                let factor = l[(pivot + 1 + at) * ld + pivot];
                row[..m]
                    .iter_mut()
                    .zip(pivot_row)
                    .for_each(|(value, pivot)| *value -= factor * pivot);
            }
        }
        if last < n {
            let (above, below) = b.split_at_mut(last * ld);
            let size = Extents { m: n - last, k: last - first, n: m };
            multiply(
                below,
                &l[last * ld + first..],
                &above[first * ld..],
                size,
                RowDistances::all(ld),
            );
        }
    }
}

/// `b` becomes the solution x of x U = b, where U is the upper factor in `u`, n x n, and b is m x
/// n.
pub(super) fn solve_upper(u: &[f64], b: &mut [f64], (n, m): (usize, usize), ld: usize) {
    for first in (0..n).step_by(PANEL) {
        let last = (first + PANEL).min(n);
        for row in b.chunks_mut(ld).take(m) {
            for pivot in first..last {
                row[pivot] /= u[pivot * ld + pivot];
                let factor = row[pivot];
                let (row, pivot_row) =
                    (&mut row[pivot + 1..last], &u[pivot * ld + pivot + 1..pivot * ld + last]);
                row.iter_mut().zip(pivot_row).for_each(|(value, pivot)| *value -= factor * pivot);
            }
        }
        if last < n {
            let solved: Vec<f64> =
                (0..m).flat_map(|row| b[row * ld + first..row * ld + last].to_vec()).collect();
            let size = Extents { m, k: last - first, n: n - last };
            multiply(
                &mut b[last..],
                &solved,
                &u[first * ld + last..],
                size,
                RowDistances { a: last - first, ..RowDistances::all(ld) },
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: usize = 37;
    const LD: usize = 41;

    fn matrix(seed: u64) -> Vec<f64> {
        let value = |at: usize| ((at as u64 + seed) * 2_654_435_761 % 1000) as f64 / 1000.0;
        (0..N * LD).map(|at| value(at) + if at % (LD + 1) == 0 { N as f64 } else { 0.0 }).collect()
    }

    fn part(a: &[f64], row: usize, column: usize, lower: bool) -> f64 {
        match (lower, row.cmp(&column)) {
            (true, std::cmp::Ordering::Equal) => 1.0,
            (true, std::cmp::Ordering::Greater)
            | (false, std::cmp::Ordering::Less | std::cmp::Ordering::Equal) => a[row * LD + column],
            _ => 0.0,
        }
    }

    fn differs(name: &str, got: impl Fn(usize, usize) -> f64, wanted: &[f64]) {
        for row in 0..N {
            for column in 0..N {
                let difference = (got(row, column) - wanted[row * LD + column]).abs();
                assert!(
                    difference < 1e-9,
                    "{name}: row {row}, column {column} differs by {difference}"
                );
            }
        }
    }

    #[test]
    fn factors_multiply_to_the_matrix() {
        let original = matrix(1);
        let mut a = original.clone();
        factor(&mut a, N, LD);
        let product = |row, column| {
            (0..N).map(|k| part(&a, row, k, true) * part(&a, k, column, false)).sum::<f64>()
        };
        differs("factor", product, &original);
    }

    #[test]
    fn solutions_solve() {
        let mut a = matrix(1);
        factor(&mut a, N, LD);
        let b = matrix(7);
        let mut x = b.clone();
        solve_lower(&a, &mut x, (N, N), LD);
        differs(
            "lower",
            |row, column| (0..N).map(|k| part(&a, row, k, true) * x[k * LD + column]).sum(),
            &b,
        );
        let mut x = b.clone();
        solve_upper(&a, &mut x, (N, N), LD);
        differs(
            "upper",
            |row, column| (0..N).map(|k| x[row * LD + k] * part(&a, k, column, false)).sum(),
            &b,
        );
    }
}
