//! Litmus tests: for each promise of the memory model, a small program with all its outcomes. Each
//! outcome that the model allows must appear, and none that it forbids.

mod handler;
mod without_order;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use farside::sim::program;
use farside::{Op, Rank, Result, Words, World};

use crate::check::{Check, Setup, Subject};
use crate::family::wrong;
use crate::property::Promise;
use without_order::WITHOUT_ORDER;

#[derive(Clone, Copy)]
struct Litmus {
    name: &'static str,
    about: &'static str,
    ranks: u32,
    topology: Option<&'static str>,
    torn: bool,
    /// The observations of all ranks, one after the other: exactly these are possible.
    outcomes: &'static [&'static str],
    /// The program of a rank; it returns what it has observed.
    rank: fn(&World, &Words) -> Result<String>,
}

/// The number of words of each rank.
const WORDS: usize = 4;

impl Litmus {
    const fn new(
        name: &'static str,
        about: &'static str,
        ranks: u32,
        outcomes: &'static [&'static str],
        rank: fn(&World, &Words) -> Result<String>,
    ) -> Litmus {
        Litmus { name, about, ranks, topology: None, torn: false, outcomes, rank }
    }

    fn subject(self) -> Subject {
        let appeared: Rc<RefCell<BTreeSet<String>>> = Rc::default();
        let seen: Rc<RefCell<Vec<Option<String>>>> = Rc::default();
        let (at_start, gathered) = (seen.clone(), appeared.clone());
        let program = program(
            move |world| {
                *at_start.borrow_mut() = vec![None; world.size() as usize];
                world.words(WORDS)
            },
            move |world, words| {
                let mine = (self.rank)(world, &words)?;
                seen.borrow_mut()[world.rank().index()] = Some(mine);
                let Some(all) = seen.borrow().iter().cloned().collect::<Option<String>>() else {
                    return Ok(());
                };
                if !self.outcomes.contains(&&*all) {
                    return Err(wrong(format!("the outcome {all:?} is forbidden")));
                }
                gathered.borrow_mut().insert(all);
                Ok(())
            },
        );
        let in_the_end = Box::new(move || {
            let missing: Vec<&str> = self
                .outcomes
                .iter()
                .copied()
                .filter(|outcome| !appeared.borrow().contains(*outcome))
                .collect();
            if missing.is_empty() {
                Ok(())
            } else {
                Err(format!("allowed, and never seen: {}", missing.join(", ")))
            }
        });
        Subject { program, in_the_end }
    }

    fn check(self) -> Check {
        let mut setup = Setup::new(self.ranks);
        setup.topology = self.topology.map(str::to_owned);
        setup.torn = self.torn;
        Check::new(self.name, self.about, move |_| self.subject()).setup(setup)
    }
}

const ZERO: Rank = Rank(0);

fn nothing() -> Result<String> {
    Ok(String::new())
}

fn gets(world: &World, words: &Words, which: &[usize]) -> Result<String> {
    which.iter().map(|&word| Ok(world.get_value(words.at(ZERO, word))?.to_string())).collect()
}

fn loads(world: &World, words: &Words, which: &[usize]) -> Result<String> {
    which.iter().map(|&word| Ok(world.load(words.at(ZERO, word))?.to_string())).collect()
}

/// Rank 0 writes data (word 1), then a flag (word 0), with `order` in between; rank 1 reads the
/// flag, then the data.
fn message_passing(
    world: &World,
    words: &Words,
    order: fn(&World) -> Result<()>,
) -> Result<String> {
    if world.rank() == ZERO {
        world.put_value(1, words.at(ZERO, 1))?;
        order(world)?;
        world.put_value(1, words.at(ZERO, 0))?;
        return nothing();
    }
    gets(world, words, &[0, 1])
}

