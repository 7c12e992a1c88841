//! Known-wrong variants of the locks: each is caught, and what was caught can be seen again.

mod support;

use farside::lock::frame::{Right, Variant};
use farside::lock::mutants::{self, Base};
use farside::{Lock, Rank, Result, World};
use support::{Style, counting, counting_in_order, is_caught, is_caught_at_random, passes, passes_at_random};

fn of<V: Variant>(base: Base) -> impl Fn(&World) -> Result<Lock> + 'static {
    move |world: &World| mutants::lock::<V>(world, Rank(0), base)
}

#[test]
fn the_right_variants_pass() {
    for base in [Base::Ticket, Base::Mcs, Base::Spin, Base::Bypass, Base::Token] {
        passes(&format!("{base:?}"), 2, "node:1", &counting(of::<Right>(base), 1, Style::Wait));
    }
}

#[test]
fn a_queue_without_flush_is_caught() {
    is_caught(2, "node:1", &counting(of::<mutants::WithoutFlush>(Base::Mcs), 1, Style::Wait), "not counted");
}

#[test]
fn a_queue_without_a_second_look_is_caught() {
    is_caught(2, "node:1", &counting(of::<mutants::WithoutSecondLook>(Base::Mcs), 1, Style::Wait), "left");
}

#[test]
fn a_place_that_is_given_up_in_two_steps_is_caught() {
    is_caught(2, "node:1", &counting(of::<mutants::GivesUpInTwoSteps>(Base::Mcs), 1, Style::GiveUp), "");
}

#[test]
fn a_place_that_nobody_passes_over_is_caught() {
    is_caught(2, "node:1", &counting(of::<mutants::WithoutSkipping>(Base::Mcs), 2, Style::WalkAway), "");
}

#[test]
fn a_ticket_without_flush_is_caught() {
    is_caught(2, "node:1", &counting(of::<mutants::WithoutFlush>(Base::Ticket), 1, Style::Wait), "not counted");
}

#[test]
fn a_ticket_that_is_taken_in_two_steps_is_caught() {
    is_caught(2, "node:1", &counting(of::<mutants::InTwoSteps>(Base::Ticket), 1, Style::Wait), "");
}

#[test]
fn a_spin_lock_without_flush_is_caught() {
    is_caught(2, "node:1", &counting(of::<mutants::WithoutFlush>(Base::Spin), 1, Style::Wait), "not counted");
}

#[test]
fn a_spin_lock_that_is_taken_in_two_steps_is_caught() {
    is_caught(2, "node:1", &counting(of::<mutants::InTwoSteps>(Base::Spin), 1, Style::Wait), "");
}

#[test]
fn a_word_without_flush_is_caught() {
    is_caught(2, "node:1", &counting(of::<mutants::WithoutFlush>(Base::Bypass), 1, Style::Wait), "not counted");
}

#[test]
fn a_head_that_nobody_wakes_is_caught() {
    is_caught(2, "node:1", &counting(of::<mutants::WithoutWaking>(Base::Bypass), 1, Style::Wait), "left");
}

#[test]
fn a_bypass_without_bound_is_caught() {
    let wrong = counting_in_order(of::<mutants::WithoutBound>(Base::Bypass), 3, Style::Wait, 1);
    is_caught(2, "node:1", &wrong, "ahead of one");
    let right = counting_in_order(of::<Right>(Base::Bypass), 2, Style::Wait, 1);
    passes("Bypass", 2, "node:1", &right);
    let right = counting_in_order(of::<Right>(Base::Bypass), 20, Style::Wait, 1);
    passes_at_random("Bypass", 4, "node:1", &right, 300);
}

#[test]
fn a_server_without_flush_is_caught() {
    is_caught(2, "node:1", &counting(of::<mutants::WithoutFlush>(Base::Server), 1, Style::Wait), "not counted");
}

#[test]
fn a_hybrid_without_flush_is_caught() {
    is_caught(2, "node:2", &counting(of::<mutants::WithoutFlush>(Base::Hybrid), 1, Style::Wait), "not counted");
}

#[test]
fn a_hybrid_whose_ticket_is_taken_in_two_steps_is_caught() {
    is_caught(2, "node:1", &counting(of::<mutants::InTwoSteps>(Base::Hybrid), 1, Style::Wait), "");
}

#[test]
fn a_tree_without_flush_is_caught() {
    is_caught(3, "node:2", &counting(of::<mutants::WithoutFlush>(Base::Tree), 1, Style::Wait), "not counted");
}

#[test]
fn a_tree_that_releases_the_leaf_first_is_caught() {
    is_caught_at_random(3, "node:2", &counting(of::<mutants::LeafFirst>(Base::Tree), 3, Style::Wait), 20_000);
}

#[test]
fn a_token_without_flush_is_caught() {
    is_caught(2, "node:1", &counting(of::<mutants::WithoutFlush>(Base::Token), 1, Style::Wait), "not counted");
}

#[test]
fn a_token_with_one_node_is_caught() {
    is_caught(2, "node:1", &counting(of::<mutants::WithOneNode>(Base::Token), 2, Style::Wait), "");
}

#[test]
fn a_token_without_numbers_is_caught() {
    is_caught_at_random(8, "node:3", &counting(of::<mutants::WithoutNumbers>(Base::Token), 3, Style::Patient), 500);
}
