//! Passive epochs: writers and readers of one target.

use farside::epoch::{Design, LockAgent, Mode, Options, Window};
use farside::sim::{Policy, staged};
use farside::{Error, Rank, Result, World};
use farside_epoch::steps;

use crate::check::{Check, Setup, Subject};
use crate::property::{Inside, Promise};

/// The epochs of each rank in a round, one letter for each. `w` and `r` write and read under a
/// lock, with a flush between; `p` and `g` put and get a pair in one epoch without a flush, which
/// two-sided windows send in one message; `a` reads in an epoch of all targets, and `o`, the target
/// itself, its own part without an operation; `W` and `R` do next to nothing, for designs in which
/// every call conflicts with everything; `b` is no epoch, but a barrier.
type Roles = &'static [&'static str];

/// The design, and the number of looks of the first of a queue before it sleeps.
#[derive(Clone, Copy)]
enum Base {
    Direct(u32),
    Backoff,
    Published,
    TwoSided,
}

fn make(world: &World, base: Base) -> Result<Window<'_>> {
    let options = match base {
        Base::Direct(polls) => Options::new().polls(polls),
        Base::Backoff => Options::new().design(Design::Backoff(LockAgent::new(world)?)),
        Base::Published => Options::new().design(Design::Published(LockAgent::new(world)?)),
        Base::TwoSided => Options::new().design(Design::TWO_SIDED),
    };
    Window::allocate(world, 16, options.unit(8))
}

/// Every rank visits the part of the last rank.
fn visits(base: Base, roles: Roles) -> impl Fn(&Setup) -> Subject {
    move |setup| {
        let (rounds, watch) = (setup.rounds, Inside::default());
        Subject::new(staged(move |world: &World, start: &dyn Fn()| {
            watch.clear();
            let window = make(world, base)?;
            start();
            for _ in 0..rounds {
                for role in roles[world.rank().index() % roles.len()].chars() {
                    visit(world, &window, &watch, role)?;
                }
            }
            // A rank that serves others stays until they are done; an agent goes with the last rank
            // of its node.
            match base {
                Base::Backoff | Base::Published if world.topology().nodes() > 1 => world.barrier(),
                Base::Direct(_) | Base::Backoff | Base::Published => Ok(()),
                Base::TwoSided => window.barrier(),
            }
        }))
    }
}

/// Enters, looks once, and leaves.
fn peep(world: &World, window: &Window<'_>, watch: &Inside, mode: Mode) -> Result<()> {
    let (me, target, writes) = (world.rank(), Rank(world.size() - 1), mode == Mode::Exclusive);
    window.lock(target, mode)?;
    if writes {
        if let Some(other) = watch.writer.replace(Some(me)) {
            return Err(Error::Program(format!("{me} meets the writer {other} inside")));
        }
    } else {
        watch.readers.set(watch.readers.get() + 1);
    }
    watch.meets(me, writes)?;
    let mut seen = [0u64];
    let looked = window.get_into(&mut seen, target, 0);
    if looked.is_ok() {
        watch.meets(me, writes)?;
    }
    if writes {
        watch.writer.set(None);
    } else {
        watch.readers.set(watch.readers.get() - 1);
    }
    looked?;
    window.unlock(target)
}

fn visit(world: &World, window: &Window<'_>, watch: &Inside, role: char) -> Result<()> {
    let (me, target) = (world.rank(), Rank(world.size() - 1));
    match role {
        'w' => write(world, window, watch),
        'r' | 'a' => read(world, window, watch, role == 'a'),
        'o' => read_own(world, window, watch),
        'W' => peep(world, window, watch, Mode::Exclusive),
        'R' => peep(world, window, watch, Mode::Shared),
        'b' => window.barrier(),
        'p' => {
            let mine = u64::from(me.0) + 1;
            window.lock(target, Mode::Exclusive)?;
            window.put(&[mine], target, 0)?;
            window.put(&[mine], target, 1)?;
            window.unlock(target)?;
            watch.written.set(watch.written.get() + 1);
            Ok(())
        }
        _ => {
            window.lock(target, Mode::Shared)?;
            let (first, second) =
                (window.get::<u64>(target, 0, 1)?, window.get::<u64>(target, 1, 1)?);
            window.unlock(target)?;
            let (first, second) = (first.take()?[0], second.take()?[0]);
            if first != second {
                return Err(Error::Program(format!(
                    "{me} reads {first} and {second} of one epoch"
                )));
            }
            Ok(())
        }
    }
}

