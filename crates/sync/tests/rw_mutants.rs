//! Known-wrong variants of the reader-writer locks: each is caught, and what was caught can be seen again.

mod rw_support;

use farside::lock::frame::{Right, Variant};
use farside::rw::mutants::{self, Base};
use farside::{Rank, Result, RwLock, World};
use rw_support::{Style, Totals, is_caught, passes};

fn of<V: Variant>(base: Base) -> impl Fn(&World) -> Result<RwLock> + 'static {
    move |world: &World| mutants::lock::<V>(world, Rank(0), base)
}

#[test]
fn the_right_variants_pass() {
    for base in [Base::FompiRw] {
        passes(&format!("{base:?}"), "node:1", of::<Right>(base), (&["w", "r"], Style::Wait), &Totals::default());
    }
}

#[test]
fn a_word_for_readers_without_flush_is_caught() {
    is_caught("node:1", of::<mutants::WithoutFlush>(Base::FompiRw), &["w", "r"], Style::Wait, "after 1 writes");
}

#[test]
fn a_word_for_readers_that_is_taken_in_two_steps_is_caught() {
    is_caught("node:1", of::<mutants::InTwoSteps>(Base::FompiRw), &["w", "r"], Style::Wait, "inside at a time");
}
