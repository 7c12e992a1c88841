//! Locks that are recovered: ranks die at any moment, what they had under way may land at any time
//! after that, also in a lock that was recovered since, and the survivors go on.

use std::cell::RefCell;
use std::rc::Rc;

use farside::sim::{Policy, program};
use farside::{Detached, Lock, PeerState, Rank, Result, RwLock, Team, Words, World};
use farside::{lock, rw};

use super::lock::{EXPLORED, Explored};
use super::{name, wrong};
use crate::check::{Check, Setup, Subject};
use crate::property::Promise;

const PCT: Policy = Policy::Pct { depth: 3 };
/// The schedules of jobs that are too large for all of theirs.
const SAMPLES: u64 = 2_000;

trait Recoverable: 'static {
    /// Calls `inside` with the lock: for the `round`th time, alone or together with others.
    fn with(&self, world: &World, round: u32, inside: &dyn Fn(Visitor) -> Result<()>)
    -> Result<()>;
    fn recover(&mut self, survivors: &Team<'_>) -> Result<()>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visitor {
    /// Together with so many others of its kind at most.
    Among(u32),
    Reader,
}

struct Exclusive {
    lock: Lock,
    holders: u32,
}

impl Recoverable for Exclusive {
    fn with(&self, world: &World, _: u32, inside: &dyn Fn(Visitor) -> Result<()>) -> Result<()> {
        let guard = self.lock.lock(world)?;
        inside(Visitor::Among(self.holders - 1))?;
        guard.unlock()
    }

    fn recover(&mut self, survivors: &Team<'_>) -> Result<()> {
        self.lock.recover(survivors)
    }
}

impl Recoverable for RwLock {
    fn with(
        &self,
        world: &World,
        round: u32,
        inside: &dyn Fn(Visitor) -> Result<()>,
    ) -> Result<()> {
        if (world.rank().0 + round).is_multiple_of(2) {
            let guard = self.write(world)?;
            inside(Visitor::Among(0))?;
            guard.unlock()
        } else {
            let guard = self.read(world)?;
            inside(Visitor::Reader)?;
            guard.unlock()
        }
    }

    fn recover(&mut self, survivors: &Team<'_>) -> Result<()> {
        RwLock::recover(self, survivors)
    }
}

/// The room that the lock guards. All ranks of a run share it.
#[derive(Clone, Default)]
struct Room(Rc<RefCell<Vec<(Rank, Visitor)>>>);

impl Room {
    /// Enters, does something that others must not do at the same time, and leaves.
    fn visit(&self, world: &World, visitor: Visitor, at: &Words, home: Rank) -> Result<()> {
        let me = world.rank();
        self.0.borrow_mut().push((me, visitor));
        let crowd = || {
            let inside = self.0.borrow();
            let is_right = match visitor {
                Visitor::Among(others) => inside.len() <= others as usize + 1,
                Visitor::Reader => inside.iter().all(|(_, other)| *other == Visitor::Reader),
            };
            let all = || inside.iter().map(|(rank, _)| rank.to_string()).collect::<Vec<_>>();
            if is_right { Ok(()) } else { Err(all().join(" and ")) }
        };
        let done = match visitor {
            Visitor::Among(_) => world.fetch_add(at.at(home, 0), 1),
            Visitor::Reader => world.load(at.at(home, 0)),
        };
        let crowd = crowd();
        self.0.borrow_mut().retain(|(rank, _)| *rank != me);
        crowd.map_err(|all| wrong(format!("{all} are inside at the same time")))?;
        done.map(drop)
    }

    /// The dead are not inside any more.
    fn mourn(&self, world: &World) {
        self.0.borrow_mut().retain(|(rank, _)| !world.is_lost(*rank));
    }
}

pub(super) struct Survivors {
    pub(super) dead: Vec<Rank>,
    /// None at those who are not among them.
    pub(super) team: Option<(Detached, Words)>,
}

/// Makes the teams of all survivors that there may be: ranks of a job with losses make no more.
pub(super) fn teams(world: &World, deaths: u32) -> Result<Vec<Survivors>> {
    let all: Vec<Rank> = (0..world.size()).map(Rank).collect();
    let sets = (0u32..1 << all.len())
        .filter(|set| set.count_ones() <= deaths && (set.count_ones() as usize) < all.len());
    let make = |set: u32| {
        let dead: Vec<Rank> = all.iter().copied().filter(|rank| set >> rank.0 & 1 == 1).collect();
        let team = world.split((!dead.contains(&world.rank())).then_some(0), 0)?;
        let with_words = |team: Team<'_>| -> Result<(Detached, Words)> {
            let words = team.words(1)?;
            Ok((team.detach()?, words))
        };
        Ok(Survivors { dead, team: team.map(with_words).transpose()? })
    };
    sets.map(make).collect()
}

