//! Random programs without races see what a sequential run of them computes: with every front end,
//! kind of copies and of diffs, on pretended nodes and over UDP.

use farside::dsm::{Access, BarrierKind, Config, Copies, Diffs, Dsm, Start, has_userfault};
use farside::{Local, Rank, Result, World};
use farside_fabric::random::SplitMix;

/// Words that have an owner in each round, and words that a lock guards, on the same pages.
const OWNED: usize = 3000;
const GUARDED: usize = 8;
const LOCKS: u64 = 3;

/// What one seed stands for. Every rank derives the same.
struct Plan {
    ranks: u32,
    nodes: u32,
    over_udp: bool,
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
            start: Start::ALL[below(2) as usize],
            storage_limit: [0, 10_000, 16 << 20][below(3) as usize],
            locks: LOCKS as u32,
            ..Config::new(1 << 16)
        };
        let (over_udp, rounds) = (below(4) == 0 && nodes > 1, 1 + below(6) as u32);
        Plan { ranks, nodes, over_udp, rounds, config }
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
            for word in from..OWNED * (section as usize + 1) / sections as usize {
                if owner(seed, round, word, plan.ranks) == Some(me.0) {
                    dsm.set(owned, word, value(round, word))?;
                }
            }
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
        let seen = dsm.view(owned, range.clone())?.to_vec();
        dsm.check()?;
        assert_eq!(seen, expected[range], "seed {seed}, round {round}, {me}: {:?}", plan.config);
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

/// `FARSIDE_LONG` runs 10,000 of them; `FARSIDE_TEST_SEED` runs one again.
#[test]
fn random_programs_without_races_see_a_sequential_memory() {
    let count = if std::env::var_os("FARSIDE_LONG").is_some() { 10_000 } else { 120 };
    let seeds = match std::env::var("FARSIDE_TEST_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..count,
    };
    for seed in seeds {
        let plan = Plan::new(seed);
        let job = Local::new(plan.ranks).unwrap();
        let job = match plan.over_udp {
            true => job.nodes(plan.nodes),
            false => job.topology(&format!("node:{}", plan.nodes)),
        };
        let done = job.run(|world| run(&world, seed, &plan));
        done.unwrap_or_else(|error| panic!("seed {seed}: {error}: {:?}", plan.config));
    }
}
