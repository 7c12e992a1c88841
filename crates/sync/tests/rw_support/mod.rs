//! Programs under a reader-writer lock that the explorer can judge, and what to expect of them.
#![allow(dead_code, reason = "each test file uses a part of this")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use farside::rw::Statistics;
use farside::sim::{Program, Reduction, Simulation, Verdict, exhaustive, program, random, replay, simulation};
use farside::{Error, Rank, Result, RwLock, World};

/// Runs of an exploration that is expected to end.
pub(crate) const ENOUGH: u64 = 3_000_000;

/// Whether to take the time for the larger explorations.
pub(crate) fn long() -> bool {
    std::env::var_os("FARSIDE_LONG").is_some()
}

/// How a rank asks for the lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Style {
    /// All wait until they have it.
    Wait,
    /// All but rank 0 take their place, and give it up again unless they have the lock at once; then they wait.
    GiveUp,
    /// All but rank 0 take their place, and go away unless they have the lock at once.
    WalkAway,
    /// All but rank 0 ask once without waiting; then they wait.
    Try,
    /// All but rank 0 wait as long as anything else happens; then they wait without a limit.
    Patient,
}

pub(crate) const STYLES: [Style; 5] = [Style::Wait, Style::GiveUp, Style::WalkAway, Style::Try, Style::Patient];

/// Who is inside, and how often was written, as nobody but the test knows.
#[derive(Clone, Default)]
struct Inside {
    readers: Rc<Cell<u64>>,
    writers: Rc<Cell<u64>>,
    written: Rc<Cell<u64>>,
}

fn add(cell: &Cell<u64>, value: i64) {
    cell.set(cell.get().wrapping_add_signed(value));
}

fn wrong(what: String) -> Result<()> {
    Err(Error::Misuse(what))
}

impl Inside {
    fn reset(&self) {
        for cell in [&self.readers, &self.writers, &self.written] {
            cell.set(0);
        }
    }

    fn check(&self) -> Result<()> {
        match (self.readers.get(), self.writers.get()) {
            (_, 0) | (0, 1) => Ok(()),
            (readers, writers) => wrong(format!("{readers} readers and {writers} writers inside at a time")),
        }
    }

    fn read(&self, world: &World, count: farside::Place<'_, u64>) -> Result<()> {
        add(&self.readers, 1);
        self.check()?;
        let seen = world.get_value(count)?;
        self.check()?;
        if seen != self.written.get() {
            wrong(format!("a reader saw {seen} after {} writes", self.written.get()))?;
        }
        add(&self.readers, -1);
        Ok(())
    }

    fn write(&self, world: &World, count: farside::Place<'_, u64>) -> Result<()> {
        add(&self.writers, 1);
        self.check()?;
        let seen = world.get_value(count)?;
        self.check()?;
        if seen != self.written.get() {
            wrong(format!("a writer saw {seen} after {} writes", self.written.get()))?;
        }
        world.put_value(seen + 1, count)?;
        add(&self.written, 1);
        add(&self.writers, -1);
        Ok(())
    }
}

/// What each rank does, one letter for each request: `r` and `w`.
pub(crate) type Roles = &'static [&'static str];

/// What all runs of a program have counted together.
#[derive(Clone, Default)]
pub(crate) struct Totals(Rc<RefCell<Statistics>>);

impl Totals {
    fn add(&self, more: &Statistics) {
        let sum = self.0.borrow().plus(more);
        *self.0.borrow_mut() = sum;
    }

    /// What is never reached is not checked.
    pub(crate) fn reached(&self, names: &[&str]) {
        let all = self.0.borrow().named();
        for name in names {
            let count = all.iter().find(|(known, _)| known == name).map(|(_, count)| *count);
            assert!(count.expect("a count of that name") > 0, "`{name}` was never reached: {all:?}");
        }
    }

    /// What is reached, in a line.
    pub(crate) fn show(&self) -> String {
        let all = self.0.borrow().named();
        let some = all.iter().filter(|(_, count)| *count > 0);
        some.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    }
}

/// Ranks that read and write a word under the lock, not atomically. No writer may meet anybody inside, and everybody sees the last write.
/// Ranks beyond the roles start over with them.
pub(crate) fn mixed(
    make: impl Fn(&World) -> Result<RwLock> + 'static,
    roles: Roles,
    style: Style,
    totals: &Totals,
) -> Program {
    let inside = Inside::default();
    let (at_start, totals) = (inside.clone(), totals.clone());
    let prepare = move |world: &World| {
        at_start.reset();
        Ok((make(world)?, world.words(1)?))
    };
    program(prepare, move |world, (lock, words)| {
        // Not at the lock's home, where its own operations might order the counter's by accident.
        let count = words.at(Rank(world.size() - 1), 0);
        for role in roles[world.rank().index() % roles.len()].chars() {
            if role == 'w' {
                let Some(guard) = ask(world, style, |how| lock.how_write(world, how))? else { continue };
                inside.write(world, count)?;
                guard.unlock()?;
            } else {
                let Some(guard) = ask(world, style, |how| lock.how_read(world, how))? else { continue };
                inside.read(world, count)?;
                guard.unlock()?;
            }
        }
        totals.add(&lock.statistics());
        Ok(())
    })
}