/// Every rank visits a room under a lock, and all meet. Whoever hears of a death instead recovers
/// the lock with the others that are left, and begins again.
fn recovered<L: Recoverable>(
    make: impl Fn(&World) -> Result<L> + Clone + 'static,
) -> impl Fn(&Setup) -> Subject {
    move |setup| {
        let (make, rounds, deaths) = (make.clone(), setup.rounds, setup.deaths);
        let room = Room::default();
        let emptied = room.clone();
        Subject::new(program(
            move |world| {
                emptied.0.borrow_mut().clear();
                Ok((make(world)?, teams(world, deaths)?))
            },
            move |world, (mut lock, teams)| {
                let mut dead: Vec<Rank> = Vec::new();
                loop {
                    let survivors = teams.iter().find(|survivors| survivors.dead == dead);
                    let Some((team, words)) = survivors.and_then(|found| found.team.as_ref())
                    else {
                        return Err(wrong(format!("{dead:?} count as lost")));
                    };
                    let team = team.attach(world);
                    let is_new = dead.is_empty();
                    let begun = if is_new { Ok(()) } else { lock.recover(&team) };
                    room.mourn(world);
                    let done = begun.and_then(|()| {
                        let visit =
                            |visitor: Visitor| room.visit(world, visitor, words, team.members()[0]);
                        (0..rounds).try_for_each(|round| lock.with(world, round, &visit))?;
                        team.barrier()
                    });
                    let Err(error) = done else { return Ok(()) };
                    let known = dead.len();
                    dead =
                        (0..world.size()).map(Rank).filter(|&rank| world.is_lost(rank)).collect();
                    // Another rank was told that all had come before one of them died.
                    let has_left = |&rank: &Rank| world.peer_state(rank) == PeerState::Left;
                    if team.members().iter().any(has_left) {
                        return Ok(());
                    }
                    if error.lost_rank().is_none() || dead.len() == known {
                        return Err(wrong(format!("after {known} deaths: {error}")));
                    }
                }
            },
        ))
    }
}

/// Every schedule of two ranks, and some of three, on one node and on several.
fn of_lock<L: Recoverable>(
    lock: &str,
    make: impl Fn(&World) -> Result<L> + Clone + 'static,
) -> Vec<Check> {
    const KEEPS: &str = "recovers the lock in words where something of the dead may still land";
    const ABOUT: &str = "a rank dies, and the others recover the lock";
    const TWICE: &str = "two ranks die, also while the lock is recovered";
    let check = |suffix: &str, about: &'static str, setup: Setup| {
        let name = name(&["recovery/", lock, suffix]);
        Check::new(name, about, recovered(make.clone())).setup(setup)
    };
    let mut checks = vec![
        check("", ABOUT, Setup::new(2).deaths(1)),
        check("-3", ABOUT, Setup::new(3).deaths(1)).policy(PCT, SAMPLES),
        check("-far", ABOUT, Setup::new(3).topology("node:3").deaths(1)).policy(PCT, SAMPLES),
        check("-news", ABOUT, Setup::new(2).topology("node:2").deaths(1).slow_news())
            .policy(PCT, SAMPLES),
        check("-news-3", ABOUT, Setup::new(3).topology("node:3").deaths(1).slow_news())
            .policy(PCT, SAMPLES),
        check("-twice", TWICE, Setup::new(3).deaths(2)).policy(PCT, SAMPLES),
        check("-twice-news", TWICE, Setup::new(3).topology("node:3").deaths(2).slow_news())
            .policy(PCT, SAMPLES),
    ];
    if let Some(saying) = caught_by(lock) {
        let name = name(&["recovery/", lock, "-keeps-its-words"]);
        let wrong = Check::new(name, KEEPS, recovered(make.clone()));
        let wrong = wrong.setup(Setup::new(2).deaths(1)).omitting(lock::steps::TAKE_NEW_WORDS);
        checks.push(wrong.mutant(Promise::Progress, saying));
    }
    checks
}

/// Returns what becomes of a lock that is recovered in the words that it has. Agents answer no
/// request from before a recovery, so those whose words only agents write have nothing to fear.
fn caught_by(lock: &str) -> Option<&'static str> {
    match lock {
        "server" | "server-posted" | "hybrid-posted" => None,
        // The place of a dead rank is taken for that of a rank before.
        "d-mcs" | "d-mcs-token" | "d-mcs-packed" | "rma-mcs" => Some("after 1 deaths"),
        _ => Some("deadlock"),
    }
}

fn of_kind(row: &Explored) -> Vec<Check> {
    let (kind, holders) = ((row.kind)(), row.holders);
    of_lock(row.name, move |world: &World| {
        let lock = Lock::of_kind(world, Rank(0), &kind)?;
        Ok(Exclusive { lock, holders })
    })
}

/// All checks of recovery.
pub fn checks() -> Vec<Check> {
    let mut checks: Vec<Check> = EXPLORED.iter().flat_map(of_kind).collect();
    for entry in rw::entries() {
        let kind = (entry.kind)();
        let make = move |world: &World| RwLock::of_kind(world, Rank(0), &kind);
        checks.extend(of_lock(entry.name, make));
    }
    checks
}