/// Writes what it has read and one more, as a writer that must be alone.
fn write(world: &World, window: &Window<'_>, watch: &Inside) -> Result<()> {
    let (me, target) = (world.rank(), Rank(world.size() - 1));
    window.lock(target, Mode::Exclusive)?;
    let seen = window.get::<u64>(target, 0, 1)?;
    window.flush(target)?;
    if let Some(other) = watch.writer.replace(Some(me)) {
        return Err(Error::Program(format!("{me} meets the writer {other} inside")));
    }
    watch.meets(me, true)?;
    let (seen, written) = (seen.take()?[0], watch.written.get());
    if seen != written {
        return Err(Error::Program(format!(
            "the writer {me} reads {seen} where {written} was written"
        )));
    }
    // Another look, so that a rank that comes in meanwhile is met.
    let again = window.get::<u64>(target, 1, 1)?;
    let flushed = window.flush(target).inspect_err(|_| watch.writer.set(None));
    flushed?;
    again.take()?;
    watch.meets(me, true)?;
    let put = window.put(&[seen + 1, seen + 1], target, 0);
    watch.written.set(seen + 1);
    watch.writer.set(None);
    put?;
    window.unlock(target)
}

/// Reads both words, as a reader that may meet readers; in an epoch of one target or of all.
fn read(world: &World, window: &Window<'_>, watch: &Inside, all: bool) -> Result<()> {
    let (me, target) = (world.rank(), Rank(world.size() - 1));
    if all {
        window.lock_all()?
    } else {
        window.lock(target, Mode::Shared)?
    }
    let first = window.get::<u64>(target, 0, 1)?;
    window.flush(target)?;
    watch.readers.set(watch.readers.get() + 1);
    let leave = || watch.readers.set(watch.readers.get() - 1);
    watch.meets(me, false)?;
    let second = window.get::<u64>(target, 1, 1)?;
    window.flush(target).inspect_err(|_| leave())?;
    watch.meets(me, false)?;
    let (first, second, written) = (first.take()?[0], second.take()?[0], watch.written.get());
    if first != written || second != written {
        return Err(Error::Program(format!(
            "{me} reads {first} and {second} where {written} was written"
        )));
    }
    leave();
    if all { window.unlock_all() } else { window.unlock(target) }
}

/// Reads both words of its own part by itself, in an epoch of all targets.
fn read_own(world: &World, window: &Window<'_>, watch: &Inside) -> Result<()> {
    let (me, mut first, mut second) = (world.rank(), [0u64], [0u64]);
    window.lock_all()?;
    watch.readers.set(watch.readers.get() + 1);
    let leave = || watch.readers.set(watch.readers.get() - 1);
    watch.meets(me, false)?;
    window.read_own(0, &mut first).inspect_err(|_| leave())?;
    // A writer that comes in meanwhile is met.
    window.sync().inspect_err(|_| leave())?;
    watch.meets(me, false)?;
    window.read_own(1, &mut second).inspect_err(|_| leave())?;
    leave();
    if first != second {
        return Err(Error::Program(format!("{me} reads {first:?} and {second:?} of its own part")));
    }
    window.unlock_all()
}

const THREE_WRITERS: Roles = &["w", "w", "w"];
const WRITERS: Roles = &["w", "r", "w"];
const READERS: Roles = &["w", "r", "r"];
const PAIR: Roles = &["w", "r"];
const TWICE: Roles = &["w", "rw"];
const MESSAGES: Roles = &["p", "g", "p"];
const BARRIERS: Roles = &["bb", "bb"];
const MANY: Roles = &["w", "r", "wr", "a", "w", "rw", "a", "r"];
const PCT: Policy = Policy::Pct { depth: 3 };

fn check(name: &'static str, about: &'static str, base: Base, roles: Roles) -> Check {
    Check::new(name, about, visits(base, roles)).setup(Setup::new(roles.len() as u32))
}

