//! What is a race, by brute force: every order of the atomics of a program, and in each the graph
//! of what comes before what.
//!
//! A node of the graph is a moment: an operation is called, or has its effect on memory. Edges are
//! those of `docs/memory-model.md`. Most of them are there in every run. Those from an atomic that
//! writes a word to one that reads it later depend on the order, which also decides what is read:
//! which waits end, and which attempts succeed.

use std::collections::HashSet;

use super::{Location, Operation, Program};

/// A set of nodes, as bits.
type Nodes = u64;

/// What an effect does to its word, as far as atomics are concerned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Nothing,
    Write(u64),
    Add(u64),
    /// Writes if the word holds the first value.
    Attempt(u64, u64),
}

#[derive(Clone, Copy)]
struct Effect {
    node: usize,
    rank: usize,
    at: Location,
    is_atomic: bool,
    /// Whether it reads the word atomically, and so learns from those that wrote it.
    learns: bool,
    writes: bool,
    is_posted: bool,
    change: Change,
    /// It happens only when the word holds at least so much.
    awaits: u64,
}

struct Graph {
    effects: Vec<Effect>,
    /// For each node those that come before it in every run.
    before: Vec<Nodes>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Reached {
    done: Nodes,
    before: Vec<Nodes>,
    memory: Vec<(Location, u64)>,
    /// The atomics that have written, in order.
    wrote: Vec<usize>,
}

/// Whether a program has a race in any of its runs.
pub(crate) fn has_race(program: &Program) -> bool {
    let graph = Graph::new(program);
    let (done, memory, wrote) = (0, Vec::new(), Vec::new());
    let start = Reached { done, before: graph.before.clone(), memory, wrote };
    graph.search(start, &mut HashSet::new())
}

impl Graph {
    fn new(program: &Program) -> Graph {
        let mut graph = Graph { effects: Vec::new(), before: Vec::new() };
        // The nodes of each operation: its call, its effect or completion, and its signal.
        let node = |rank: usize, at: usize, which: usize| {
            let before: usize = program.ranks[..rank].iter().map(Vec::len).sum();
            3 * (before + at) + which
        };
        graph.before = vec![0; node(program.ranks.len(), 0, 0)];
        for (rank, operations) in program.ranks.iter().enumerate() {
            for (at, operation) in operations.iter().enumerate() {
                let [call, effect, signal] = [0, 1, 2].map(|which| node(rank, at, which));
                let mut add = |node: usize, effect: Effect| {
                    graph.effects.push(Effect { node, rank, ..effect });
                };
                effects_of(operation, |is_signal, done| {
                    add(if is_signal { signal } else { effect }, done);
                });
                graph.before[effect] |= 1 << call;
                graph.before[signal] |= 1 << effect;
                if at > 0 {
                    graph.before[call] |= 1 << node(rank, at - 1, 0);
                    if !operations[at - 1].is_posted() {
                        graph.before[call] |= 1 << node(rank, at - 1, 1);
                    }
                }
            }
        }
        graph.order_posted(program, node);
        graph.meet(program, node);
        graph
    }

