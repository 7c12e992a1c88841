//! Litmus tests by the thousand: small programs that are generated, whose outcomes in the simulator
//! are compared with those that the [axioms] of the memory model allow.
//!
//! The two are written apart from each other: a difference is a fault of one of them.

pub mod axioms;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;

use farside::sim::{Policy, Progress, Reduction, explore, program, simulation};
use farside::{Rank, Result, Window, World};
use farside_fabric::random::SplitMix;

use axioms::Axioms;

/// A place in memory: a word of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// Whose memory.
    pub rank: u32,
    /// Which word.
    pub word: usize,
}

/// The words of each rank.
const WORDS: usize = 2;

/// One operation of a generated program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Posted: writes a value.
    Put(Location, u64),
    /// Posted: writes a value and then another one.
    PutSignal(Location, u64, Location, u64),
    /// Posted: writes a value atomically.
    Signal(Location, u64),
    /// Posted: adds atomically.
    Add(Location, u64),
    /// Reads.
    Get(Location),
    /// Reads atomically.
    Load(Location),
    /// Writes atomically, and returns when it has.
    Store(Location, u64),
    /// Adds atomically, and reads what was there.
    FetchAdd(Location, u64),
    /// Orders what was posted ahead of what is posted later to the same rank.
    Fence,
    /// Reads memory of the rank's own by itself.
    OwnGet(Location),
    /// Writes memory of the rank's own by itself.
    OwnSet(Location, u64),
    /// Waits until a word of the rank's own is not zero, and reads it.
    Wait(Location),
    /// Completes what was posted to a rank.
    Flush(u32),
    /// All ranks meet.
    Barrier,
    /// All ranks meet, and what they had posted has landed.
    Sync,
}

/// A generated program: the operations of each rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Litmus {
    /// The operations of each rank, in order.
    pub ranks: Vec<Vec<Operation>>,
}

/// What the reading operations of all ranks have read: rank by rank, in order.
pub type Outcome = Vec<Vec<u64>>;

/// The outcomes of a program in which two definitions differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The program.
    pub litmus: Litmus,
    /// What the axioms allow and the simulator never did.
    pub missing: BTreeSet<Outcome>,
    /// What the simulator did and the axioms forbid.
    pub forbidden: BTreeSet<Outcome>,
}

impl Operation {
    /// Returns whether it reads something that an outcome tells of.
    pub fn reads(self) -> bool {
        matches!(
            self,
            Operation::Get(_)
                | Operation::Load(_)
                | Operation::FetchAdd(..)
                | Operation::OwnGet(_)
                | Operation::Wait(_)
        )
    }

    /// Returns whether it touches memory of the rank's own directly.
    pub fn is_direct(self) -> bool {
        matches!(self, Operation::OwnGet(_) | Operation::OwnSet(..))
    }

    /// Returns whether a rank may do it: memory of its own only it reads and writes by itself, and
    /// waits for.
    fn is_allowed_at(self, rank: u32) -> bool {
        let is_own = self.is_direct() || matches!(self, Operation::Wait(_));
        !is_own || self.place().is_none_or(|place| place.rank == rank)
    }

    fn wakes(self, place: Location) -> bool {
        match self {
            Operation::PutSignal(_, _, at, _)
            | Operation::Signal(at, _)
            | Operation::Add(at, _)
            | Operation::Store(at, _)
            | Operation::FetchAdd(at, _) => at == place,
            _ => false,
        }
    }

    /// Returns whether it changes a place without waking a rank that waits for it.
    fn is_silent_at(self, place: Location) -> bool {
        match self {
            Operation::Put(at, _) | Operation::PutSignal(at, ..) | Operation::OwnSet(at, _) => {
                at == place
            }
            _ => false,
        }
    }

    /// The place that it reads or writes, the last one if it has two.
    fn place(self) -> Option<Location> {
        match self {
            Operation::Put(place, _)
            | Operation::PutSignal(_, _, place, _)
            | Operation::Signal(place, _)
            | Operation::Add(place, _)
            | Operation::Get(place)
            | Operation::Load(place)
            | Operation::Store(place, _)
            | Operation::FetchAdd(place, _)
            | Operation::OwnGet(place)
            | Operation::OwnSet(place, _)
            | Operation::Wait(place) => Some(place),
            Operation::Fence | Operation::Flush(_) | Operation::Barrier | Operation::Sync => None,
        }
    }

