//! Threads of Rust programs, each with a context of its own: what one does counts as ordered with
//! what the others do, so nothing is reported that is not there; what races with other ranks is
//! found.

use std::sync::mpsc::channel;
use std::thread;

use farside::fabric::ProbeEvent;
use farside::{Rank, Result, World};

use crate::support::checked;

const RANKS: u32 = 2;

/// A second thread puts to the other rank. It flushes or not; then the first thread joins it, and
/// the ranks meet.
fn put_by_another_thread(world: &World, flushes: bool) -> Result<()> {
    let window = world.window::<u64>(1)?;
    let peer = Rank(1 - world.rank().0);
    let context = world.context()?;
    thread::scope(|scope| {
        let put = scope.spawn(|| {
            let context = context;
            context.put_value(7, window.at(peer, 0))?;
            if flushes { context.flush(peer) } else { Ok(()) }
        });
        put.join().expect("it does not panic")
    })?;
    world.barrier()?;
    window.own().get(0)?;
    world.sync()?;
    window.free(world)
}

/// Two threads take turns on memory of the other rank, by a channel that the checker does not see.
fn turns_by_a_channel(world: &World) -> Result<()> {
    let window = world.window::<u64>(1)?;
    let peer = Rank(1 - world.rank().0);
    let context = world.context()?;
    let (sender, receiver) = channel();
    thread::scope(|scope| {
        let second = scope.spawn(|| -> Result<u64> {
            let context = context;
            let receiver = receiver;
            receiver.recv().expect("the other thread sends");
            context.put_value(8, window.at(peer, 0))?;
            context.flush(peer)?;
            context.get_value(window.at(peer, 0))
        });
        world.put_value(7, window.at(peer, 0))?;
        world.flush(peer)?;
        sender.send(()).expect("the other thread is there");
        second.join().expect("it does not panic").map(drop)
    })?;
    world.sync()?;
    window.free(world)
}

#[test]
fn threads_of_a_rank_count_as_ordered() {
    for program in [turns_by_a_channel, |world: &World| put_by_another_thread(world, true)] {
        let report = checked(RANKS, program);
        assert!(report.races.is_empty(), "{report}");
        assert!(report.accesses > 0);
    }
}

#[test]
fn what_a_thread_has_not_flushed_races_with_another_rank() {
    let report = checked(RANKS, |world| put_by_another_thread(world, false));
    assert!(!report.races.is_empty(), "{report}");
}

#[test]
fn threads_beyond_those_that_are_told_apart_are_said_to_be_unseen() {
    for (strands, is_said) in [(63, false), (64, true)] {
        let report = checked(RANKS, |world| {
            let probe = world.probe().expect("a checked program has a probe");
            for _ in 0..strands {
                probe.event(ProbeEvent::NewStrand { from: Some(0) });
            }
            world.barrier()
        });
        let said = report.to_string();
        let unseen = "what threads of a rank do to each other";
        assert_eq!(said.contains(unseen), is_said, "{strands}: {said}");
    }
}
