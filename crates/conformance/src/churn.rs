//! Work without an end, for tests in which a rank is killed: every other rank must get an error that names it.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use farside::dsm::{Config, Dsm};
use farside::lock::Kind;
use farside::{Ended, Error, Lock, Node, Rank, Result, World};

/// The kinds of work.
pub const KINDS: [&str; 15] = [
    "put",
    "get",
    "atomics",
    "accumulate",
    "wait",
    "barrier",
    "collective",
    "window",
    "call",
    "nothing",
    "lock",
    "queue-lock",
    "dsm-barrier",
    "dsm-fault",
    "dsm-lock",
];
/// The variable that names the rank that will be killed.
pub const VICTIM: &str = "FARSIDE_CHURN_VICTIM";
/// The variable that says after how many microseconds it kills itself.
pub const DELAY: &str = "FARSIDE_CHURN_DELAY_US";

/// Works until a rank dies, and checks that the error names it. A survivor prints how long after the death it heard of it.
pub fn run(kind: &str) -> ExitCode {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    let (Some(victim), Some(delay)) = (number(VICTIM), number(DELAY)) else {
        eprintln!("churn needs {VICTIM} and {DELAY}");
        return ExitCode::FAILURE;
    };
    let victim = Rank(victim);
    match farside::join().and_then(|world| work(&world, kind, victim, delay)) {
        Err(Error::RankLost { rank, how: Ended::Signal(9) } | Error::Poisoned { rank, how: Ended::Signal(9) })
            if rank == victim =>
        {
            ExitCode::SUCCESS
        }
        other => {
            eprintln!("churn-{kind}: expected to lose {victim}, got {other:?}");
            ExitCode::FAILURE
        }
    }
}

fn work(world: &World, kind: &str, victim: Rank, delay: u32) -> Result<()> {
    let death = world.words(1)?;
    let window = world.window::<u64>(1000)?;
    let sums = world.window::<f64>(1000)?;
    let handler = world.serve(|_, _, bytes| bytes.to_vec())?;
    world.barrier()?;
    if world.rank() == victim {
        let context = world.context()?;
        let word = death.at(Rank((victim.0 + 1) % world.size()), 0).word();
        std::thread::spawn(move || {
            // sleep: the moment of death is meant to be any moment of the work that goes on meanwhile.
            std::thread::sleep(Duration::from_micros(delay.into()));
            let _ = context.fabric().post(word, farside::Atomic::Store(now_us().into()));
            kill_self();
        });
    }
    let result = forever(world, kind, (&window, &sums), handler);
    if world.rank().0 == (victim.0 + 1) % world.size() {
        let heard_us = now_us().saturating_sub(world.load(death.at(world.rank(), 0))?);
        println!("heard after {heard_us} us");
    }
    result
}

type Memory<'a> = (&'a farside::Window<u64>, &'a farside::Window<f64>);

fn forever(world: &World, kind: &str, (window, sums): Memory<'_>, handler: farside::HandlerId) -> Result<()> {
    if let Some(kind) = kind.strip_prefix("dsm-") {
        return share(world, kind);
    }
    let words = world.words(1)?;
    let next = Rank((world.rank().0 + 1) % world.size());
    let mut buffer = vec![1; 1000];
    let lock = Lock::of_kind(world, Rank(0), if kind == "lock" { &Kind::Default } else { &Kind::Mcs })?;
    for round in 1.. {
        for peer in world.ranks() {
            match kind {
                "put" => {
                    world.put(&buffer, window.at(peer, 0))?;
                    world.flush(peer)?;
                }
                "get" => world.get(window.at(peer, 0), &mut buffer)?,
                "atomics" => drop(world.fetch_add(window.at(peer, 7), 1)?),
                "accumulate" => world.accumulate(2.0, &[1.0; 1000], sums.at(peer, 0))?,
                "call" => drop(world.call(Node(0), handler, b"echo")?),
                _ => {}
            }
        }
        match kind {
            "wait" => {
                world.signal(words.at(next, 0), round)?;
                world.wait(words.at(world.rank(), 0), |seen| seen >= round)?;
            }
            "barrier" => world.barrier()?,
            "collective" => {
                world.all_reduce(&mut buffer, u64::max)?;
                world.broadcast(Rank((round % u64::from(world.size())) as u32), &mut buffer)?;
                drop(world.all_gather(&buffer)?);
                drop(world.all_to_all(&buffer)?);
            }
            // Dies as the holder, in the queue, or outside.
            "lock" | "queue-lock" => {
                let guard = lock.lock(world)?;
                world.put(&buffer, window.at(next, 0))?;
                guard.unlock()?;
            }
            "window" => world.window::<u64>(100)?.free(world)?,
            // Asleep, until the end.
            "nothing" => drop(world.wait(words.at(world.rank(), 0), |word| word == u64::MAX)?),
            // The victim's own calls go on with itself.
            "call" => world.barrier()?,
            _ => world.relax()?,
        }
    }
    Ok(())
}

/// Works on shared pages: barriers with next to nothing, pages that fault by the hundred, or a lock.
fn share(world: &World, kind: &str) -> Result<()> {
    const PAGES: usize = 64;
    let config = Config { storage_limit: 1 << 18, ..Config::new(4 * PAGES as u64 * 4096) };
    let mut dsm = Dsm::new(world, config)?;
    let each = if kind == "fault" { PAGES * 1024 } else { 1 };
    let words = dsm.alloc::<u32>(each * world.size() as usize)?;
    let mine = each * world.rank().index();
    for round in 1.. {
        if kind == "lock" {
            dsm.locked(round % 3, |dsm| dsm.set(words, 0, dsm.get(words, 0)?.wrapping_add(1)))?;
            continue;
        }
        let view = dsm.view_mut(words, mine..mine + each)?;
        (0..each).step_by(512).for_each(|at| view.set(at, round));
        dsm.barrier()?;
        // Whoever dies meanwhile leaves pages that cannot be fetched: loads go on, and the barrier fails.
        let view = dsm.view(words, 0..words.len())?;
        let sum: u64 = (0..words.len()).step_by(512).map(|at| u64::from(view.get(at))).sum();
        std::hint::black_box(sum);
        dsm.barrier()?;
    }
    Ok(())
}

fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// Nothing runs after this: no destructor, no handler, as if somebody had called `kill -9`.
fn kill_self() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}