/// Message passing with the flag at rank 1.
fn message_passing_apart(
    world: &World,
    words: &Words,
    order: fn(&World) -> Result<()>,
) -> Result<String> {
    if world.rank() == ZERO {
        world.put_value(1, words.at(ZERO, 1))?;
        order(world)?;
        world.put_value(1, words.at(Rank(1), 0))?;
        return nothing();
    }
    let flag = world.get_value(words.at(Rank(1), 0))?;
    Ok(format!("{flag}{}", world.get_value(words.at(ZERO, 1))?))
}

/// Each of two ranks writes a word and reads the other's.
fn store_buffering(
    world: &World,
    words: &Words,
    order: fn(&World) -> Result<()>,
) -> Result<String> {
    let me = world.rank().index();
    world.put_value(1, words.at(ZERO, me))?;
    order(world)?;
    gets(world, words, &[1 - me])
}

/// Rank 0 writes a word twice and looks.
fn same_word(world: &World, words: &Words, order: fn(&World) -> Result<()>) -> Result<String> {
    world.put_value(1, words.at(ZERO, 0))?;
    order(world)?;
    world.put_value(2, words.at(ZERO, 0))?;
    world.flush(ZERO)?;
    gets(world, words, &[0])
}

fn unordered(_: &World) -> Result<()> {
    Ok(())
}

fn fenced(world: &World) -> Result<()> {
    world.fence()
}

fn flushed(world: &World) -> Result<()> {
    world.flush_all()
}

/// Rank 0 sends data and a signal, rank 1 waits for it and reads.
fn signalled(
    world: &World,
    words: &Words,
    send: fn(&World, &Words) -> Result<()>,
) -> Result<String> {
    if world.rank() == ZERO {
        send(world, words)?;
        return nothing();
    }
    world.wait(words.at(Rank(1), 0), |flag| flag == 1)?;
    Ok(world.get_value(words.at(Rank(1), 1))?.to_string())
}

/// Two ranks write a word each, two read both, in opposite orders.
fn independent_reads(world: &World, words: &Words) -> Result<String> {
    match world.rank().0 {
        writer @ 0..2 => world.store(words.at(ZERO, writer as usize), 1).map(|()| String::new()),
        2 => loads(world, words, &[0, 1]),
        _ => loads(world, words, &[1, 0]),
    }
}

/// A word is written twice in order, and read twice.
fn coherence(world: &World, words: &Words) -> Result<String> {
    if world.rank() == ZERO {
        world.store(words.at(ZERO, 0), 1)?;
        world.store(words.at(ZERO, 0), 2)?;
        return nothing();
    }
    loads(world, words, &[0, 0])
}

/// Every rank adds to a word; the last to be done must find all of it.
fn accumulates(_: &Setup) -> Subject {
    Subject::new(program(
        |world| Ok((world.window::<i64>(1)?, world.words(1)?)),
        |world, (sums, done)| {
            world.accumulate(1, &[1], sums.at(ZERO, 0))?;
            world.flush(ZERO)?;
            if world.fetch_add(done.at(ZERO, 0), 1)? + 1 < u64::from(world.size()) {
                return Ok(());
            }
            match world.get_value(sums.at(ZERO, 0))? {
                all if all == i64::from(world.size()) => Ok(()),
                some => Err(wrong(format!("an addition was lost: {some}"))),
            }
        },
    ))
}

/// Every rank increases an element and fetches what it was: no two may have found the same.
fn get_accumulates(_: &Setup) -> Subject {
    Subject::new(program(
        |world| Ok((world.window::<f64>(2)?, world.words(1)?)),
        |world, (numbers, drawn)| {
            let mut old = [0.0; 2];
            world.get_accumulate(Op::Sum, &[1.0, 1.0], numbers.at(ZERO, 0), &mut old)?;
            if old[0] != old[1] {
                return Err(wrong(format!("half of an accumulate was fetched: {old:?}")));
            }
            let bit = 1 << old[0] as u64;
            if world.fetch_or(drawn.at(ZERO, 0), bit)? & bit != 0 {
                return Err(wrong(format!("{} was fetched twice", old[0])));
            }
            Ok(())
        },
    ))
}

