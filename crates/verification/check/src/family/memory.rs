//! Memory that comes and goes: windows that are freed while operations are on their way, handlers
//! that are called as soon as they are offered, and looks at operations that may be complete.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use farside::sim::program;
use farside::{Node, Rank, Result, Window, World};
use farside_rma::group::steps;

use super::wrong;
use crate::check::{Check, Setup, Subject};
use crate::property::Promise;

/// Every rank puts to the next one's part of a window, and all free it.
fn frees(_: &Setup) -> Subject {
    Subject::new(program(
        |world| world.window::<u64>(1),
        |world: &World, window: Window<u64>| {
            let next = Rank((world.rank().0 + 1) % world.size());
            world.put_value(1, window.at(next, 0))?;
            window.free(world)?;
            // An operation that has found no memory says so here.
            world.flush(next)
        },
    ))
}

/// Windows are made and freed, and made again in other memory.
fn makes_again(setup: &Setup) -> Subject {
    let rounds = u64::from(setup.rounds);
    Subject::new(program(
        |_| Ok(()),
        move |world: &World, ()| {
            let next = Rank((world.rank().0 + 1) % world.size());
            for round in 1..=rounds {
                let window = world.window::<u64>(1)?;
                world.put_value(round, window.at(next, 0))?;
                world.sync()?;
                let seen = window.own().get(0)?;
                if seen != round {
                    return Err(wrong(format!("{} finds {seen} in round {round}", world.rank())));
                }
                window.free(world)?;
            }
            Ok(())
        },
    ))
}

/// Every rank offers a handler, and calls that of the next one's node.
fn serves(_: &Setup) -> Subject {
    Subject::new(program(
        |_| Ok(()),
        |world: &World, ()| {
            let me = world.rank().0 as u8;
            let handler = world.serve(move |_, _, asked| vec![me + asked[0]])?;
            let node = Node((world.rank().0 + 1) % world.topology().nodes());
            let runner = world.topology().leader_of(node)?;
            let answer = world.call(node, handler, &[1])?;
            if answer != [runner.0 as u8 + 1] {
                return Err(wrong(format!("{node} answers {answer:?}")));
            }
            // Who leaves serves no more.
            world.barrier()
        },
    ))
}

/// Rank 0 looks once whether its get is complete: it is, or it is not.
fn looks(heeds: bool) -> impl Fn(&Setup) -> Subject {
    move |_| {
        let seen = Rc::new(RefCell::new(BTreeSet::new()));
        let gathered = seen.clone();
        let body = move |world: &World, window: Window<u64>| -> Result<()> {
            if world.rank() != Rank(0) {
                return world.put_value(7, window.at(Rank(1), 0));
            }
            let mut get = world.get_nb(window.at(Rank(1), 0), 1)?;
            let is_done = get.is_done()?;
            gathered.borrow_mut().insert(is_done);
            // What is not complete has to be waited for.
            if !heeds && is_done {
                return Err(wrong("takes it for granted that the get is under way"));
            }
            get.wait().map(drop)
        };
        let in_the_end = Box::new(move || match seen.borrow().len() {
            2 => Ok(()),
            _ => Err(format!("only {:?} was found", seen.borrow())),
        });
        let program = program(|world| world.window::<u64>(1), body);
        Subject { program, in_the_end }
    }
}

/// All checks of memory that comes and goes.
pub fn checks() -> Vec<Check> {
    vec![
        Check::new("memory/free", "what was put has landed before memory goes", frees)
            .setup(Setup::new(3)),
        Check::new("memory/free-far", "the same on several nodes", frees)
            .setup(Setup::new(2).topology("node:2")),
        Check::new("memory/again", "memory comes again where it was freed", makes_again)
            .setup(Setup::new(2).rounds(2)),
        Check::new("memory/free-without-flush", "frees memory that a put is on its way to", frees)
            .omitting(steps::FLUSH_BEFORE_FREE)
            .mutant(Promise::Visibility, "segment"),
        Check::new("memory/serve", "a handler is offered by all before any rank calls it", serves),
        Check::new("memory/serve-far", "the same on several nodes", serves)
            .setup(Setup::new(2).topology("node:2")),
        Check::new("memory/serve-without-meeting", "calls what is not offered yet", serves)
            .setup(Setup::new(2).topology("node:2"))
            .omitting(steps::MEET_TO_SERVE)
            .mutant(Promise::Separation, "no handler"),
        Check::new("memory/look", "a look finds an operation complete, or not", looks(true))
            .setup(Setup::new(2).looks()),
        Check::new("memory/look-never", "relies on an operation being under way", looks(false))
            .setup(Setup::new(2).looks())
            .mutant(Promise::Order, "takes it for granted"),
    ]
}
