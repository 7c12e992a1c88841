//! Small programs by the thousand: what the checker says of them in all schedules is compared with
//! what is a race by brute force.

#[path = "generated/oracle.rs"]
mod oracle;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use farside::sim::{self, Policy, Progress, Reduction, explore, simulation};
use farside::{Rank, Result, Window, World};
use farside_fabric::random::SplitMix;
use farside_races::Checker;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Location {
    rank: usize,
    word: usize,
}

/// The words of each rank.
const WORDS: usize = 3;
/// A program with more schedules is not explored to the end, and not compared.
const SCHEDULES_MAX: u64 = 20_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Put(Location),
    Get(Location),
    OwnGet(Location),
    OwnSet(Location),
    /// Puts to the first place, and stores a value at the second as its signal.
    PutSignal(Location, Location, u64),
    PutSignalAdd(Location, Location),
    Signal(Location, u64),
    Add(Location),
    FetchAdd(Location),
    Load(Location),
    Store(Location, u64),
    CompareSwap(Location, u64, u64),
    /// Waits until a word of its own holds at least so much.
    Wait(Location, u64),
    Fence,
    Flush(usize),
    Barrier,
}

impl Operation {
    /// Whether its rank goes on before it has its effect.
    fn is_posted(&self) -> bool {
        use Operation::{Add, Put, PutSignal, PutSignalAdd, Signal};
        matches!(self, Put(_) | PutSignal(..) | PutSignalAdd(..) | Signal(..) | Add(_))
    }

