//! Things that are made of several parts, all of them or none.

use farside_fabric::Result;

/// Makes what `rest` needs beside `first`, and returns both. If it fails, `first` is freed: all
/// members of a team make the same, fail together, and free together.
pub fn or_free<A, R>(
    first: A,
    free: impl FnOnce(A) -> Result<()>,
    rest: impl FnOnce(&A) -> Result<R>,
) -> Result<(A, R)> {
    match rest(&first) {
        Ok(rest) => Ok((first, rest)),
        Err(error) => {
            // Why there is no rest says more than why it cannot be freed.
            let _ = free(first);
            Err(error)
        }
    }
}
