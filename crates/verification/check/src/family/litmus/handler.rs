//! Waits for what a handler puts, which wakes nobody.

use farside::fabric::Region;
use farside::sim::program;
use farside::{Node, Rank};

use crate::check::{Check, Setup, Subject};
use crate::property::Promise;

const ONE: Rank = Rank(1);

/// Rank 0 asks the agent of rank 1 to put to a word of rank 1, which waits for it.
fn told_by_handler(_: &Setup) -> Subject {
    Subject::new(program(
        |world| {
            let words = world.words(1)?;
            let at = words.at(ONE, 0).word();
            let handler = world.serve(move |agent, _, _| {
                let to = Region::block(at.rank, at.segment, at.offset, 8);
                vec![u8::from(agent.put(&to, &1u64.to_ne_bytes()).is_ok())]
            })?;
            Ok((words, handler))
        },
        |world, (words, handler)| {
            if world.rank() == ONE {
                return world.wait(words.at(ONE, 0), |flag| flag != 0).map(drop);
            }
            let node = Node(world.topology().nodes() - 1);
            world.call(node, handler, &[]).map(drop)
        },
    ))
}

/// Returns the wrong variants, with both ranks on one node, and on two.
pub(super) fn wrong() -> [Check; 2] {
    let check = |name, setup: Setup| {
        Check::new(name, "waits for a word that a handler puts to", told_by_handler)
            .setup(setup)
            .mutant(Promise::Progress, "a plain put wakes no rank")
    };
    [
        check("litmus/wrong-handler-put-wakes", Setup::new(2)),
        check("litmus/wrong-handler-put-wakes-far", Setup::new(2).topology("node:2")),
    ]
}