/// The same with a get and an accumulate, which are two steps.
fn gets_and_accumulates(_: &Setup) -> Subject {
    Subject::new(program(
        |world| Ok((world.window::<f64>(1)?, world.words(1)?)),
        |world, (numbers, drawn)| {
            let old = world.get_value(numbers.at(ZERO, 0))?;
            world.accumulate(1.0, &[1.0], numbers.at(ZERO, 0))?;
            world.flush(ZERO)?;
            let bit = 1 << old as u64;
            if world.fetch_or(drawn.at(ZERO, 0), bit)? & bit != 0 {
                return Err(wrong(format!("{old} was fetched twice")));
            }
            Ok(())
        },
    ))
}

fn long(world: &World, words: &Words) -> Result<String> {
    if world.rank() == ZERO {
        world.put(&[1, 1], words.at(ZERO, 0))?;
        return nothing();
    }
    let mut both = [0; 2];
    world.get(words.at(ZERO, 0), &mut both)?;
    Ok(format!("{}{}", both[0], both[1]))
}

/// Rank 0 puts a word to rank 1 and then meets it; rank 1 reads.
fn met(world: &World, words: &Words, meet: fn(&World) -> Result<()>) -> Result<String> {
    if world.rank() == ZERO {
        world.put_value(1, words.at(Rank(1), 0))?;
    }
    meet(world)?;
    if world.rank() == ZERO {
        nothing()
    } else {
        Ok(world.get_value(words.at(Rank(1), 0))?.to_string())
    }
}

const ALL_OF_TWO: &[&str] = &["00", "01", "10", "11"];

