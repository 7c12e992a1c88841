//! One test suite over every fabric and every way to be a rank.
//!
//! A test is a function of a [`World`] that every rank runs. `for_each_test!` lists them all, so
//! that a harness can make one test case of each, under the same name, whatever the ranks are:
//! threads, processes, far or near.

mod accumulates;
mod agents;
mod atomics;
pub mod churn;
mod collectives;
mod failures;
pub mod heirs;
mod layers;
mod memory;
mod nonblocking;
mod ordering;
mod teams;
mod transfers;

use std::time::Duration;

use farside::{Error, Result, World};
use farside_fabric::random::SplitMix;

/// How long a test may take before it counts as hanging.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A test: every rank runs it.
pub type Test = fn(&World) -> Result<()>;

macro_rules! tests {
    ($dollar:tt $($module:ident: $($name:ident)*;)*) => {
        /// Finds a test by its name.
        pub fn test(name: &str) -> Option<Test> {
            match name {
                $($(stringify!($name) => Some($module::$name),)*)*
                _ => None,
            }
        }

        /// Returns the group of a test, a row of the table of what works on which fabric.
        pub fn group(name: &str) -> Option<&'static str> {
            match name {
                $($(stringify!($name) => Some(stringify!($module)),)*)*
                _ => None,
            }
        }

        /// Calls the macro of that name with the names of all tests.
        #[macro_export]
        macro_rules! for_each_test {
            ($dollar callback:ident) => {
                $dollar callback! { $($($name)*)* }
            };
        }

        /// Makes a module in which each test is a test of its own, by a function of its name.
        #[macro_export]
        macro_rules! test_each {
            ($dollar module:ident, $dollar run:expr) => {
                mod $dollar module {
                    use super::*;
                    $($(#[test] fn $name() {
                        let run: fn(&'static str) = $dollar run;
                        run(stringify!($name))
                    })*)*
                }
            };
        }
    };
}

tests! { $
    memory: fresh_windows_are_zero parts_have_the_lengths_asked_for alignment_is_kept
        freed_memory_comes_back_zero own_part_is_memory words_are_symmetric
        many_windows_come_and_go a_window_can_be_cast too_much_memory_is_refused_by_all;
    transfers: put_and_get_round_trip neighbours_stay_untouched transfers_overlap_in_a_scope
        transfers_own_their_data strided_matches_the_reference vector_matches_the_reference
        strided_of_four_dimensions accumulate_scales_every_number
        accumulates_do_not_disturb_each_other every_accumulate_means_what_the_reference_says
        accumulates_of_all_ranks_meet every_value_is_fetched_once
        what_an_accumulate_fetched_has_landed accumulates_fetch_in_every_shape
        accumulates_that_make_no_sense_are_refused counters_count;
    atomics: every_atomic_means_what_the_reference_says tickets_are_unique swaps_lose_nothing
        compare_swap_counts pairs_change_together narrow_words_do_not_touch_their_neighbours
        bits_are_set_once atomics_can_be_started contexts_are_contenders
        posted_atomics_lose_nothing;
    ordering: a_pair_wakes_who_waits_for_either_half wait_returns_what_it_saw
        a_signal_comes_after_the_fenced_put put_signal_brings_its_data
        an_add_comes_after_the_fenced_put put_signal_add_brings_all_data
        flush_is_seen_by_a_third_rank wait_sees_atomics wait_wakes_a_sleeper wait_times_out
        time_alone_can_be_waited_for fence_orders_puts_to_one_rank
        flush_orders_a_put_before_a_later_get relax_lets_others_run ranks_wait_in_a_chain;
    collectives: barriers_in_a_row_separate barriers_and_broadcasts_alternate
        broadcast_from_every_root reduce_to_every_root all_reduce_gives_all_the_same_bits
        all_gather_keeps_the_order all_to_all_transposes collectives_in_a_row_do_not_mix
        collectives_go_on_past_the_end_of_their_numbers empty_collectives_are_fine
        sync_completes_puts sync_is_seen_by_all barriers_of_every_kind_alternate
        a_sync_and_a_barrier_are_a_disagreement scans_keep_the_order
        reductions_keep_the_order kept_handles_keep_their_results
        a_team_is_freed_after_its_words
        all_to_all_v_deals_unequal_parts collectives_fill_buffers usual_folds_of_all_numbers;
    nonblocking: barriers_can_be_started reductions_overlap_with_puts handles_can_be_dropped
        too_many_under_way_are_refused different_reductions_are_a_disagreement
        nonblocking_numbers_start_over teams_start_collectives who_is_missed_by_a_test_is_named;
    teams: teams_by_colour teams_are_independent teams_can_be_split_again a_team_of_one_node
        windows_of_a_team who_has_no_colour_has_no_team teams_come_and_go a_team_syncs
        a_team_of_all_ranks_in_another_order_syncs;
    agents: contexts_end_with_posted_calls calls_are_answered calls_from_everybody_are_counted
        a_handler_signals_a_waiter a_handler_reads_and_writes calls_that_cannot_be_served_are_errors
        a_call_that_nobody_serves_is_an_error many_threads_call
        calls_go_on_beside_answers_that_nobody_has_taken threads_call_several_nodes_at_once
        calls_go_on_without_the_first_rank locks_go_on_without_the_first_rank
        windows_go_on_without_the_first_rank;
    failures: out_of_range_is_named unknown_ranks_are_named freed_segments_are_refused
        misaligned_words_are_refused different_lengths_are_a_disagreement
        different_collectives_are_a_disagreement different_types_are_a_disagreement
        different_word_counts_are_a_disagreement who_left_early_is_missed
        who_left_in_order_is_not_missed freeing_different_windows_is_a_disagreement
        who_polls_the_left_is_told types_without_size_are_refused
        shapes_that_contradict_themselves_are_refused other_ranks_memory_is_not_waited_for
        strangers_have_no_part;
    layers: every_lock_excludes every_reader_writer_lock_excludes locks_of_agents_exclude
        epochs_of_every_design epochs_of_every_design_exclude arrays_add_patches tables_count
        aggregators_ask_and_answer pages_are_shared;
}

/// Names the directory for what passed and what was skipped, if somebody collects it.
pub const RECORD: &str = "FARSIDE_TEST_RECORD";

/// Notes that a test passed on a fabric, or was skipped there, for the table of what works.
pub fn record(fabric: &str, name: &str, outcome: &str) {
    let Some(directory) = std::env::var_os(RECORD) else { return };
    let group = group(name).expect("the test exists");
    let directory = std::path::Path::new(&directory).join(fabric).join(group);
    std::fs::create_dir_all(&directory).expect("the directory for records can be made");
    std::fs::write(directory.join(name), outcome).expect("a record can be written");
}

/// An assertion that is an error of the rank instead of a panic, so that the other ranks hear of
/// it.
fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::Program(format!("test failed: {}", what()))) }
}

fn ensure_eq<T: PartialEq + std::fmt::Debug>(left: T, right: T, what: &str) -> Result<()> {
    ensure(left == right, || format!("{what}: {left:?} is not {right:?}"))
}

/// Numbers that are the same on every rank: tests must not depend on chance.
struct Numbers(SplitMix);

impl Numbers {
    fn new(seed: u64) -> Numbers {
        Numbers(SplitMix::new(seed))
    }

    fn next(&mut self) -> u64 {
        self.0.next()
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0.below(limit as u64) as usize
    }
}
