//! What the protocols of the hash tables must do, and a known-wrong variant leaves out.

/// The steps without which a protocol is wrong. All of them are taken by [`Right`]; the wrong ones
/// exist for the checker, which must find each of them out. A protocol is compiled from the same
/// lines for every variant.
pub trait Variant: 'static {
    /// Looks, after it has read a bucket, whether it has changed meanwhile.
    const VALIDATES: bool = true;
    /// Orders what an entry says ahead of the word that makes it visible.
    const ORDERS: bool = true;
    /// Looks whether a bucket was split since this rank learned of its shape.
    const LOOKS_AT_DEPTH: bool = true;
    /// Marks a bucket whose other half is complete, so that a rank that finds it left behind goes
    /// on instead of back. Under a lock the new depth is the mark.
    const MARKS_SPLITS: bool = true;
    /// Never again uses the cells of a bucket that a lost rank may still write to.
    const ABANDONS: bool = true;
    /// Looks for its key among the elements that came meanwhile.
    const LOOKS_AGAIN: bool = true;
    /// Believes the first of several looks at a bucket, for all keys of a batch.
    const LOOKS_ONCE: bool = true;
    /// Holds the bucket that it takes empty cells from.
    const SWEEPS_HELD: bool = true;
}

/// The right one.
#[derive(Debug)]
pub struct Right;

impl Variant for Right {}

/// Known-wrong variants, for the checker to find out.
pub mod mutants {
    use super::Variant;

    farside_rma::wrong_variants! {
        /// Believes what it has read during a write.
        WithoutValidation: VALIDATES;
        /// Makes an entry visible before it has landed.
        WithoutOrder: ORDERS;
        /// Looks for its key in a bucket that has been split.
        WithoutDepth: LOOKS_AT_DEPTH;
        /// Goes back where a lost rank had split a bucket by half.
        WithoutMark: MARKS_SPLITS;
        /// Writes where a lost rank may still write.
        WithoutAbandoning: ABANDONS;
        /// Has a key twice, which two ranks inserted at once.
        WithoutSecondLook: LOOKS_AGAIN;
        /// Sends a later entry of a key ahead of an earlier one.
        LooksTwice: LOOKS_ONCE;
        /// Takes cells away from under a reader.
        SweepsUnseen: SWEEPS_HELD;
    }
}
