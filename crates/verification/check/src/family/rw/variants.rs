//! Variants of reader-writer locks, as the table has them.

use farside::{Rank, Result, RwLock, World};

use super::table::{VARIANTS, Variant};
use super::visits;
use crate::check::Check;
use crate::family::asking::Style;
use crate::family::name;
use crate::family::trial::tried;

/// Makes the lock of a variant in the memory of rank 0.
fn of(variant: &Variant) -> impl Fn(&World) -> Result<RwLock> + Clone + 'static + use<> {
    let (kind, is_narrow) = ((variant.kind)(), variant.is_narrow);
    move |world: &World| match is_narrow {
        true => RwLock::narrow(world, Rank(0), &kind),
        false => RwLock::of_kind(world, Rank(0), &kind),
    }
}

pub(super) fn checks() -> Vec<Check> {
    let explored = |variant: &Variant| {
        let subject = visits(of(variant), variant.trial.how, Style::Wait, &[]);
        tried(Check::new(name(&["rw/", variant.name]), variant.about, subject), variant)
    };
    VARIANTS.iter().map(explored).collect()
}