const EXCLUSIVE: &str = "three writers of one target";
const MIXED_W: &str = "two writers and a reader of one target";
const MIXED_R: &str = "a writer and two readers of one target";
const DIES: &str = "any rank dies at any step: the others get an error, or their turn";

/// The checks of one design.
macro_rules! design {
    ($name:literal, $base:expr, $setup:expr) => {{
        let base = $base;
        let setup = |ranks: u32| -> Setup { $setup(ranks) };
        vec![
            check(concat!("epoch/", $name, "-exclusive"), EXCLUSIVE, base, THREE_WRITERS)
                .setup(setup(3)),
            check(concat!("epoch/", $name, "-writers"), MIXED_W, base, WRITERS).setup(setup(3)),
            check(concat!("epoch/", $name, "-readers"), MIXED_R, base, READERS).setup(setup(3)),
            check(
                concat!("epoch/", $name, "-twice"),
                "an origin comes again, in another mode",
                base,
                TWICE,
            )
            .setup(setup(2)),
            check(concat!("epoch/", $name, "-pairs"), "epochs without a flush", base, MESSAGES)
                .setup(setup(3)),
            check(concat!("epoch/", $name, "-death"), DIES, base, PAIR).setup(setup(2).deaths(1)),
            check(concat!("epoch/", $name, "-8"), "many ranks on three levels", base, MANY)
                .setup(Setup::new(8).topology("rack:2,node:2,socket:2").rounds(2))
                .policy(PCT, 300),
        ]
    }};
}

fn far(ranks: u32) -> Setup {
    Setup::new(ranks).topology(if ranks == 3 { "node:3" } else { "node:2" })
}

pub(super) fn checks() -> Vec<Check> {
    let mut checks = design!("direct", Base::Direct(1), Setup::new);
    checks.extend(design!("direct-asleep", Base::Direct(0), far));
    let backoff = |name, about, roles| check(name, about, Base::Backoff, roles);
    let published = |name, about, roles| check(name, about, Base::Published, roles);
    checks.extend([
        backoff("epoch/backoff-exclusive", EXCLUSIVE, THREE_WRITERS),
        backoff("epoch/backoff-writers", MIXED_W, &["W", "R", "W"]),
        backoff("epoch/backoff-readers", MIXED_R, &["W", "R", "R"]),
        backoff("epoch/backoff-twice", "an origin comes again, in another mode", TWICE),
        backoff("epoch/backoff-death", DIES, PAIR).setup(Setup::new(2).deaths(1)),
        backoff("epoch/backoff-8", "many ranks on three levels", MANY)
            .setup(Setup::new(8).topology("rack:2,node:2,socket:2").rounds(2))
            .policy(PCT, 300),
    ]);
    checks.extend([
        published("epoch/published-exclusive", EXCLUSIVE, &["W", "W", "W"]),
        published("epoch/published-writers", MIXED_W, &["W", "R", "W"]),
        published("epoch/published-readers", MIXED_R, &["W", "R", "R"]),
        published("epoch/published-twice", "an origin comes again, in another mode", TWICE),
        published("epoch/published-death", DIES, PAIR).setup(Setup::new(2).deaths(1)),
        published("epoch/published-8", "many ranks on three levels", MANY)
            .setup(Setup::new(8).topology("rack:2,node:2,socket:2").rounds(2))
            .policy(PCT, 300),
    ]);
    checks.extend(design!("two-sided", Base::TwoSided, far));
    checks.push(
        check(
            "epoch/two-sided-barriers",
            "barriers in a row: the signals of two of them are on their way",
            Base::TwoSided,
            BARRIERS,
        )
        .setup(far(2)),
    );
    checks.push(
        check(
            "epoch/direct-looks",
            "what was started is complete when its origin looks, or is not",
            Base::Direct(1),
            PAIR,
        )
        .setup(Setup::new(2).looks()),
    );
    checks.push(
        check("epoch/direct-death-readers", DIES, Base::Direct(0), &["W", "R", "R"])
            .setup(Setup::new(3).deaths(1))
            .small(Setup::new(2).deaths(1)),
    );
    checks.push(check(
        "epoch/direct-all",
        "epochs of all targets, and a writer",
        Base::Direct(1),
        &["w", "a"],
    ));
    checks.push(check(
        "epoch/direct-all-own",
        "a target that reads its own part in an epoch of all, and a writer",
        Base::Direct(1),
        &["w", "o"],
    ));
    checks.extend(mutants());
    checks.push(mutant_of_barriers());
    checks.extend(mutants_of_published());
    checks
}

