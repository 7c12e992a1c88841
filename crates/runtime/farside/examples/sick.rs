//! Programs that hang, each for another reason, and three that are only slow: what `farside why`
//! says of them stands in `docs/troubleshooting.md`.
//!
//! ```console
//! $ cargo build --example sick -p farside
//! $ farside run -n 4 target/debug/examples/sick two-locks &
//! $ farside why
//! ```
//!
//! All of them end by themselves after a minute.

use std::time::{Duration, Instant};

use farside::{Error, Lock, Rank, Result, World};

/// After this time a program that computes stops doing so.
const FOR_EVER: Duration = Duration::from_secs(60);

#[farside::main]
fn main(world: &World) -> Result<()> {
    program(world, &std::env::args().nth(1).unwrap_or_default())
}

pub(crate) fn program(world: &World, name: &str) -> Result<()> {
    match name {
        "two-locks" => two_locks(world),
        "two-epochs" => two_epochs(world),
        "skipped-barrier" => skipped_barrier(world),
        "different-collectives" => different_collectives(world),
        "missing-signal" => missing_signal(world),
        "wrong-word" => wrong_word(world),
        "plain-put" => plain_put(world),
        "busy-holder" => busy_holder(world),
        "stopped" => stopped(world),
        "healthy" => healthy(world),
        "slow-rank" => slow_rank(world),
        "slow-lock" => slow_lock(world),
        "slow-ring" => slow_ring(world),
        _ => Err(Error::InvalidArgument(format!("there is no sick program called {name:?}"))),
    }
}

fn compute(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::black_box((0..1000).sum::<u64>());
    }
}

fn is_asleep(process: u64) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'))
}

/// Two ranks acquire two locks in opposite order.
fn two_locks(world: &World) -> Result<()> {
    let a = Lock::new(world, Rank(0))?.named(world, "a");
    let b = Lock::new(world, Rank(0))?.named(world, "b");
    let (first, second) = if world.rank() == Rank(0) { (&a, &b) } else { (&b, &a) };
    let one = (world.rank() < Rank(2)).then(|| first.lock(world)).transpose()?;
    world.barrier()?;
    if let Some(one) = one {
        let other = second.lock(world)?;
        other.unlock()?;
        one.unlock()?;
    }
    world.barrier()
}

/// One rank leaves out a barrier, and waits for a signal that comes after it.
fn skipped_barrier(world: &World) -> Result<()> {
    let flag = world.words(1)?;
    let last = Rank(world.size() - 1);
    if world.rank() != last {
        world.barrier()?;
        world.signal(flag.at(last, 0), 1)?;
    } else {
        world.wait(flag.at(last, 0), |flag| flag == 1)?;
    }
    world.barrier()
}

fn different_collectives(world: &World) -> Result<()> {
    if world.rank() == Rank(0) { world.barrier() } else { world.broadcast(Rank(1), &mut [0u64; 4]) }
}

fn missing_signal(world: &World) -> Result<()> {
    let window = world.window::<u64>(8)?.named(world, "inbox");
    if world.rank() == Rank(1) {
        world.wait(window.at(Rank(1), 3), |word| word != 0)?;
    }
    world.barrier()
}

/// The signal goes to another word than the one that is waited for.
fn wrong_word(world: &World) -> Result<()> {
    let window = world.window::<u64>(8)?.named(world, "inbox");
    if world.rank() == Rank(0) {
        world.signal(window.at(Rank(1), 4), 7)?;
    }
    if world.rank() == Rank(1) {
        world.wait(window.at(Rank(1), 3), |word| word != 0)?;
    }
    world.barrier()
}

/// A word that is waited for is written by a plain put, which wakes nobody.
fn plain_put(world: &World) -> Result<()> {
    let window = world.window::<u64>(8)?.named(world, "inbox");
    window.own().set(7, std::process::id().into())?;
    world.sync()?;
    if world.rank() == Rank(1) {
        world.wait(window.at(Rank(1), 3), |word| word != 0)?;
    }
    if world.rank() == Rank(0) {
        let process = world.get_value(window.at(Rank(1), 7))?;
        // A rank that is awake would see the change.
        let mut looks = 0;
        while looks < 50 {
            compute(Duration::from_millis(10));
            looks = if is_asleep(process) { looks + 1 } else { 0 };
        }
        world.put_value(1, window.at(Rank(1), 3))?;
        world.flush(Rank(1))?;
    }
    world.barrier()
}

fn busy_holder(world: &World) -> Result<()> {
    let lock = Lock::new(world, Rank(0))?.named(world, "table");
    if world.rank() == Rank(0) {
        let guard = lock.lock(world)?;
        world.barrier()?;
        compute(FOR_EVER);
        guard.unlock()?;
    } else {
        world.barrier()?;
        lock.lock(world)?.unlock()?;
    }
    world.barrier()
}

/// One rank stops itself, as SIGSTOP would.
fn stopped(world: &World) -> Result<()> {
    if world.rank() == Rank(1) {
        let own = std::process::id().to_string();
        let kill = std::process::Command::new("kill").args(["-STOP", &own]).status();
        kill.map_err(|error| Error::InvalidState(error.to_string()))?;
    }
    world.barrier()
}

/// Nothing is wrong: ranks add to each other's words.
fn healthy(world: &World) -> Result<()> {
    let words = world.words(1)?;
    let next = Rank((world.rank().0 + 1) % world.size());
    for _ in 0..1000 {
        world.fetch_add(words.at(next, 0), 1)?;
    }
    world.sync()?;
    words.free(world)
}

/// Slow: one rank computes for long, the others wait for it in a barrier.
fn slow_rank(world: &World) -> Result<()> {
    if world.rank() == Rank(1) {
        compute(FOR_EVER);
    }
    world.barrier()
}

/// Slow: each holder of a lock computes for a while.
fn slow_lock(world: &World) -> Result<()> {
    let lock = Lock::new(world, Rank(0))?.named(world, "queue");
    for _ in 0..30 {
        let guard = lock.lock(world)?;
        compute(Duration::from_millis(700));
        guard.unlock()?;
    }
    world.barrier()
}

/// Slow: a token goes round, and each rank computes before it passes the token on.
fn slow_ring(world: &World) -> Result<()> {
    let words = world.words(1)?;
    let next = Rank((world.rank().0 + 1) % world.size());
    for round in 1..=30 {
        if world.rank() != Rank(0) || round > 1 {
            let awaited = if world.rank() == Rank(0) { round - 1 } else { round };
            world.wait(words.at(world.rank(), 0), |token| token == awaited)?;
        }
        compute(Duration::from_millis(600));
        world.signal(words.at(next, 0), round)?;
    }
    Ok(())
}

/// Two ranks lock each other's part of a window while they have their own.
fn two_epochs(world: &World) -> Result<()> {
    use farside::epoch::{Mode, Options, Window};

    let window: Window = Window::allocate(world, 8, Options::default())?.named("halo");
    let (own, other) = (world.rank(), Rank(world.rank().0 ^ 1));
    if own < Rank(2) {
        window.lock(own, Mode::Exclusive)?;
    }
    world.barrier()?;
    if own < Rank(2) {
        window.lock(other, Mode::Shared)?;
        window.unlock(other)?;
        window.unlock(own)?;
    }
    window.free()
}