/// How long to wait.
#[derive(Clone, Copy)]
enum How {
    Forever,
    AtMost(Duration),
    Never,
}

/// Asks once, and again if that was in vain.
fn ask<G>(world: &World, style: Style, request: impl Fn(How) -> Result<Option<G>>) -> Result<Option<G>> {
    let first = match style {
        _ if world.rank() == Rank(0) => None,
        Style::Wait => None,
        Style::GiveUp | Style::WalkAway => request(How::AtMost(Duration::ZERO))?,
        Style::Patient => request(How::AtMost(Duration::from_millis(1)))?,
        Style::Try => request(How::Never)?,
    };
    match first {
        Some(guard) => Ok(Some(guard)),
        None if style == Style::WalkAway && world.rank() != Rank(0) => Ok(None),
        None => request(How::Forever),
    }
}

trait Asking {
    fn how_read<'a>(&'a self, world: &'a World, how: How) -> Result<Option<farside::ReadGuard<'a>>>;
    fn how_write<'a>(&'a self, world: &'a World, how: How) -> Result<Option<farside::WriteGuard<'a>>>;
}

fn in_time<G>(asked: Result<G>) -> Result<Option<G>> {
    match asked {
        Err(Error::TimedOut { .. }) => Ok(None),
        other => other.map(Some),
    }
}

impl Asking for RwLock {
    fn how_read<'a>(&'a self, world: &'a World, how: How) -> Result<Option<farside::ReadGuard<'a>>> {
        match how {
            How::Forever => self.read(world).map(Some),
            How::AtMost(time) => in_time(self.read_timeout(world, time)),
            How::Never => self.try_read(world),
        }
    }

    fn how_write<'a>(&'a self, world: &'a World, how: How) -> Result<Option<farside::WriteGuard<'a>>> {
        match how {
            How::Forever => self.write(world).map(Some),
            How::AtMost(time) => in_time(self.write_timeout(world, time)),
            How::Never => self.try_write(world),
        }
    }
}

fn simulated(ranks: usize, topology: &str) -> Simulation {
    simulation(ranks as u32, Some(topology)).expect("a simulation")
}

/// Every schedule passes: one rank for each role.
pub(crate) fn passes(
    name: &str,
    topology: &str,
    make: impl Fn(&World) -> Result<RwLock> + 'static,
    (roles, style): (Roles, Style),
    totals: &Totals,
) {
    let begin = std::time::Instant::now();
    let program = mixed(make, roles, style, totals);
    let report = exhaustive(&simulated(roles.len(), topology), &program, Reduction::Sources, ENOUGH);
    println!(
        "{name}, {roles:?} {style:?} on {topology}: {} runs, {} pruned, {} steps, {:.1} s",
        report.runs,
        report.pruned,
        report.steps,
        begin.elapsed().as_secs_f64()
    );
    let failure = report.failure.as_ref().map(|failure| (&failure.problem, &failure.schedule));
    assert_eq!(failure, None, "{name}");
    assert!(report.complete, "{name}: does not end");
}

/// So many random schedules pass.
pub(crate) fn passes_at_random(
    name: &str,
    (ranks, topology): (usize, &str),
    make: impl Fn(&World) -> Result<RwLock> + 'static,
    (roles, style): (Roles, Style),
    runs: u64,
    totals: &Totals,
) {
    let report = random(&simulated(ranks, topology), &mixed(make, roles, style, totals), 0x5eed, runs);
    println!("{name}, {ranks} ranks {style:?} on {topology}: {} random runs, {} steps", report.runs, report.steps);
    let failure = report.failure.as_ref().map(|failure| (&failure.problem, &failure.schedule));
    assert_eq!(failure, None, "{name}");
}

/// A wrong lock is caught, and its schedule shows the same problem again.
pub(crate) fn is_caught(
    topology: &str,
    make: impl Fn(&World) -> Result<RwLock> + 'static,
    roles: Roles,
    style: Style,
    problem: &str,
) {
    let simulation = simulated(roles.len(), topology);
    let program = mixed(make, roles, style, &Totals::default());
    let report = exhaustive(&simulation, &program, Reduction::Sources, ENOUGH);
    let failure = report.failure.expect("the mutant is caught");
    println!("caught after {} runs: {}; schedule {}", report.runs, failure.problem, failure.schedule);
    assert!(failure.problem.contains(problem), "{}", failure.problem);
    let again = replay(&simulation, &program, &failure.schedule).expect("the schedule can be read");
    assert_eq!(again.verdict, Verdict::Failed(failure.problem));
}