    fn is_collective(self) -> bool {
        matches!(self, Operation::Barrier | Operation::Sync)
    }

    fn execute(self, world: &World, words: &Window<u64>) -> Result<Option<u64>> {
        let at = |location: Location| words.at(Rank(location.rank), location.word);
        match self {
            Operation::Put(to, value) => world.put_value(value, at(to)).map(|()| None),
            Operation::PutSignal(to, value, flag, signal) => {
                world.put_signal(&[value], at(to), signal, at(flag)).map(|()| None)
            }
            Operation::Signal(to, value) => world.signal(at(to), value).map(|()| None),
            Operation::Add(to, value) => world.add(at(to), value).map(|()| None),
            Operation::Get(from) => world.get_value(at(from)).map(Some),
            Operation::Load(from) => world.load(at(from)).map(Some),
            Operation::Store(to, value) => world.store(at(to), value).map(|()| None),
            Operation::FetchAdd(to, value) => world.fetch_add(at(to), value).map(Some),
            Operation::OwnGet(from) => words.own().get(from.word).map(Some),
            Operation::OwnSet(to, value) => words.own().set(to.word, value).map(|()| None),
            Operation::Wait(word) => world.wait(at(word), |held| held != 0).map(Some),
            Operation::Fence => world.fence().map(|()| None),
            Operation::Flush(rank) => world.flush(Rank(rank)).map(|()| None),
            Operation::Barrier => world.barrier().map(|()| None),
            Operation::Sync => world.sync().map(|()| None),
        }
    }
}

impl Litmus {
    /// Returns all programs of `ranks` ranks with exactly `operations` operations each, of a small
    /// alphabet: those that read something.
    pub fn all(ranks: u32, operations: usize) -> Vec<Litmus> {
        let alphabet = alphabet(ranks);
        let positions = ranks as usize * operations;
        let total = alphabet.len().pow(positions as u32);
        let nth = |mut number: usize| {
            let mut next = || {
                let operation = alphabet[number % alphabet.len()];
                number /= alphabet.len();
                operation
            };
            let ranks = (0..ranks).map(|_| (0..operations).map(|_| next()).collect()).collect();
            Litmus { ranks }.with_values()
        };
        (0..total).map(nth).filter(Litmus::is_telling).collect()
    }

    /// Returns a random program of `ranks` ranks, with one to `operations` operations each.
    pub fn random(random: &mut SplitMix, ranks: u32, operations: usize) -> Litmus {
        let alphabet = alphabet(ranks);
        loop {
            let mut rank = |rank: u32| {
                let own: Vec<Operation> =
                    alphabet.iter().copied().filter(|one| one.is_allowed_at(rank)).collect();
                let count = 1 + random.below(operations as u64) as usize;
                (0..count).map(|_| own[random.below(own.len() as u64) as usize]).collect()
            };
            let litmus = Litmus { ranks: (0..ranks).map(&mut rank).collect() }.with_values();
            if litmus.is_telling() {
                return litmus;
            }
        }
    }

    /// Returns a random program of `ranks` ranks, with one to `operations` operations each, that
    /// reads or writes memory of its own directly, and has no collectives, which have schedules by
    /// the thousand.
    pub fn random_direct(random: &mut SplitMix, ranks: u32, operations: usize) -> Litmus {
        loop {
            let litmus = Litmus::random(random, ranks, operations);
            let mut all = litmus.ranks.iter().flatten();
            if all.clone().any(|one| one.is_direct()) && !all.any(|one| one.is_collective()) {
                return litmus;
            }
        }
    }

