//! Ranks on one processor that hand a word round, and poll it by every operation that fetches:
//! whoever finds nothing new lets the others run after a few looks, and not at the end of its slice
//! of the scheduler's time. So each hop takes few looks.

use farside::{Local, Op, Rank, Result, Words, World};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const ROUNDS: u64 = 100;
/// In a slice a rank looks ten thousand times and more.
const LOOKS_MAX: u64 = 1000;

type Look = fn(&World, &Words) -> Result<u64>;

const WAYS: [(&str, Look); 5] = [
    ("get", |world, words| world.get_value(words.at(world.rank(), 0))),
    ("load", |world, words| world.load(words.at(world.rank(), 0))),
    ("fetch_add", |world, words| world.fetch_add(words.at(world.rank(), 0), 0)),
    ("compare_swap", |world, words| {
        world.compare_swap(words.at(world.rank(), 0), u64::MAX, u64::MAX)
    }),
    ("get_accumulate", |world, words| {
        world.get_accumulate_value(Op::NoOp, 0, words.at(world.rank(), 0))
    }),
];

fn stay_on_one_processor() {
    let allowed = sched_getaffinity(None).expect("a thread knows its processors");
    let first = (0..CpuSet::MAX_CPU).find(|&at| allowed.is_set(at));
    let mut one = CpuSet::new();
    one.set(first.expect("it runs on one"));
    sched_setaffinity(None, &one).expect("a thread may give up processors");
}

fn ring(world: &World, name: &str, look: Look) -> Result<()> {
    let words = world.words(1)?;
    let (me, size) = (world.rank(), u64::from(world.size()));
    let next = Rank((me.0 + 1) % world.size());
    let mut looks = 0;
    for round in 0..ROUNDS {
        let turn = round * size + u64::from(me.0);
        loop {
            looks += 1;
            if look(world, &words)? >= turn {
                break;
            }
        }
        world.store(words.at(next, 0), turn + 1)?;
    }
    world.sync()?;
    println!("{name}: {} looks for each hop", looks / (ROUNDS * size));
    assert!(looks < LOOKS_MAX * ROUNDS * size, "{name}: {looks} looks");
    words.free(world)
}

#[test]
fn ranks_that_poll_on_one_processor_let_others_run() {
    let local = Local::new(4).expect("the environment is in order").cores(1);
    local
        .run(|world| {
            stay_on_one_processor();
            WAYS.iter().try_for_each(|(name, look)| ring(world, name, *look))
        })
        .unwrap();
}