    /// Flushes and fences order what was posted before them.
    fn order_posted(&mut self, program: &Program, node: impl Fn(usize, usize, usize) -> usize) {
        let effects = self.effects.clone();
        for (rank, operations) in program.ranks.iter().enumerate() {
            for (at, operation) in operations.iter().enumerate() {
                let here = node(rank, at, 0);
                let posted = effects
                    .iter()
                    .filter(|effect| effect.rank == rank && effect.is_posted && effect.node < here);
                for earlier in posted {
                    match *operation {
                        Operation::Flush(target) if target == earlier.at.rank => {
                            self.before[here + 1] |= 1 << earlier.node;
                        }
                        Operation::Fence => {
                            let later = effects.iter().filter(|later| {
                                later.rank == rank
                                    && later.node > here
                                    && later.at.rank == earlier.at.rank
                                    && (later.is_posted || later.is_atomic && later.awaits == 0)
                            });
                            later.for_each(|later| self.before[later.node] |= 1 << earlier.node);
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    /// Nobody leaves a barrier before all have come.
    fn meet(&mut self, program: &Program, node: impl Fn(usize, usize, usize) -> usize) {
        let barriers = |rank: usize| {
            let operations = program.ranks[rank].iter().enumerate();
            operations.filter(|(_, one)| **one == Operation::Barrier).map(|(at, _)| at)
        };
        for rank in 0..program.ranks.len() {
            for (number, at) in barriers(rank).enumerate() {
                for other in 0..program.ranks.len() {
                    // One that not all come to is never left.
                    let calls = barriers(other).nth(number).map_or(0, |at| 1 << node(other, at, 0));
                    self.before[node(rank, at, 1)] |=
                        if calls == 0 { 1 << node(rank, at, 1) } else { calls };
                }
            }
        }
    }

    fn search(&self, mut reached: Reached, known: &mut HashSet<Reached>) -> bool {
        self.go_on(&mut reached);
        if !known.insert(reached.clone()) {
            return false;
        }
        let choices: Vec<&Effect> =
            self.effects.iter().filter(|effect| self.may_happen(effect, &reached)).collect();
        if choices.is_empty() {
            return self.races(&reached);
        }
        choices.into_iter().any(|effect| self.search(happen(effect, reached.clone()), known))
    }

    fn may_happen(&self, effect: &Effect, reached: &Reached) -> bool {
        let is_ready =
            |node: usize| reached.done >> node & 1 == 0 && self.before[node] & !reached.done == 0;
        is_ready(effect.node) && held(&reached.memory, effect.at) >= effect.awaits
    }

    /// Whether a plain effect decides what an atomic reads.
    fn is_read_atomically(&self, plain: &Effect) -> bool {
        plain.writes && self.effects.iter().any(|other| other.is_atomic && other.at == plain.at)
    }

    /// Does what no other rank can tell from its happening later.
    fn go_on(&self, reached: &mut Reached) {
        loop {
            let is_choice = |node: usize| {
                let effect = self.effects.iter().find(|effect| effect.node == node);
                effect.is_some_and(|effect| effect.is_atomic || self.is_read_atomically(effect))
            };
            let free = (0..self.before.len()).find(|&node| {
                reached.done >> node & 1 == 0
                    && self.before[node] & !reached.done == 0
                    && !is_choice(node)
            });
            match free {
                Some(node) => reached.done |= 1 << node,
                None => return,
            }
        }
    }

    /// Whether two effects have no order that may not be without one.
    fn races(&self, reached: &Reached) -> bool {
        let mut before = reached.before.clone();
        for _ in 0..before.len() {
            for node in 0..before.len() {
                let nodes = before[node];
                let all = (0..before.len()).filter(|other| nodes >> other & 1 == 1);
                before[node] = all.fold(nodes, |all, other| all | before[other]);
            }
        }
        let done = || self.effects.iter().filter(|effect| reached.done >> effect.node & 1 == 1);
        done().any(|one| {
            done().any(|other| {
                let is_ordered = before[one.node] >> other.node & 1 == 1
                    || before[other.node] >> one.node & 1 == 1;
                one.node < other.node && one.at == other.at && !is_ordered && excludes(one, other)
            })
        })
    }
}

/// Whether two effects on one word must have an order.
fn excludes(one: &Effect, other: &Effect) -> bool {
    if !(one.is_atomic && other.is_atomic) {
        return one.writes || other.writes;
    }
    // Two that one rank has posted may change places, unless that makes no difference.
    let commute = matches!((one.change, other.change), (Change::Add(_), Change::Add(_)));
    one.rank == other.rank && one.is_posted && other.is_posted && !commute
}

fn held(memory: &[(Location, u64)], at: Location) -> u64 {
    memory.iter().find(|(known, _)| *known == at).map_or(0, |(_, value)| *value)
}

fn happen(effect: &Effect, mut reached: Reached) -> Reached {
    let old = held(&reached.memory, effect.at);
    let new = match effect.change {
        Change::Nothing => None,
        Change::Write(value) => Some(value),
        Change::Add(value) => Some(old.wrapping_add(value)),
        Change::Attempt(expected, desired) => (old == expected).then_some(desired),
    };
    if effect.learns {
        let writers = reached.wrote.iter().filter(|&&wrote| wrote >> 32 == word_of(effect.at));
        let writers = writers.fold(0, |all, wrote| all | 1 << (wrote & 0xFF));
        reached.before[effect.node] |= writers;
    }
    if let Some(new) = new {
        reached.memory.retain(|(known, _)| *known != effect.at);
        reached.memory.push((effect.at, new));
        reached.memory.sort_unstable();
        if effect.is_atomic {
            reached.wrote.push(word_of(effect.at) << 32 | effect.node);
        }
    }
    reached.done |= 1 << effect.node;
    reached
}

fn word_of(at: Location) -> usize {
    at.rank * 16 + at.word
}

/// Tells `add` of the effects of an operation, and whether each is the signal of a put.
fn effects_of(operation: &Operation, mut add: impl FnMut(bool, Effect)) {
    let plain = |at: Location, writes: bool, is_posted: bool, change: Change| Effect {
        node: 0,
        rank: 0,
        at,
        is_atomic: false,
        learns: false,
        writes,
        is_posted,
        change,
        awaits: 0,
    };
    let atomic = |at: Location, learns: bool, is_posted: bool, change: Change| Effect {
        is_atomic: true,
        learns,
        ..plain(at, change != Change::Nothing, is_posted, change)
    };
    match *operation {
        Operation::Put(at) => add(false, plain(at, true, true, Change::Write(7))),
        Operation::Get(at) | Operation::OwnGet(at) => {
            add(false, plain(at, false, false, Change::Nothing));
        }
        Operation::OwnSet(at) => add(false, plain(at, true, false, Change::Write(7))),
        Operation::PutSignal(to, at, value) => {
            add(false, plain(to, true, true, Change::Write(7)));
            add(true, atomic(at, false, true, Change::Write(value)));
        }
        Operation::PutSignalAdd(to, at) => {
            add(false, plain(to, true, true, Change::Write(7)));
            add(true, atomic(at, false, true, Change::Add(1)));
        }
        Operation::Signal(at, value) => add(false, atomic(at, false, true, Change::Write(value))),
        Operation::Add(at) => add(false, atomic(at, false, true, Change::Add(1))),
        Operation::FetchAdd(at) => add(false, atomic(at, true, false, Change::Add(1))),
        Operation::Load(at) => add(false, atomic(at, true, false, Change::Nothing)),
        Operation::Store(at, value) => add(false, atomic(at, false, false, Change::Write(value))),
        Operation::CompareSwap(at, expected, desired) => {
            add(false, atomic(at, true, false, Change::Attempt(expected, desired)));
        }
        Operation::Wait(at, value) => {
            add(false, Effect { awaits: value, ..atomic(at, true, false, Change::Nothing) });
        }
        Operation::Fence | Operation::Flush(_) | Operation::Barrier => {}
    }
}