const WITH_ORDER: &[Litmus] = &[
    Litmus::new(
        "litmus/message-passing-fence",
        "a fence orders two puts to a rank",
        2,
        &["00", "01", "11"],
        |w, x| message_passing(w, x, fenced),
    ),
    Litmus::new(
        "litmus/message-passing-flush",
        "a flush orders puts to any ranks",
        2,
        &["00", "01", "11"],
        |w, x| message_passing_apart(w, x, flushed),
    ),
    Litmus::new(
        "litmus/fence-atomic",
        "a fence orders a put ahead of an atomic",
        2,
        &["00", "01", "11"],
        |w, x| {
            if w.rank() == ZERO {
                w.put_value(1, x.at(ZERO, 1))?;
                w.fence()?;
                w.fetch_add(x.at(ZERO, 0), 1)?;
                return nothing();
            }
            Ok(format!("{}{}", w.load(x.at(ZERO, 0))?, w.get_value(x.at(ZERO, 1))?))
        },
    ),
    Litmus::new(
        "litmus/store-buffering-flush",
        "a flush comes ahead of later gets",
        2,
        &["01", "10", "11"],
        |w, x| store_buffering(w, x, flushed),
    ),
    Litmus::new(
        "litmus/load-buffering",
        "a get is complete before what comes after it",
        2,
        &["00", "01", "10"],
        |w, x| {
            let me = w.rank().index();
            let seen = gets(w, x, &[1 - me])?;
            w.put_value(1, x.at(ZERO, me))?;
            Ok(seen)
        },
    ),
    Litmus::new(
        "litmus/same-word-fence",
        "a fence orders two puts to a word",
        1,
        &["2"],
        |w, x| same_word(w, x, fenced),
    ),
    Litmus::new(
        "litmus/get-after-put-flush",
        "a flush orders a put ahead of a get",
        1,
        &["1"],
        |w, x| {
            w.put_value(1, x.at(ZERO, 0))?;
            w.flush(ZERO)?;
            gets(w, x, &[0])
        },
    ),
    Litmus::new("litmus/put-signal", "the data is there before the signal", 2, &["1"], |w, x| {
        signalled(w, x, |w, x| w.put_signal(&[1], x.at(Rank(1), 1), 1, x.at(Rank(1), 0)))
    }),
    Litmus::new(
        "litmus/put-signal-add",
        "all data is there before the sum of the signals",
        3,
        &["11"],
        |w, x| {
            if w.rank() != ZERO {
                let me = w.rank().index();
                w.put_signal_add(&[1], x.at(ZERO, me), 1, x.at(ZERO, 0))?;
                return nothing();
            }
            w.wait(x.at(ZERO, 0), |count| count == 2)?;
            gets(w, x, &[1, 2])
        },
    ),
    Litmus::new(
        "litmus/fence-add",
        "a fence orders a put ahead of a posted add",
        2,
        &["1"],
        |w, x| {
            signalled(w, x, |w, x| {
                w.put_value(1, x.at(Rank(1), 1))?;
                w.fence()?;
                w.add(x.at(Rank(1), 0), 1)
            })
        },
    ),
    Litmus::new(
        "litmus/fence-signal",
        "a fence orders a put ahead of a signal",
        2,
        &["1"],
        |w, x| {
            signalled(w, x, |w, x| {
                w.put_value(1, x.at(Rank(1), 1))?;
                w.fence()?;
                w.signal(x.at(Rank(1), 0), 1)
            })
        },
    ),
    Litmus::new(
        "litmus/third-rank",
        "what was flushed is seen by whoever is told",
        3,
        &["1"],
        |w, x| match w.rank().0 {
            0 => {
                w.put_value(1, x.at(ZERO, 1))?;
                w.flush(ZERO)?;
                w.signal(x.at(Rank(1), 0), 1)?;
                nothing()
            }
            1 => {
                w.wait(x.at(Rank(1), 0), |flag| flag == 1)?;
                w.signal(x.at(Rank(2), 0), 1)?;
                nothing()
            }
            _ => {
                w.wait(x.at(Rank(2), 0), |flag| flag == 1)?;
                gets(w, x, &[1])
            }
        },
    ),
    Litmus::new(
        "litmus/coherence",
        "a word goes forward only",
        2,
        &["00", "01", "02", "11", "12", "22"],
        coherence,
    ),
    Litmus::new(
        "litmus/independent-reads",
        "all agree on the order of atomics",
        4,
        // Without 10 and 10: each reader would have seen its own writer first.
        &[
            "0000", "0001", "0010", "0011", "0100", "0101", "0110", "0111", "1000", "1001", "1011",
            "1100", "1101", "1110", "1111",
        ],
        independent_reads,
    ),
    Litmus::new(
        "litmus/tickets",
        "each number is drawn once",
        3,
        &["012", "021", "102", "120", "201", "210"],
        |w, x| Ok(w.fetch_add(x.at(ZERO, 0), 1)?.to_string()),
    ),
    Litmus::new(
        "litmus/adds",
        "no posted addition is lost, and a sync completes them",
        2,
        &["33"],
        |w, x| {
            w.add(x.at(ZERO, 0), 1 + u64::from(w.rank().0))?;
            w.sync()?;
            loads(w, x, &[0])
        },
    ),
    Litmus {
        torn: true,
        ..Litmus::new(
            "litmus/put-signal-torn",
            "all of the data is there before the signal",
            2,
            &["11"],
            |w, x| {
                if w.rank() == ZERO {
                    w.put_signal(&[1, 1], x.at(Rank(1), 1), 1, x.at(Rank(1), 0))?;
                    return nothing();
                }
                w.wait(x.at(Rank(1), 0), |flag| flag == 1)?;
                Ok(format!("{}{}", w.get_value(x.at(Rank(1), 1))?, w.get_value(x.at(Rank(1), 2))?))
            },
        )
    },
    Litmus::new(
        "litmus/wake",
        "a put may be seen by who still looks, and a signal wakes who sleeps",
        2,
        &["1", "2"],
        |w, x| {
            if w.rank() == ZERO {
                told_by_put(w, x)?;
                w.fence()?;
                w.signal(x.at(Rank(1), 0), 2)?;
                return nothing();
            }
            waited(w, x)
        },
    ),
    Litmus::new(
        "litmus/wake-before",
        "a put that has landed before the wait begins is seen",
        2,
        &["1"],
        |w, x| {
            if w.rank() == ZERO {
                told_by_put(w, x)?;
                w.flush(Rank(1))?;
                w.signal(x.at(Rank(1), 1), 1)?;
                return nothing();
            }
            w.wait(x.at(Rank(1), 1), |flag| flag != 0)?;
            waited(w, x)
        },
    ),
    Litmus::new("litmus/sync", "after a sync, what was put before is there", 2, &["1"], |w, x| {
        met(w, x, World::sync)
    }),
];

