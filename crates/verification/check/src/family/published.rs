//! Faults that were found in published one-sided programs and libraries, each as it was and cured.
//! `docs/published-bugs.md` tells their stories.

use farside::sim::program;
use farside::{Rank, Result, Words, World};

use crate::check::{Check, Setup, Subject};
use crate::family::wrong;
use crate::property::Promise;

/// The words of each rank.
const WORDS: usize = 4;

/// A program of a rank, which is right or as it was.
type Run = fn(&World, &Words, bool) -> Result<()>;

struct Bug {
    /// The name and the description of the program that is right.
    right: (&'static str, &'static str),
    wrong: (&'static str, &'static str),
    promise: Promise,
    saying: &'static str,
    ranks: u32,
    /// Why the faulty one may post stores to one word that overtake each other.
    unordered: Option<&'static str>,
    run: Run,
}

const BUGS: [Bug; 5] = [
    Bug {
        right: ("published/barrier", "what was put is flushed before ranks meet"),
        wrong: (
            "published/barrier-without-fence",
            "ranks meet by flags that may overtake what was put",
        ),
        promise: Promise::Visibility,
        saying: "was not there after the barrier",
        ranks: 3,
        unordered: None,
        run: meets_after_put,
    },
    Bug {
        right: ("published/flags", "the flags of two barriers in a row are fenced"),
        wrong: (
            "published/flags-overtake",
            "the flag of the next barrier may land before that of this one",
        ),
        promise: Promise::Progress,
        saying: "has already left the job",
        ranks: 2,
        unordered: Some(super::IS_THE_FAULT),
        run: meets_twice,
    },
    Bug {
        right: ("published/flag", "a fence stands between data and flag"),
        wrong: (
            "published/flag-overtakes-data",
            "an atomic flag follows its data, and nothing orders them",
        ),
        promise: Promise::Visibility,
        saying: "the flag was there, and its data was not",
        ranks: 2,
        unordered: None,
        run: data_then_flag,
    },
    Bug {
        right: ("published/counter", "a request has a number, and is executed once"),
        wrong: (
            "published/counter-repeated",
            "a request whose answer is late is sent again, and executed again",
        ),
        promise: Promise::Linearizability,
        saying: "counted 2 times",
        ranks: 2,
        unordered: None,
        run: asks_twice,
    },
    Bug {
        right: ("published/readers", "readers are counted in a field that is wide enough"),
        wrong: (
            "published/readers-overflow",
            "readers are counted in 2 bits, below the bit of the writer",
        ),
        promise: Promise::Exclusion,
        saying: "taken for a writer",
        ranks: 2,
        unordered: None,
        run: readers_come,
    },
];

/// The checks of this family.
pub fn checks() -> Vec<Check> {
    BUGS.iter().flat_map(Bug::checks).collect()
}

impl Bug {
    fn checks(&self) -> [Check; 2] {
        let check = |(name, about): (&'static str, &'static str), is_right: bool| {
            let run = self.run;
            let subject = move |_: &Setup| {
                let body = move |world: &World, words: Words| run(world, &words, is_right);
                Subject::new(program(|world| world.words(WORDS), body))
            };
            let setup = Setup::new(self.ranks).topology(&format!("node:{}", self.ranks));
            Check::new(name, about, subject).setup(setup)
        };
        let wrong = check(self.wrong, false).mutant(self.promise, self.saying);
        [check(self.right, true), Check { unordered: self.unordered, ..wrong }]
    }
}

/// Every rank puts to the next, all meet in a dissemination barrier of flags, and each looks at
/// what was put to it.
fn meets_after_put(world: &World, words: &Words, is_flushed: bool) -> Result<()> {
    let (me, size) = (world.rank(), world.size());
    let after = |steps: u32| Rank((me.0 + steps) % size);
    world.put_value(7, words.at(after(1), 0))?;
    if is_flushed {
        world.flush(after(1))?;
    }
    let mut distance = 1;
    let mut round = 1;
    while distance < size {
        world.signal(words.at(after(distance), round), 1)?;
        world.wait(words.at(me, round), |flag| flag == 1)?;
        (distance, round) = (2 * distance, round + 1);
    }
    match world.get_value(words.at(me, 0))? {
        7 => Ok(()),
        _ => Err(wrong("what was put before was not there after the barrier")),
    }
}

/// Two ranks meet twice. Each says by a flag, which is set and not added to, how often it has come.
fn meets_twice(world: &World, words: &Words, is_fenced: bool) -> Result<()> {
    let (me, other) = (world.rank(), Rank(1 - world.rank().0));
    for meeting in 1..=2 {
        if is_fenced {
            world.fence()?;
        }
        world.signal(words.at(other, 0), meeting)?;
        world.wait(words.at(me, 0), |flag| flag >= meeting)?;
    }
    Ok(())
}

fn data_then_flag(world: &World, words: &Words, is_fenced: bool) -> Result<()> {
    let (data, flag) = (words.at(Rank(1), 0), words.at(Rank(1), 1));
    if world.rank() == Rank(0) {
        world.put_value(7, data)?;
        if is_fenced {
            world.fence()?;
        }
        return world.signal(flag, 1);
    }
    world.wait(flag, |flag| flag == 1)?;
    match world.get_value(data)? {
        7 => Ok(()),
        _ => Err(wrong("the flag was there, and its data was not")),
    }
}

/// Rank 0 asks rank 1 to count, and asks again if there is no answer yet. Rank 1 counts for each
/// request that comes; with numbers, for each number once.
fn asks_twice(world: &World, words: &Words, has_numbers: bool) -> Result<()> {
    let (requests, last, answer) =
        (words.at(Rank(1), 0), words.at(Rank(1), 1), words.at(Rank(0), 2));
    if world.rank() == Rank(0) {
        // The number of the request is in the low half, how often it was sent in the high one.
        world.signal(requests, 1 << 32 | 1)?;
        if world.load(answer)? == 0 {
            // It looks as if the request, or its answer, were lost.
            world.fence()?;
            world.signal(requests, 2 << 32 | 1)?;
        }
        world.flush(Rank(1))?;
        return world.signal(last, 1);
    }
    let (mut seen, mut done, mut count) = (0, 0, 0);
    loop {
        let found = world.load(requests)?;
        let number = found & u64::from(u32::MAX);
        if found != seen {
            seen = found;
            if !has_numbers || number != done {
                count += 1;
            }
            done = number;
            world.signal(answer, count)?;
        } else if world.load(last)? == 1 && world.load(requests)? == seen {
            break;
        } else {
            world.relax()?;
        }
    }
    match count {
        1 => Ok(()),
        count => Err(wrong(format!("one request was counted {count} times"))),
    }
}

/// Rank 0 reads four times, which it counts in the low bits of a word that has the writer's bit
/// above them; rank 1 reads once and expects no writer, for there is none.
fn readers_come(world: &World, words: &Words, is_wide: bool) -> Result<()> {
    let bits = if is_wide { 8 } else { 2 };
    let lock = words.at(Rank(0), 0);
    let reads = if world.rank() == Rank(0) { 4 } else { 1 };
    for _ in 0..reads {
        if world.fetch_add(lock, 1)? >> bits != 0 {
            return Err(wrong("a count of readers was taken for a writer"));
        }
    }
    Ok(())
}