    /// Returns a random program of two ranks, of which one writes two places and the other reads
    /// them in the opposite order, with something between: what most promises are about.
    pub fn random_passing(random: &mut SplitMix) -> Litmus {
        let alphabet = alphabet(2);
        let mut pick = |wanted: fn(&Operation) -> bool| {
            let some: Vec<Operation> = alphabet.iter().copied().filter(wanted).collect();
            some[random.below(some.len() as u64) as usize]
        };
        let writes =
            |one: &Operation| !one.reads() && one.place().is_some() && one.is_allowed_at(0);
        let reads = |one: &Operation| {
            one.reads() && !matches!(one, Operation::FetchAdd(..)) && one.is_allowed_at(1)
        };
        let orders = |one: &Operation| one.place().is_none();
        loop {
            let (first, second) = (pick(writes), pick(writes));
            let (later, earlier) = (pick(reads), pick(reads));
            let ranks = vec![vec![first, pick(orders), second], vec![earlier, pick(orders), later]];
            let litmus = Litmus { ranks }.with_values();
            let is_crossed = first.place() == later.place() && second.place() == earlier.place();
            if is_crossed && litmus.is_telling() {
                return litmus;
            }
        }
    }

    /// Gives each operation that writes a value of its own.
    fn with_values(mut self) -> Litmus {
        let mut next = 0;
        let mut value = || {
            next += 1;
            1 << next
        };
        for operation in self.ranks.iter_mut().flatten() {
            match operation {
                Operation::Put(_, written)
                | Operation::Signal(_, written)
                | Operation::Add(_, written)
                | Operation::Store(_, written)
                | Operation::OwnSet(_, written)
                | Operation::FetchAdd(_, written) => *written = value(),
                Operation::PutSignal(_, written, _, signal) => {
                    (*written, *signal) = (value(), value());
                }
                _ => {}
            }
        }
        self
    }

    /// Whether something is read, all ranks do what they may, those of one rank at most wait, for
    /// what comes, and all ranks come to the same collectives.
    fn is_telling(&self) -> bool {
        let collectives = |rank: &Vec<Operation>| {
            let mut found = rank.clone();
            found.retain(|operation| operation.is_collective());
            found
        };
        let first = collectives(&self.ranks[0]);
        let allowed = |(rank, all): (usize, &Vec<Operation>)| {
            all.iter().all(|operation| operation.is_allowed_at(rank as u32))
        };
        self.ranks.iter().flatten().any(|operation| operation.reads())
            && self.ranks.iter().enumerate().all(allowed)
            && self.waits_end(!first.is_empty())
            && self.ranks.iter().all(|rank| collectives(rank) == first)
    }

    /// Whether every wait ends: one rank alone waits, and another, which it does not hold up, wakes
    /// it. A word that is waited for is changed by what wakes only.
    fn waits_end(&self, has_collectives: bool) -> bool {
        let waits = |(rank, all): (usize, &Vec<Operation>)| {
            let places = all.iter().filter_map(|one| match one {
                Operation::Wait(place) => Some(*place),
                _ => None,
            });
            (rank, places.collect::<Vec<_>>())
        };
        let waiting = self.ranks.iter().enumerate().map(waits);
        let waiting: Vec<_> = waiting.filter(|(_, places)| !places.is_empty()).collect();
        let [(rank, places)] = &waiting[..] else { return waiting.is_empty() };
        let others = || self.ranks.iter().enumerate().filter(|(other, _)| other != rank);
        let comes = |place: &Location| {
            others().flat_map(|(_, all)| all).any(|one| one.wakes(*place))
                && !self.ranks.iter().flatten().any(|one| one.is_silent_at(*place))
        };
        !has_collectives && places.iter().all(comes)
    }

    /// Returns every outcome that the simulator shows.
    pub fn explored(&self) -> Result<BTreeSet<Outcome>, String> {
        let all = self.explored_by(Reduction::Sources, u64::MAX)?;
        all.ok_or_else(|| "not all schedules were tried".to_owned())
    }