/// Says that something is there by a plain put.
fn told_by_put(w: &World, x: &Words) -> Result<String> {
    w.put_value(1, x.at(Rank(1), 0))?;
    nothing()
}

fn waited(w: &World, x: &Words) -> Result<String> {
    Ok(w.wait(x.at(w.rank(), 0), |flag| flag != 0)?.to_string())
}

/// Returns waits for what a put says, which wakes nobody.
fn asleep() -> Vec<Check> {
    let far = |litmus: Litmus, name| Litmus { name, topology: Some("node:2"), ..litmus };
    let asleep: [Litmus; 2] = [
        Litmus::new(
            "litmus/wrong-put-wakes",
            "waits for a word that is only put to",
            2,
            &["1"],
            |w, x| if w.rank() == ZERO { told_by_put(w, x) } else { waited(w, x) },
        ),
        Litmus::new(
            "litmus/wrong-put-wakes-late",
            "does something else before it waits for a put",
            2,
            &["1"],
            |w, x| {
                if w.rank() == ZERO {
                    return told_by_put(w, x);
                }
                w.load(x.at(ZERO, 2))?;
                waited(w, x)
            },
        ),
    ];
    // Between nodes landings are counted, which must wake nobody who waits for something else.
    let asleep = asleep.into_iter().chain([
        far(asleep[0], "litmus/wrong-put-wakes-far"),
        far(asleep[1], "litmus/wrong-put-wakes-late-far"),
    ]);
    asleep
        .map(|wrong| wrong.check().mutant(Promise::Progress, "a plain put wakes no rank"))
        .collect()
}

/// Returns all litmus tests. Those with a wrong promise must be caught.
pub fn checks() -> Vec<Check> {
    let wrong = [
        Litmus::new(
            "litmus/wrong-forbidden",
            "promises that puts come in order",
            2,
            &["00", "01", "11"],
            |w, x| message_passing(w, x, unordered),
        )
        .check()
        .mutant(Promise::Order, "is forbidden"),
        Litmus::new(
            "litmus/wrong-allowed",
            "says that a fence orders nothing",
            2,
            ALL_OF_TWO,
            |w, x| message_passing(w, x, fenced),
        )
        .check()
        .mutant(Promise::Order, "never seen: 10"),
    ];
    let accumulate =
        Check::new("litmus/accumulate", "no addition is lost", accumulates).setup(Setup::new(3));
    let get_accumulate =
        Check::new("litmus/get-accumulate", "no two ranks fetch the same", get_accumulates)
            .setup(Setup::new(3));
    let in_two_steps = Check::new(
        "litmus/wrong-get-then-accumulate",
        "fetches and accumulates in two steps",
        gets_and_accumulates,
    )
    .setup(Setup::new(2))
    .mutant(Promise::Linearizability, "was fetched twice");
    let litmus = WITHOUT_ORDER.iter().chain(WITH_ORDER).map(|litmus| match litmus.name {
        "litmus/same-word" => litmus.check().unordered("shows what becomes of such stores"),
        _ => litmus.check(),
    });
    litmus
        .chain([accumulate, get_accumulate, in_two_steps])
        .chain(wrong)
        .chain(asleep())
        .chain(handler::wrong())
        .collect()
}
