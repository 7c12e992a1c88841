//! Random programs without races see what a sequential run of them computes: with every front end,
//! kind of copies and of diffs, with several threads in a rank, on pretended nodes, over UDP and
//! over libfabric.
//!
//! A program of its own: providers of libfabric replace the handlers of faults while they are
//! loaded, and no other test may have one then.

use std::ops::Range;

use farside::dsm::{
    Access, BarrierKind, Config, Copies, Diffs, Dsm, PartMut, Shared, Start, has_userfault,
};
use farside::{Local, Rank, Result, World};
use farside_fabric::random::SplitMix;

/// Words that have an owner in each round, and words that a lock guards, on the same pages.
const OWNED: usize = 3000;
const GUARDED: usize = 8;
const LOCKS: u64 = 3;

/// The way between nodes: none, because they are only pretended, or a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    Nothing,
    Nic,
    Ofi,
}

/// What one seed stands for. Every rank derives the same.
struct Plan {
    ranks: u32,
    nodes: u32,
    between: Between,
    threads: usize,
    rounds: u32,
    config: Config,
}

impl Plan {
    fn new(seed: u64) -> Plan {
        let mut random = SplitMix::new(seed);
        let mut below = |count: u64| random.next() % count;
        let ranks = 1 + below(5) as u32;
        let nodes = 1 + below(3.min(u64::from(ranks))) as u32;
        let accesses: &[Access] = match has_userfault() {
            true => &[Access::Userfault, Access::Protect, Access::Explicit],
            false => &[Access::Protect, Access::Explicit],
        };
        let config = Config {
            access: accesses[below(accesses.len() as u64) as usize],
            copies: Copies::ALL[below(2) as usize],
            diffs: Diffs::ALL[below(2) as usize],
            barrier: BarrierKind::ALL[below(2) as usize],
            start: Start::ALL[below(3) as usize],
            storage_limit: [0, 10_000, 16 << 20][below(3) as usize],
            locks: LOCKS as u32,
            ..Config::new(1 << 16)
        };
        // A job over libfabric takes a second or two to begin and to end.
        let between = match below(48) {
            0 if nodes > 1 => Between::Ofi,
            1..12 if nodes > 1 => Between::Nic,
            _ => Between::Nothing,
        };
        let (rounds, threads) = (1 + below(6) as u32, 1 + below(3) as usize);
        Plan { ranks, nodes, between, threads, rounds, config }
    }
}

/// The owner of a word in a round; in some rounds a word has none.
fn owner(seed: u64, round: u32, word: usize, ranks: u32) -> Option<u32> {
    // Neighbouring words often have one owner, and often not.
    let block = if round.is_multiple_of(2) { word / 64 } else { word };
    let mut random = SplitMix::new(seed ^ (u64::from(round) * 7919 + block as u64));
    let owner = random.next() % (u64::from(ranks) + 2);
    (owner < u64::from(ranks)).then_some(owner as u32)
}

fn value(round: u32, word: usize) -> u32 {
    round * 100_000 + word as u32
}

