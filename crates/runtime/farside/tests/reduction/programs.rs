//! Random programs: every operation that the explored machine knows, on few words.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use farside::fabric::{Atomic, Region, Word};
use farside::sim::{Program, Simulation, program, simulation};
use farside::{
    Agent, Error, ExitCause, HandlerId, Node, Op as Combine, Patch, Place, Rank, Result, Transfer,
    WaitOptions, Window, World,
};

#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    Put(usize, u64),
    /// Puts to the first or the second half of a word.
    PutHalf(usize, u32),
    Signal(usize, u64),
    SignalHalf(usize, u32),
    PutSignal(usize, usize, u64),
    PutSignalAdd(usize, usize, u64),
    Get(usize),
    Load(usize),
    LoadHalf(usize),
    Store(usize, u64),
    FetchAdd(usize, u64),
    Add(usize, u64),
    Swap(usize, u64),
    CompareSwap(usize, u64, u64),
    FetchAddHalf(usize, u32),
    CompareSwapHalf(usize, u32, u32),
    Accumulate(usize, u64),
    GetAccumulate(usize, u64),
    /// Puts to both words of a rank.
    PutLong(u32, u64),
    /// Puts to the first half of each of them, as one operation of two pieces.
    PutStrided(u32, u32),
    GetLong(u32),
    OwnGet(usize),
    OwnSet(usize, u64),
    Fence,
    Flush(u32),
    FlushAll,
    /// Waits until the word of its own with this number is at least so much.
    Wait(usize, u64),
    /// Likewise, for some time.
    WaitSome(usize, u64),
    /// Waits for some time until the first or the second half of a word is at least so much.
    WaitHalf(usize, usize, u32),
    /// Waits for the one or the other word of its own.
    WaitAny(u64, u64),
    WaitAnySome(u64, u64),
    /// Waits until a word of its own has the one or the other value.
    WaitEither(usize, u64, u64),
    /// Waits until so much has landed on its node.
    Landed(u64),
    /// Polls a word until it is not zero, a few times.
    Poll(usize),
    /// Polls two words until neither is zero, a few times.
    PollTwo(usize, usize),
    /// Starts a get, and leaves it.
    Start(usize),
    /// Looks whether the last get that it started is complete.
    Look,
    /// Starts a get, and looks.
    Glance(usize),
    /// Likewise the first one.
    LookFirst,
    /// Waits for the last one.
    Finish,
    /// Asks an agent to add to a word of its node, and to signal one of another.
    Call(u32, u64),
    /// Asks an agent to put to a word of its node, and to one of another.
    CallPut(u32, u64),
    /// Offers another handler.
    Serve,
    /// Makes a window and frees it, which all ranks do together.
    Window,
}

/// The words of a rank: 0 and 1 are rank 0's, 2 and 3 are rank 1's and so on.
pub(crate) const WORDS: usize = 2;

fn owner(word: usize) -> Rank {
    Rank((word / WORDS) as u32)
}

pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// A random program, and what may happen to it.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) ranks: u32,
    /// Ranks are on as many nodes as possible up to this.
    pub(crate) nodes: u32,
    pub(crate) deaths: u32,
    pub(crate) slow_news: bool,
    pub(crate) time_outs: u32,
    pub(crate) looks: bool,
    pub(crate) torn: bool,
    pub(crate) ops: Vec<Vec<Op>>,
}

impl Case {
    /// A program whose ranks are on one node, and to which nothing happens.
    pub(crate) fn of(ops: Vec<Vec<Op>>) -> Case {
        let (ranks, nodes) = (ops.len() as u32, 1);
        let (deaths, slow_news, time_outs, looks, torn) = (0, false, 0, false, false);
        Case { ranks, nodes, deaths, slow_news, time_outs, looks, torn, ops }
    }

    /// A random program of up to so many operations of each rank.
    pub(crate) fn random(numbers: &mut Numbers, ops_max: u64) -> Case {
        let ranks = if numbers.below(4) == 0 { 3 } else { 2 };
        let deaths = if numbers.below(4) == 0 { 1 + numbers.below(4) / 3 } else { 0 } as u32;
        let time_outs = numbers.below(5).saturating_sub(2) as u32;
        // Of three ranks on two nodes, one is near and one far, and one does not lead its node.
        let nodes = 1 + numbers.below(u64::from(ranks)) as u32;
        let looks = numbers.below(3) == 0;
        let torn = numbers.below(4) == 0;
        let slow_news = deaths > 0 && nodes > 1 && numbers.below(2) == 0;
        let ops = Vec::new();
        let mut case = Case { ranks, nodes, deaths, slow_news, time_outs, looks, torn, ops };
        // The more ranks and faults, the fewer operations, or there are too many schedules.
        let ops_max = ops_max.saturating_sub(u64::from(ranks - 2 + deaths + time_outs / 2)).max(1);
        for rank in 0..ranks {
            let count = 1 + numbers.below(ops_max);
            let ops = (0..count).map(|_| case.random_op(numbers, rank)).collect();
            case.ops.push(ops);
        }
        case
    }

