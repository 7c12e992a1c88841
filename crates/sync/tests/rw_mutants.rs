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
    for base in [Base::FompiRw, Base::RmaRw, Base::Slots] {
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

#[test]
fn a_tree_for_writers_without_flush_is_caught() {
    is_caught("node:1", of::<mutants::WithoutFlush>(Base::RmaRw), &["w", "r"], Style::Wait, "after 1 writes");
}

#[test]
fn a_tree_that_climbs_too_early_is_caught() {
    is_caught("node:2", of::<mutants::ClimbsTooEarly>(Base::RmaRw), &["ww", "w", ""], Style::Wait, "");
}

#[test]
fn printed_readers_and_writers_meet() {
    is_caught("node:1", of::<mutants::WithoutDrain>(Base::RmaRw), &["w", "r"], Style::Wait, "inside at a time");
}

#[test]
fn printed_readers_wait_for_a_writer_that_has_left() {
    is_caught("node:1", of::<mutants::WithoutAskingAgain>(Base::RmaRw), &["w", "rr"], Style::Wait, "had left");
}

#[test]
fn printed_resets_take_a_mark_away() {
    is_caught("node:1", of::<mutants::ResetsInSteps>(Base::RmaRw), &["w", "rr"], Style::Wait, "had left");
}

#[test]
fn a_writer_that_nobody_tells_is_caught() {
    for base in [Base::RmaRw, Base::Slots] {
        is_caught("node:1", of::<mutants::WithoutWaking>(base), &["w", "r"], Style::Wait, "had left");
    }
}

#[test]
fn slots_without_flush_are_caught() {
    is_caught("node:1", of::<mutants::WithoutFlush>(Base::Slots), &["w", "r"], Style::Wait, "after 1 writes");
}

#[test]
fn slots_without_drain_are_caught() {
    is_caught("node:1", of::<mutants::WithoutDrain>(Base::Slots), &["w", "r"], Style::Wait, "");
}

#[test]
fn slots_that_linger_in_two_steps_are_caught() {
    is_caught("node:1", of::<mutants::InTwoSteps>(Base::Slots), &["w", "r"], Style::Wait, "had left");
}
