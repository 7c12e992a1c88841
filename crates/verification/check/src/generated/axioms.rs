//! The memory model as axioms.
//!
//! An execution is an order of *effects*, one for each time that an operation reads or writes
//! memory. An order is allowed if it has every pair of effects the way round that an axiom says;
//! what is read is what was written last. `docs/memory-model.md` says the same in words.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{Litmus, Location, Operation, Outcome};

/// The axioms. All but those of the memory model are wrong on purpose: what a comparison with them
/// finds shows that it can find something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Axioms {
    /// Wrong: a fence orders gets, too.
    pub fence_orders_gets: bool,
    /// Wrong: a fence orders what goes to different ranks.
    pub fence_orders_all_ranks: bool,
    /// Wrong: what is posted to one rank lands in order.
    pub posts_stay_in_order: bool,
    /// Wrong: a barrier completes what was posted.
    pub barrier_completes: bool,
    /// Wrong: the data of a put with a signal may come after the signal.
    pub signal_overtakes: bool,
}

#[derive(Debug, Clone, Copy)]
struct Effect {
    rank: usize,
    /// The position of its operation in the rank's program.
    at: usize,
    /// Whether it is the signal of a put with a signal.
    is_second: bool,
    place: Location,
    change: Change,
    /// Whether the rank goes on before it has happened.
    is_posted: bool,
    /// Whether no fence holds it back: a get, or an access of a rank to its own memory.
    is_free: bool,
    /// Whether it happens only when its place is not zero.
    awaits: bool,
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Nothing,
    Write(u64),
    Add(u64),
}

impl Axioms {
    /// Returns every outcome that they allow.
    pub fn outcomes(&self, litmus: &Litmus) -> BTreeSet<Outcome> {
        let effects = effects(litmus);
        let before: Vec<u64> = effects
            .iter()
            .map(|later| {
                let earlier = effects.iter().enumerate();
                let bits = earlier.filter(|(_, earlier)| self.orders(litmus, earlier, later));
                bits.fold(0, |bits, (at, _)| bits | 1 << at)
            })
            .collect();
        let mut search = Search {
            litmus,
            effects: &effects,
            before: &before,
            known: HashSet::new(),
            outcomes: BTreeSet::new(),
        };
        search.go_on(0, &mut BTreeMap::new(), &mut vec![None; effects.len()]);
        search.outcomes
    }

    /// Whether one effect comes before another in every execution.
    fn orders(&self, litmus: &Litmus, earlier: &Effect, later: &Effect) -> bool {
        if earlier.rank != later.rank {
            return self.meets(litmus, earlier, later);
        }
        if earlier.at == later.at {
            return !earlier.is_second && later.is_second && !self.signal_overtakes;
        }
        if earlier.at > later.at {
            return false;
        }
        // A rank goes on when an operation is complete.
        if !earlier.is_posted {
            return true;
        }
        let target = earlier.place.rank;
        let is_same_rank = target == later.place.rank;
        let between = &litmus.ranks[earlier.rank][earlier.at + 1..later.at];
        let is_ordered = |operation: &Operation| match operation {
            Operation::Flush(rank) => *rank == target,
            Operation::Sync => true,
            Operation::Barrier => self.barrier_completes,
            Operation::Fence => {
                (is_same_rank || self.fence_orders_all_ranks)
                    && (!later.is_free || self.fence_orders_gets)
            }
            _ => false,
        };
        between.iter().any(is_ordered)
            || self.posts_stay_in_order && is_same_rank && later.is_posted
    }

    /// Whether a meeting of all ranks stands between two effects of different ranks.
    fn meets(&self, litmus: &Litmus, earlier: &Effect, later: &Effect) -> bool {
        let (mine, theirs) = (&litmus.ranks[earlier.rank], &litmus.ranks[later.rank]);
        // The meetings that the later one comes after; the earlier one comes before which of them?
        let meetings = |rank: &[Operation]| rank.iter().filter(|one| one.is_collective()).count();
        let (first, last) = (meetings(&mine[..earlier.at]), meetings(&theirs[..later.at]));
        let all: Vec<&Operation> = mine.iter().filter(|one| one.is_collective()).collect();
        (first..last).any(|meeting| {
            *all[meeting] == Operation::Sync
                || self.barrier_completes
                || !earlier.is_posted
                || self.is_flushed(litmus, earlier, meeting)
        })
    }