    /// Returns every outcome that the simulator shows, with or without reduction; `None` if there
    /// are more schedules than `runs_max`.
    pub fn explored_by(
        &self,
        reduction: Reduction,
        runs_max: u64,
    ) -> Result<Option<BTreeSet<Outcome>>, String> {
        let outcomes: Rc<RefCell<BTreeSet<Outcome>>> = Rc::default();
        let seen: Rc<RefCell<Vec<Option<Vec<u64>>>>> = Rc::default();
        let (at_start, gathered, ranks) = (seen.clone(), outcomes.clone(), self.ranks.clone());
        let program = program(
            move |world| {
                *at_start.borrow_mut() = vec![None; world.size() as usize];
                world.window::<u64>(WORDS)
            },
            move |world, words| {
                let mut read = Vec::new();
                for operation in &ranks[world.rank().index()] {
                    read.extend(operation.execute(world, &words)?);
                }
                seen.borrow_mut()[world.rank().index()] = Some(read);
                if let Some(all) = seen.borrow().iter().cloned().collect::<Option<Outcome>>() {
                    gathered.borrow_mut().insert(all);
                }
                Ok(())
            },
        );
        let simulation =
            simulation(self.ranks.len() as u32, None).map_err(|error| error.to_string())?;
        let policy = Policy::Exhaustive(reduction);
        let mut go_on = |progress: &Progress| progress.runs < runs_max;
        let report = explore(&simulation, &program, policy, 0, &mut go_on);
        match report.failure {
            Some(failure) => Err(failure.problem),
            None => Ok(report.complete.then(|| outcomes.take())),
        }
    }

    /// Compares the simulator with axioms; returns how they differ, if they do.
    pub fn compare(&self, axioms: &Axioms) -> Result<Option<Difference>, String> {
        let (allowed, explored) = (axioms.outcomes(self), self.explored()?);
        let missing: BTreeSet<Outcome> = allowed.difference(&explored).cloned().collect();
        let forbidden: BTreeSet<Outcome> = explored.difference(&allowed).cloned().collect();
        let is_same = missing.is_empty() && forbidden.is_empty();
        Ok((!is_same).then(|| Difference { litmus: self.clone(), missing, forbidden }))
    }
}

/// The operations that programs are made of. Rank 0 has one word that is used, the next two, so
/// that there are two places of one rank and two of different ranks.
fn alphabet(ranks: u32) -> Vec<Operation> {
    let at = |rank: u32, word: usize| Location { rank, word };
    let (x, y, z) = (at(1 % ranks, 0), at(1 % ranks, 1), at(0, 0));
    let mut alphabet = vec![
        Operation::Fence,
        Operation::Flush(x.rank),
        Operation::Flush(z.rank),
        Operation::PutSignal(x, 0, y, 0),
        Operation::Barrier,
        Operation::Sync,
    ];
    for place in [x, y, z] {
        alphabet.extend([
            Operation::Put(place, 0),
            Operation::Signal(place, 0),
            Operation::Get(place),
            Operation::Load(place),
            Operation::FetchAdd(place, 0),
            Operation::OwnGet(place),
            Operation::OwnSet(place, 0),
            Operation::Wait(place),
        ]);
    }
    alphabet.extend([Operation::Add(x, 0), Operation::Store(z, 0)]);
    alphabet
}

impl fmt::Display for Litmus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (rank, operations) in self.ranks.iter().enumerate() {
            let words: Vec<String> = operations.iter().map(ToString::to_string).collect();
            writeln!(f, "  rank {rank}: {}", words.join("; "))?;
        }
        Ok(())
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Put(to, value) => write!(f, "put {value} to {to}"),
            Operation::PutSignal(to, value, flag, signal) => {
                write!(f, "put_signal {value} to {to}, {signal} to {flag}")
            }
            Operation::Signal(to, value) => write!(f, "signal {value} to {to}"),
            Operation::Add(to, value) => write!(f, "add {value} to {to}"),
            Operation::Get(from) => write!(f, "get {from}"),
            Operation::Load(from) => write!(f, "load {from}"),
            Operation::Store(to, value) => write!(f, "store {value} to {to}"),
            Operation::FetchAdd(to, value) => write!(f, "fetch_add {value} to {to}"),
            Operation::OwnGet(from) => write!(f, "read own {from}"),
            Operation::OwnSet(to, value) => write!(f, "write {value} to own {to}"),
            Operation::Wait(at) => write!(f, "wait for {at}"),
            Operation::Fence => f.write_str("fence"),
            Operation::Flush(rank) => write!(f, "flush {rank}"),
            Operation::Barrier => f.write_str("barrier"),
            Operation::Sync => f.write_str("sync"),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.rank, self.word)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.litmus)?;
        for outcome in &self.missing {
            writeln!(f, "  allowed, and never seen: {outcome:?}")?;
        }
        for outcome in &self.forbidden {
            writeln!(f, "  seen, and forbidden: {outcome:?}")?;
        }
        Ok(())
    }
}