/// Writes what this rank owns of some words, on its own thread or on several, to which the words
/// are dealt in pieces.
fn write(
    dsm: &mut Dsm<'_>,
    owned: Shared<u32>,
    words: Range<usize>,
    (threads, piece): (usize, usize),
    value: impl Fn(usize) -> Option<u32> + Sync,
) -> Result<()> {
    if threads == 1 {
        return words
            .filter_map(|word| Some((word, value(word)?)))
            .try_for_each(|(word, value)| dsm.set(owned, word, value));
    }
    let part = dsm.lend().write(owned, words.clone())?;
    let mut dealt: Vec<Vec<(usize, PartMut<'_, u32>)>> = Vec::new();
    dealt.resize_with(threads, Vec::new);
    for (at, piece) in words.step_by(piece).zip(part.chunks(piece)).enumerate() {
        dealt[at % threads].push(piece);
    }
    std::thread::scope(|scope| {
        for pieces in dealt {
            scope.spawn(|| {
                for (first, mut piece) in pieces {
                    for at in 0..piece.len() {
                        if let Some(value) = value(first + at) {
                            piece.set(at, value);
                        }
                    }
                }
            });
        }
    });
    Ok(())
}

fn read(
    dsm: &mut Dsm<'_>,
    owned: Shared<u32>,
    words: Range<usize>,
    threads: usize,
) -> Result<Vec<Vec<u32>>> {
    if threads == 1 {
        return Ok(vec![dsm.view(owned, words)?.to_vec()]);
    }
    let part = dsm.lend().read(owned, words)?;
    Ok(std::thread::scope(|scope| {
        let readers: Vec<_> = (0..threads).map(|_| scope.spawn(move || part.to_vec())).collect();
        readers.into_iter().map(|reader| reader.join().expect("no reader fails")).collect()
    }))
}

fn run(world: &World, seed: u64, plan: &Plan) -> Result<()> {
    let mut dsm = Dsm::new(world, plan.config)?;
    let owned = dsm.alloc::<u32>(OWNED)?;
    let guarded = dsm.alloc::<u64>(GUARDED)?;
    let me = world.rank();
    let mut random = SplitMix::new(seed ^ (u64::from(me.0) + 1).rotate_left(40));
    let mut expected = vec![0; OWNED];
    for round in 1..=plan.rounds {
        let sections = 4;
        for section in 0..sections {
            let lock = (u64::from(round) + section + u64::from(me.0)) % LOCKS;
            let at = lock as usize;
            dsm.locked(lock as u32, |dsm| dsm.set(guarded, at, dsm.get(guarded, at)? + 1))?;
            let from = OWNED * section as usize / sections as usize;
            let words = from..OWNED * (section as usize + 1) / sections as usize;
            let dealt = (plan.threads, 1 + random.below(200) as usize);
            write(&mut dsm, owned, words, dealt, |word| {
                let is_mine = owner(seed, round, word, plan.ranks) == Some(me.0);
                is_mine.then(|| value(round, word))
            })?;
        }
        for (word, expected) in expected.iter_mut().enumerate() {
            if owner(seed, round, word, plan.ranks).is_some() {
                *expected = value(round, word);
            }
        }
        dsm.barrier()?;
        // Some of the words, so that pages stay behind for several rounds.
        let first = (random.next() % OWNED as u64) as usize;
        let range = first..(first + 1 + (random.next() % 700) as usize).min(OWNED);
        let seen = read(&mut dsm, owned, range.clone(), plan.threads)?;
        dsm.check()?;
        for seen in seen {
            let expected = &expected[range.clone()];
            assert_eq!(seen, expected, "seed {seed}, round {round}, {me}: {:?}", plan.config);
        }
        dsm.barrier()?;
    }
    assert_eq!(dsm.view(owned, 0..OWNED)?.to_vec(), expected, "seed {seed}: {:?}", plan.config);
    let sum: u64 = dsm.view(guarded, 0..GUARDED)?.iter().sum();
    let all = u64::from(plan.rounds) * 4 * u64::from(plan.ranks);
    assert_eq!(sum, all, "seed {seed}: {:?}", plan.config);
    dsm.barrier()?;
    if plan.ranks > 2 && me.0 < 2 {
        dsm.set(owned, me.index(), 7 + me.0)?;
        dsm.barrier_of(&[Rank(0), Rank(1)])?;
        assert_eq!((dsm.get(owned, 0)?, dsm.get(owned, 1)?), (7, 8), "seed {seed}");
    }
    dsm.barrier()?;
    dsm.close()
}

/// `FARSIDE_LONG` runs 10,000 of them, `FARSIDE_TEST_PROGRAMS` as many as it says, from the seed
/// `FARSIDE_TEST_SEED` on: with 1 program, that one again.
#[test]
fn random_programs_without_races_see_a_sequential_memory() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let usual = if std::env::var_os("FARSIDE_LONG").is_some() { 10_000 } else { 120 };
    let first = number("FARSIDE_TEST_SEED").unwrap_or(0);
    let seeds = first..first + number("FARSIDE_TEST_PROGRAMS").unwrap_or(usual);
    let mut counts = [[0; 3]; 3];
    for seed in seeds {
        let plan = Plan::new(seed);
        counts[plan.between as usize][plan.threads - 1] += 1;
        let job = Local::new(plan.ranks).unwrap();
        let job = match plan.between {
            Between::Nothing => job.topology(&format!("node:{}", plan.nodes)),
            Between::Nic => job.nodes(plan.nodes),
            Between::Ofi => job.nodes(plan.nodes).ofi("tcp;ofi_rxm"),
        };
        let done = job.run(|world| run(world, seed, &plan));
        done.unwrap_or_else(|error| panic!("seed {seed}: {error}: {:?}", plan.config));
    }
    println!("programs with 1, 2, 3 threads in a rank on shm, nic, ofi: {counts:?}");
}