const FLUSH: &str = "ends an epoch while its operations are under way";
const STEPS: &str = "looks whether a target is free, and then takes it";

fn mutants_of_published() -> Vec<Check> {
    vec![
        check("epoch/published-without-flush", FLUSH, Base::Published, &["w", "w"])
            .omitting(steps::FLUSH)
            .mutant(Promise::Visibility, "was written"),
        check("epoch/published-in-two-steps", STEPS, Base::Published, &["w", "w"])
            .omitting(steps::TAKE_AT_ONCE)
            .mutant(Promise::Exclusion, "meets the writer"),
        check(
            "epoch/published-without-grant",
            "the agent lets its queue in without a word",
            Base::Published,
            &["W", "R"],
        )
        .omitting(steps::GRANT)
        .mutant(Promise::Progress, "has already left"),
        check(
            "epoch/published-without-count",
            "the agent frees a target when the first reader leaves",
            Base::Published,
            &["R", "W", "R"],
        )
        .omitting(steps::COUNT)
        .mutant(Promise::Exclusion, "meets 1 readers inside"),
    ]
}

fn mutant_of_barriers() -> Check {
    check(
        "epoch/two-sided-stores-barriers",
        "lets the signal of an old barrier land on that of a newer one",
        Base::TwoSided,
        BARRIERS,
    )
    .setup(far(2))
    .unordered(crate::family::IS_THE_FAULT)
    .omitting(steps::ADD_BARRIERS)
    .mutant(Promise::Progress, "has already left")
}

fn mutants() -> Vec<Check> {
    let direct = Base::Direct(0);
    vec![
        check("epoch/direct-without-flush", FLUSH, direct, &["w", "w"])
            .omitting(steps::FLUSH)
            .mutant(Promise::Visibility, "was written"),
        check("epoch/backoff-without-flush", FLUSH, Base::Backoff, &["w", "w"])
            .omitting(steps::FLUSH)
            .mutant(Promise::Visibility, "was written"),
        check("epoch/two-sided-without-flush", FLUSH, Base::TwoSided, &["p", "g"])
            .setup(far(2))
            .omitting(steps::FLUSH)
            .mutant(Promise::Visibility, "of one epoch"),
        check("epoch/direct-in-two-steps", STEPS, direct, &["w", "w"])
            .omitting(steps::TAKE_AT_ONCE)
            .mutant(Promise::Exclusion, "meets the writer"),
        check("epoch/backoff-in-two-steps", STEPS, Base::Backoff, &["w", "w"])
            .omitting(steps::TAKE_AT_ONCE)
            .mutant(Promise::Exclusion, "meets the writer"),
        check(
            "epoch/direct-without-withdrawing",
            "a reader stays inside that has come too late",
            direct,
            PAIR,
        )
        .omitting(steps::WITHDRAW)
        .mutant(Promise::Exclusion, "meets the writer"),
        check(
            "epoch/direct-without-grant",
            "leaves without a word to the first of the queue",
            direct,
            &["w", "w"],
        )
        .omitting(steps::GRANT)
        .mutant(Promise::Progress, "has already left"),
        check(
            "epoch/backoff-without-count",
            "the agent frees a target when the first reader leaves",
            Base::Backoff,
            &["R", "W", "R"],
        )
        .omitting(steps::COUNT)
        .mutant(Promise::Exclusion, "meets 1 readers inside"),
        check(
            "epoch/two-sided-without-exclusion",
            "a target grants every lock at once",
            Base::TwoSided,
            PAIR,
        )
        .setup(far(2))
        .omitting(steps::EXCLUDE)
        .mutant(Promise::Visibility, "where 1 was written"),
        check(
            "epoch/two-sided-without-serving",
            "a rank that waits serves nobody",
            Base::TwoSided,
            &["p", "p"],
        )
        .setup(far(2))
        .omitting(steps::SERVE)
        .mutant(Promise::Progress, "deadlock"),
    ]
}
