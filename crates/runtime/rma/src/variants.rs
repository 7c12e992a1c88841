//! How protocols name their known-wrong variants.

/// Known-wrong variants of a protocol, each of which leaves one step of its trait `Variant` out,
/// for the checker to find out.
///
/// ```
/// trait Variant {
///     const FLUSHES: bool = true;
/// }
///
/// farside_rma::wrong_variants! {
///     /// Passes on what has not landed.
///     WithoutFlush: FLUSHES;
/// }
///
/// assert!(!WithoutFlush::FLUSHES);
/// ```
#[macro_export]
macro_rules! wrong_variants {
    ($($(#[$doc:meta])* $name:ident: $step:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name;
        impl Variant for $name {
            const $step: bool = false;
        }
    )* };
}