    fn random_op(&self, numbers: &mut Numbers, rank: u32) -> Op {
        let word = numbers.below(3.max(u64::from(self.ranks))) as usize;
        let own = rank as usize * WORDS + usize::from(numbers.below(3) == 0);
        let (value, least) = (1 + numbers.below(3), 1 + numbers.below(2));
        let (half, to) = (1 + numbers.below(2) as u32, numbers.below(u64::from(self.ranks)) as u32);
        let (first, node) = (to as usize * WORDS, numbers.below(u64::from(self.nodes)) as u32);
        match numbers.below(55) {
            0..4 => Op::Put(word, value),
            4 => Op::PutHalf(word, half),
            5 | 6 => Op::Signal(word, value),
            7 => Op::SignalHalf(word, half),
            8 => Op::PutSignal(first, first + 1, value),
            9..12 => Op::Get(word),
            12 | 13 => Op::Load(word),
            14 => Op::LoadHalf(word),
            15 => Op::Store(word, value),
            16 => Op::FetchAdd(word, value),
            17 => Op::Add(word, value),
            18 => Op::Swap(word, value),
            19 => Op::CompareSwap(word, value - 1, value),
            20 => Op::Accumulate(word, value),
            21 => Op::GetAccumulate(word, value),
            22 => Op::PutLong(to, value),
            23 => Op::GetLong(to),
            24 => Op::OwnGet(own),
            25 => Op::OwnSet(own, value),
            26 | 27 => Op::Fence,
            28 => Op::Flush(to),
            29 => Op::FlushAll,
            30 => Op::Wait(own, least),
            31 | 32 => Op::WaitSome(own, least),
            33 => Op::WaitHalf(own, value as usize % 2, least as u32),
            34 => Op::WaitAny(least, value),
            35 => Op::WaitAnySome(least, value),
            36 if self.nodes > 1 => Op::Landed(least),
            37 => Op::Poll(word),
            38 | 39 => Op::Start(word),
            // Without looks, the explorer does not say that it tries both.
            40 if self.looks => Op::Look,
            41 => Op::Finish,
            42 if self.looks => Op::LookFirst,
            43 => Op::WaitEither(own, value, least),
            44 => Op::Call(node, value),
            45 | 46 => Op::CallPut(node, value),
            47 => Op::PutSignalAdd(first, first + 1, value),
            48 => Op::FetchAddHalf(word, half),
            49 => Op::CompareSwapHalf(word, half - 1, half),
            50 => Op::PutStrided(to, half),
            51 => Op::PollTwo(word, own),
            52 if self.ranks == 2 => Op::Serve,
            53 if self.looks => Op::Glance(word),
            _ => Op::Load(word),
        }
    }

    pub(crate) fn simulation(&self) -> Simulation {
        let topology = (self.nodes > 1).then(|| format!("node:{}", self.nodes));
        let simulation = simulation(self.ranks, topology.as_deref()).expect("a simulation");
        let simulation = simulation.deaths(self.deaths).slow_news(self.slow_news);
        let simulation = simulation.time_outs(self.time_outs);
        simulation.looks(self.looks).torn(self.torn).digests(true).without_first_segments()
    }
}

/// The words, and the handlers of [`Op::Call`] and of [`Op::CallPut`].
type State = (Window<u64>, [HandlerId; 2]);

struct Runner<'a> {
    world: &'a World,
    window: &'a Window<u64>,
    handlers: [HandlerId; 2],
    started: Vec<Transfer<'a, u64>>,
}