    /// Whether a rank has flushed what an effect did before it came to a meeting.
    fn is_flushed(&self, litmus: &Litmus, effect: &Effect, meeting: usize) -> bool {
        let operations = litmus.ranks[effect.rank].iter().enumerate();
        let mut met = 0;
        for (at, operation) in operations {
            if operation.is_collective() {
                if met == meeting {
                    return false;
                }
                met += 1;
            }
            let completes = match operation {
                Operation::Flush(rank) => *rank == effect.place.rank,
                Operation::Sync => true,
                _ => false,
            };
            if completes && at > effect.at {
                return true;
            }
        }
        false
    }
}

fn effects(litmus: &Litmus) -> Vec<Effect> {
    let mut effects = Vec::new();
    for (rank, operations) in litmus.ranks.iter().enumerate() {
        for (at, &operation) in operations.iter().enumerate() {
            let mut add = |place: Location, change: Change, is_posted: bool, is_second: bool| {
                let awaits = matches!(operation, Operation::Wait(_));
                let is_free =
                    awaits || operation.is_direct() || matches!(operation, Operation::Get(_));
                effects.push(Effect {
                    rank,
                    at,
                    is_second,
                    place,
                    change,
                    is_posted,
                    is_free,
                    awaits,
                });
            };
            match operation {
                Operation::Put(to, value) | Operation::Signal(to, value) => {
                    add(to, Change::Write(value), true, false);
                }
                Operation::PutSignal(to, value, flag, signal) => {
                    add(to, Change::Write(value), true, false);
                    add(flag, Change::Write(signal), true, true);
                }
                Operation::Add(to, value) => add(to, Change::Add(value), true, false),
                Operation::Get(from)
                | Operation::Load(from)
                | Operation::OwnGet(from)
                | Operation::Wait(from) => {
                    add(from, Change::Nothing, false, false);
                }
                Operation::Store(to, value) | Operation::OwnSet(to, value) => {
                    add(to, Change::Write(value), false, false)
                }
                Operation::FetchAdd(to, value) => add(to, Change::Add(value), false, false),
                Operation::Fence | Operation::Flush(_) => {}
                Operation::Barrier | Operation::Sync => {}
            }
        }
    }
    effects
}

/// Where an execution has come: the effects that have happened, what was read, what memory holds.
type Reached = (u64, Vec<Option<u64>>, Vec<(Location, u64)>);

struct Search<'a> {
    litmus: &'a Litmus,
    effects: &'a [Effect],
    /// For each effect those that come before it, as bits.
    before: &'a [u64],
    known: HashSet<Reached>,
    outcomes: BTreeSet<Outcome>,
}

impl Search<'_> {
    fn go_on(
        &mut self,
        done: u64,
        memory: &mut BTreeMap<Location, u64>,
        read: &mut Vec<Option<u64>>,
    ) {
        let state = memory.iter().map(|(&place, &value)| (place, value)).collect();
        if !self.known.insert((done, read.clone(), state)) {
            return;
        }
        if done == (1 << self.effects.len()) - 1 {
            self.outcomes.insert(self.outcome(read));
            return;
        }
        for (number, effect) in self.effects.iter().enumerate() {
            if done >> number & 1 != 0 || self.before[number] & !done != 0 {
                continue;
            }
            let held = memory.get(&effect.place).copied().unwrap_or(0);
            if effect.awaits && held == 0 {
                continue;
            }
            let old = memory.get(&effect.place).copied();
            match effect.change {
                Change::Nothing => {}
                Change::Write(value) => drop(memory.insert(effect.place, value)),
                Change::Add(value) => drop(memory.insert(effect.place, held.wrapping_add(value))),
            }
            if self.litmus.ranks[effect.rank][effect.at].reads() {
                read[number] = Some(held);
            }
            self.go_on(done | 1 << number, memory, read);
            read[number] = None;
            match old {
                Some(old) => drop(memory.insert(effect.place, old)),
                None => drop(memory.remove(&effect.place)),
            }
        }
    }

    /// What was read, rank by rank; effects are in the order of programs.
    fn outcome(&self, read: &[Option<u64>]) -> Outcome {
        let mut outcome = vec![Vec::new(); self.litmus.ranks.len()];
        for (effect, read) in self.effects.iter().zip(read) {
            outcome[effect.rank].extend(*read);
        }
        outcome
    }
}
