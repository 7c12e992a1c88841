//! The product of two blocks, added to a third.

use std::any::Any;

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, LinalgScalar};

/// Adds `alpha * left * right` to `sum`: for doubles by a kernel with the widest vectors that the
/// processor has, for all others by that of `ndarray`.
pub(super) fn add_product<T: LinalgScalar>(
    sum: &mut Array2<T>,
    alpha: T,
    left: &Array2<T>,
    right: &Array2<T>,
) {
    let factors = (doubles(left), doubles(right), (&alpha as &dyn Any).downcast_ref());
    let sums = (&mut *sum as &mut dyn Any).downcast_mut::<Array2<f64>>();
    match (sums, factors) {
        (Some(sum), (Some(left), Some(right), Some(&alpha))) => {
            add_product_f64(sum, alpha, left, right);
        }
        _ => general_mat_mul(alpha, left, right, T::one(), sum),
    }
}

fn doubles<T: LinalgScalar>(matrix: &Array2<T>) -> Option<&Array2<f64>> {
    (matrix as &dyn Any).downcast_ref()
}

fn add_product_f64(sum: &mut Array2<f64>, alpha: f64, left: &Array2<f64>, right: &Array2<f64>) {
    let ((rows, inner), columns) = (left.dim(), right.ncols());
    assert!(right.nrows() == inner && sum.dim() == (rows, columns), "shapes do not multiply");
    let strides = |matrix: &Array2<f64>| (matrix.strides()[0], matrix.strides()[1]);
    let (of_sum, of_left, of_right) = (strides(sum), strides(left), strides(right));
    // The kernel is fast for matrices whose columns are contiguous: so it multiplies ours turned,
    // the right one by the left one.
    //
    // SAFETY: the extents are those of the three matrices, as was just checked, the strides are
    // what they say of themselves, and `sum` is borrowed exclusively.
    unsafe {
        gemm_f64::gemm::f64::get_gemm_fn()(
            columns,
            rows,
            inner,
            sum.as_mut_ptr(),
            of_sum.0,
            of_sum.1,
            true,
            right.as_ptr(),
            of_right.0,
            of_right.1,
            left.as_ptr(),
            of_left.0,
            of_left.1,
            1.0,
            alpha,
            false,
            false,
            false,
            gemm_common::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whole numbers, so that sums are exact in any order.
    fn matrix<T: LinalgScalar + From<i16>>(rows: usize, columns: usize) -> Array2<T> {
        Array2::from_shape_fn((rows, columns), |(i, j)| T::from((i * 7 + j * 3) as i16 % 19 - 9))
    }

    fn compare<T: LinalgScalar + From<i16> + PartialEq + std::fmt::Debug>() {
        for (rows, inner, columns) in [(1, 1, 1), (0, 3, 2), (3, 0, 2), (17, 5, 9), (70, 65, 130)] {
            let (left, right) = (matrix::<T>(rows, inner), matrix::<T>(inner, columns));
            let mut sum = matrix::<T>(rows, columns);
            let expected = &sum + &left.dot(&right).mapv(|value| value * T::from(3));
            add_product(&mut sum, T::from(3), &left, &right);
            assert_eq!(sum, expected, "{rows} x {inner} x {columns}");
            // By columns.
            let (left, right) = (left.reversed_axes(), right.reversed_axes());
            let mut sum = matrix::<T>(columns, rows);
            let expected = &sum + &right.dot(&left).mapv(|value| value * T::from(2));
            add_product(&mut sum, T::from(2), &right, &left);
            assert_eq!(sum, expected, "turned, {rows} x {inner} x {columns}");
        }
    }

    #[test]
    fn products_are_those_of_ndarray() {
        compare::<f64>();
        compare::<f32>();
        compare::<i64>();
    }
}