impl<'a> Runner<'a> {
    fn at(&self, word: usize) -> Place<'a, u64> {
        self.window.at(owner(word), word % WORDS)
    }

    fn half(&self, word: usize) -> Place<'a, u32> {
        self.at(word).cast::<u32>().skip(word % 2)
    }

    fn run(&mut self, op: Op) -> Result<Option<u64>> {
        let world = self.world;
        let done = |result: Result<()>| result.map(|()| None);
        match op {
            Op::Put(word, value) => done(world.put_value(value, self.at(word))),
            Op::PutHalf(word, value) => done(world.put_value(value, self.half(word))),
            Op::Signal(word, value) => done(world.signal(self.at(word), value)),
            Op::SignalHalf(word, value) => done(world.signal(self.half(word), value)),
            Op::PutSignal(word, flag, value) => {
                done(world.put_signal(&[value], self.at(word), value, self.at(flag)))
            }
            Op::PutSignalAdd(word, flag, value) => {
                done(world.put_signal_add(&[value], self.at(word), value, self.at(flag)))
            }
            Op::Get(word) => world.get_value(self.at(word)).map(Some),
            Op::Load(word) => world.load(self.at(word)).map(Some),
            Op::LoadHalf(word) => world.load(self.half(word)).map(|half| Some(half.into())),
            Op::Store(word, value) => done(world.store(self.at(word), value)),
            Op::FetchAdd(word, value) => world.fetch_add(self.at(word), value).map(Some),
            Op::Add(word, value) => done(world.add(self.at(word), value)),
            Op::Swap(word, value) => world.swap(self.at(word), value).map(Some),
            Op::CompareSwap(word, expected, value) => {
                world.compare_swap(self.at(word), expected, value).map(Some)
            }
            Op::FetchAddHalf(word, value) => {
                world.fetch_add(self.half(word), value).map(|half| Some(half.into()))
            }
            Op::CompareSwapHalf(word, expected, value) => {
                world.compare_swap(self.half(word), expected, value).map(|half| Some(half.into()))
            }
            Op::Accumulate(word, value) => done(world.accumulate(1, &[value], self.at(word))),
            Op::GetAccumulate(word, value) => {
                world.get_accumulate_value(Combine::Sum, value, self.at(word)).map(Some)
            }
            Op::PutLong(to, value) => done(world.put(&[value, value], self.window.at(Rank(to), 0))),
            Op::PutStrided(to, value) => {
                let patch = Patch { counts: &[2, 1], near: &[1], far: &[2] };
                let halves = self.window.at(Rank(to), 0).cast::<u32>();
                done(world.put_strided(&[value, value], halves, &patch))
            }
            Op::GetLong(from) => {
                let mut two = [0; 2];
                world.get(self.window.at(Rank(from), 0), &mut two)?;
                Ok(Some(two[0].wrapping_mul(10).wrapping_add(two[1])))
            }
            Op::OwnGet(word) => self.window.own().get(word % WORDS).map(Some),
            Op::OwnSet(word, value) => done(self.window.own().set(word % WORDS, value)),
            Op::Fence => done(world.fence()),
            Op::Flush(to) => done(world.flush(Rank(to))),
            Op::FlushAll => done(world.flush_all()),
            Op::Call(node, value) => self.call(node, 0, value),
            Op::CallPut(node, value) => self.call(node, 1, value),
            Op::Serve => done(world.serve(|_, _, _| vec![]).map(drop)),
            Op::Window => done(world.window::<u64>(1).and_then(|window| window.free(world))),
            _ => self.wait(op),
        }
    }

    fn wait(&mut self, op: Op) -> Result<Option<u64>> {
        const SOME: Duration = Duration::from_secs(1);
        let (world, own) = (self.world, self.world.rank().index() * WORDS);
        let any = |this: &Self, (first, second): (u64, u64), timeout| {
            let (one, two) = (|held: u64| held >= first, |held: u64| held >= second);
            let words = [(this.at(own), &one as _), (this.at(own + 1), &two as _)];
            let (which, value) = world.wait_any(&words, WaitOptions { timeout, soon: true })?;
            Ok(Some(100 * which as u64 + value))
        };
        match op {
            Op::Wait(word, least) => world.wait(self.at(word), |held| held >= least).map(Some),
            Op::WaitSome(word, least) => {
                world.wait_timeout(self.at(word), |held| held >= least, SOME).map(Some)
            }
            Op::WaitHalf(word, which, least) => {
                let half = self.at(word).cast::<u32>().skip(which);
                world.wait_timeout(half, |held| held >= least, SOME).map(|held| Some(held.into()))
            }
            Op::WaitAny(first, second) => any(self, (first, second), None),
            Op::WaitAnySome(first, second) => any(self, (first, second), Some(SOME)),
            Op::WaitEither(word, first, second) => {
                let (one, two) = (|held: u64| held == first, |held: u64| held == second);
                let words = [(self.at(word), &one as _), (self.at(word), &two as _)];
                let limit = WaitOptions { timeout: Some(SOME), soon: true };
                let (which, value) = world.wait_any(&words, limit)?;
                Ok(Some(100 * which as u64 + value))
            }
            Op::Landed(least) => {
                let all: Vec<Rank> = (0..world.size()).map(Rank).collect();
                world.wait_landed(&all, least).map(|()| None)
            }
            Op::Poll(word) => self.poll(&[word]),
            Op::PollTwo(word, other) => self.poll(&[word, other]),
            Op::Start(word) => {
                let get = world.get_nb(self.at(word), 1)?;
                self.started.push(get);
                Ok(None)
            }
            Op::Glance(word) => {
                self.run(Op::Start(word))?;
                self.run(Op::Look)
            }
            Op::Look => self.started.last_mut().map(is_done).transpose(),
            Op::LookFirst => self.started.first_mut().map(is_done).transpose(),
            Op::Finish => match self.started.pop() {
                Some(get) => get.wait().map(|values| Some(values[0])),
                None => Ok(None),
            },
            other => panic!("{other:?} waits for nothing"),
        }
    }

    fn call(&self, node: u32, handler: usize, value: u64) -> Result<Option<u64>> {
        let reply = self.world.call(Node(node), self.handlers[handler], &[value as u8])?;
        Ok(Some(reply[0].into()))
    }

    fn poll(&self, words: &[usize]) -> Result<Option<u64>> {
        for _ in 0..3 {
            let load = |&word: &usize| self.world.load(self.at(word));
            let values = words.iter().map(load).collect::<Result<Vec<u64>>>()?;
            if values.iter().all(|&value| value != 0) {
                return Ok(Some(values.iter().fold(0, |all, value| 10 * all + value)));
            }
            // Who finds nobody left to wait for stops, as after the last look.
            if let Err(Error::RankLost { how: ExitCause::Left, .. }) = self.world.relax() {
                break;
            }
        }
        Ok(None)
    }
}