    fn run(&self, world: &World, words: &Window<u64>) -> Result<()> {
        let at = |at: Location| words.at(Rank(at.rank as u32), at.word);
        match *self {
            Operation::Put(to) => world.put_value(7, at(to)),
            Operation::Get(from) => world.get_value(at(from)).map(drop),
            Operation::OwnGet(from) => words.own().get(from.word).map(drop),
            Operation::OwnSet(to) => words.own().set(to.word, 7),
            Operation::PutSignal(to, word, value) => {
                world.put_signal(&[7], at(to), value, at(word))
            }
            Operation::PutSignalAdd(to, word) => world.put_signal_add(&[7], at(to), 1, at(word)),
            Operation::Signal(word, value) => world.signal(at(word), value),
            Operation::Add(word) => world.add(at(word), 1),
            Operation::FetchAdd(word) => world.fetch_add(at(word), 1).map(drop),
            Operation::Load(word) => world.load(at(word)).map(drop),
            Operation::Store(word, value) => world.store(at(word), value),
            Operation::CompareSwap(word, expected, desired) => {
                world.compare_swap(at(word), expected, desired).map(drop)
            }
            Operation::Wait(word, value) => {
                // The time is over when nothing else can happen: the rank then ends.
                let time = Duration::from_secs(1);
                world.wait_timeout(at(word), |held| held >= value, time).map(drop)
            }
            Operation::Fence => world.fence(),
            Operation::Flush(rank) => world.flush(Rank(rank as u32)),
            Operation::Barrier => world.barrier(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Program {
    ranks: Vec<Vec<Operation>>,
}

impl Program {
    fn random(random: &mut SplitMix) -> Program {
        let ranks = if random.chance(60) { 2 } else { 3 };
        let mut program = Program { ranks: vec![Vec::new(); ranks] };
        if random.chance(70) {
            program.tell(random);
        }
        if random.chance(10) {
            program.ranks.iter_mut().for_each(|rank| rank.push(Operation::Barrier));
        }
        let more = 1 + random.below(4);
        for _ in 0..more {
            let rank = random.below(ranks as u64) as usize;
            let operation = program.operation(random, rank);
            let at = random.below(program.ranks[rank].len() as u64 + 1) as usize;
            if program.ranks[rank].len() < 4 {
                program.ranks[rank].insert(at, operation);
            }
        }
        program
    }

    fn data(&self, random: &mut SplitMix) -> Location {
        Location { rank: random.below(2) as usize, word: 0 }
    }

    fn flag(&self, random: &mut SplitMix) -> Location {
        let rank = random.below(self.ranks.len() as u64) as usize;
        Location { rank, word: 1 + usize::from(random.chance(25)) }
    }

    /// One rank uses a word of data, and tells another that does so.
    fn tell(&mut self, random: &mut SplitMix) {
        let ranks = self.ranks.len() as u64;
        let from = random.below(ranks) as usize;
        let to = (from + 1 + random.below(ranks - 1) as usize) % ranks as usize;
        let data = self.data(random);
        let flag = Location { rank: to, word: 1 };
        let elsewhere = Location { rank: data.rank, word: 1 };
        let first = match random.below(3) {
            0 => Operation::Get(data),
            _ => Operation::Put(data),
        };
        let notify = [
            vec![first, Operation::Signal(flag, 1)],
            vec![first, Operation::Fence, Operation::Signal(flag, 1)],
            vec![first, Operation::Fence, Operation::Add(flag)],
            vec![first, Operation::Flush(data.rank), Operation::Signal(flag, 1)],
            vec![first, Operation::Flush(data.rank), Operation::Add(flag)],
            vec![first, Operation::Flush(data.rank), Operation::Store(flag, 1)],
            vec![first, Operation::Flush(data.rank), Operation::FetchAdd(flag)],
            vec![first, Operation::Flush(data.rank), Operation::CompareSwap(flag, 0, 1)],
            vec![Operation::PutSignal(data, elsewhere, 1)],
            vec![Operation::PutSignalAdd(data, elsewhere)],
        ];
        self.ranks[from].extend(&notify[random.below(notify.len() as u64) as usize]);
        let second = match random.below(3) {
            0 => Operation::Put(data),
            _ => Operation::Get(data),
        };
        self.ranks[to].extend([Operation::Wait(flag, 1 + random.below(8) / 7), second]);
    }

    fn operation(&self, random: &mut SplitMix, rank: usize) -> Operation {
        let (mut data, mut flag) = (self.data(random), self.flag(random));
        // Words are also used as others are.
        if random.chance(8) {
            std::mem::swap(&mut data, &mut flag);
        }
        let (own, signalled) = (
            |at: Location| Location { rank, ..at },
            |at: Location| Location { rank: data.rank, ..at },
        );
        let value = 1 + random.below(2);
        match random.below(22) {
            0..3 => Operation::Put(data),
            3..6 => Operation::Get(data),
            6 => Operation::OwnGet(own(data)),
            7 => Operation::OwnSet(own(data)),
            8 if data.word != flag.word => Operation::PutSignal(data, signalled(flag), value),
            9 if data.word != flag.word => Operation::PutSignalAdd(data, signalled(flag)),
            10 | 11 => Operation::Signal(flag, value),
            12 => Operation::Add(flag),
            13 => Operation::FetchAdd(flag),
            14 => Operation::Load(flag),
            15 => Operation::Store(flag, value),
            16 | 17 => Operation::CompareSwap(flag, random.below(2), value),
            18 => Operation::Wait(own(flag), value),
            19 => Operation::Fence,
            _ => Operation::Flush(data.rank),
        }
    }

    /// Whether the checker finds a race in any schedule; `None` if there are too many.
    fn is_reported(&self, checker: &Arc<Checker>, topology: Option<&str>) -> Option<bool> {
        let (operations, over) = (self.ranks.clone(), checker.clone());
        let program: sim::Program = Rc::new(move |fabric, start| {
            let rank = fabric.job().rank;
            if rank == Rank(0) {
                over.begin_again();
            }
            let text = |error: farside::Error| error.to_string();
            let world = World::new(over.over(fabric).map_err(text)?).map_err(text)?;
            let words = world.window::<u64>(WORDS).map_err(text)?;
            start.prepared();
            // A rank ends where it cannot go on.
            let _ = operations[rank.index()].iter().try_for_each(|one| one.run(&world, &words));
            if over.has_race() { Err("a race".into()) } else { Ok(()) }
        });
        let simulation = simulation(self.ranks.len() as u32, topology).unwrap();
        let policy = Policy::Exhaustive(Reduction::Sources);
        let mut go_on = |progress: &Progress| progress.runs < SCHEDULES_MAX;
        let report = explore(&simulation, &program, policy, 0, &mut go_on);
        match report.failure {
            Some(failure) => {
                assert!(failure.problem.contains("a race"), "{}: {self:?}", failure.problem);
                Some(true)
            }
            None => report.complete.then_some(false),
        }
    }
}

#[test]
fn the_checker_finds_what_is_a_race_in_some_run_and_nothing_else() {
    let programs: u64 = match std::env::var_os("FARSIDE_LONG") {
        Some(_) => 100_000,
        None => 1000,
    };
    let checkers = [2, 3].map(|ranks| Checker::for_runs(ranks).unwrap());
    let seed = farside_testing::seed();
    let mut random = SplitMix::new(seed.wrapping_mul(1000) + 40);
    let (mut racy, mut cut_off, mut wrong) = (0, 0, Vec::new());
    for number in 0..programs {
        let program = Program::random(&mut random);
        let ranks = program.ranks.len();
        let topology = (number % 4 == 3).then(|| format!("node:{ranks}"));
        let has_race = oracle::has_race(&program);
        racy += u64::from(has_race);
        match program.is_reported(&checkers[ranks - 2], topology.as_deref()) {
            None => cut_off += 1,
            Some(is_reported) if is_reported == has_race => {}
            Some(is_reported) => wrong.push((number, program, has_race, is_reported)),
        }
    }
    println!(
        "{programs} programs of seed {seed}, {racy} with a race, {cut_off} cut off, {} judged \
         wrongly",
        wrong.len()
    );
    for (number, program, has_race, is_reported) in wrong.iter().take(20) {
        println!("program {number}: a race: {has_race}, reported: {is_reported}");
        for (rank, operations) in program.ranks.iter().enumerate() {
            println!("  rank {rank}: {operations:?}");
        }
    }
    assert!(wrong.is_empty() && 20 * cut_off < programs);
    assert!(4 * racy > programs && 4 * racy < 3 * programs, "{racy} of {programs} have a race");
}