fn is_done(get: &mut Transfer<'_, u64>) -> Result<u64> {
    get.is_done().map(u64::from)
}

/// What each rank has seen; no rank that is missing has come to its end.
pub(crate) type Seen = Rc<RefCell<BTreeMap<Rank, String>>>;

/// The program of a case, and what its ranks see in the run that is under way.
pub(crate) fn subject(case: &Case) -> (Program, Seen) {
    let (ops, seen) = (case.ops.clone(), Seen::default());
    let (at_start, gathered) = (seen.clone(), seen.clone());
    let program = program(
        move |world| {
            at_start.borrow_mut().clear();
            prepare(world)
        },
        move |world, (window, handlers): State| {
            let mut runner = Runner { world, window: &window, handlers, started: Vec::new() };
            let mut text = String::new();
            for &op in &ops[world.rank().index()] {
                match runner.run(op) {
                    Ok(None) => {}
                    Ok(Some(value)) => text.push_str(&format!("{value} ")),
                    Err(Error::TimedOut { .. }) => text.push_str("late "),
                    Err(Error::RankLost { rank, how: ExitCause::Left }) => {
                        text.push_str(&format!("left{} ", rank.0));
                    }
                    Err(Error::RankLost { rank, .. }) => text.push_str(&format!("lost{} ", rank.0)),
                    Err(error) => text.push_str(&format!("[{error}] ")),
                }
            }
            drop(runner);
            gathered.borrow_mut().insert(world.rank(), text);
            Ok(())
        },
    );
    (program, seen)
}

/// Makes the words, and handlers that change some of their node and of the next: not of the first
/// rank of the node, if there is another.
fn prepare(world: &World) -> Result<State> {
    let window = world.window::<u64>(WORDS)?;
    let topology = world.topology();
    let last = |node: u32| topology.ranks_of(Node(node)).last().copied().unwrap_or(Rank(0));
    let first_word = |node: u32| window.at(last(node), 0).word();
    let firsts: Arc<[Word]> = (0..topology.nodes()).map(first_word).collect();
    let of = |agent: &dyn Agent, all: &[Word]| {
        let node = agent.node().0 as usize;
        (all[node], all[(node + 1) % all.len()])
    };
    let calls = AtomicU8::new(0);
    let words = firsts.clone();
    let adds = world.serve(move |agent, _, value| {
        let calls = 1 + calls.fetch_add(1, Relaxed);
        let (own, other) = of(agent, &words);
        let value = value[0].into();
        let before = agent.atomic(own, Atomic::Add(value)).and_then(|before| {
            agent.post(other, Atomic::Store(value))?;
            Ok(before)
        });
        vec![10 * calls + before.map_or(9, |before| before as u8)]
    })?;
    let puts = world.serve(move |agent, _, value| {
        let (own, other) = of(agent, &firsts);
        let put = |at: Word| {
            let to = Region::block(at.rank, at.segment, at.offset, 8);
            agent.put(&to, &u64::from(value[0]).to_ne_bytes())
        };
        vec![u8::from(put(own).and_then(|()| put(other)).is_ok())]
    })?;
    Ok((window, [adds, puts]))
}
