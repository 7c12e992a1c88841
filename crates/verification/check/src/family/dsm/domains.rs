//! One copy for the ranks of a node, and diffs on demand: the same promises, at three ranks on one,
//! two and three nodes.

use farside::dsm::{BarrierKind, Config, Copies, Diffs, Dsm, Start, steps};
use farside::sim::{Policy, omitting, staged};
use farside::{Rank, Result};

use super::ahead::{self, most, opened, pushed, pushed_later, whole, written_again};
use super::{Rounds, config, programs as run};
use crate::check::{Check, Setup, Subject};
use crate::family::wrong;
use crate::property::Promise;

fn domains() -> Config {
    let (copies, diffs) = (Copies::Node, Diffs::OnDemand);
    Config { copies, diffs, ..config(BarrierKind::Tree) }
}

fn reclaiming() -> Config {
    Config { storage_limit: 0, ..domains() }
}

fn original() -> Config {
    Config { start: Start::Original, ..domains() }
}

/// Four words on each page.
fn of_four() -> Config {
    Config { page_bytes: 16, ..domains() }
}

/// More pages than a barrier brings.
fn of_many() -> Config {
    Config { bytes: 8 * u64::from(ahead::MANY), ..domains() }
}

/// A program whose ranks stay until all are done: their nodes make diffs for the others. What ranks
/// of a node do in its memory is marked for the explorer.
fn subject(
    config: Config,
    body: fn(&mut Dsm<'_>, Rounds) -> Result<()>,
) -> impl Fn(&Setup) -> Subject {
    move |setup| {
        let rounds = setup.rounds;
        let program = staged(move |world, prepared| {
            let mut dsm = Dsm::new(world, config)?;
            prepared();
            body(&mut dsm, rounds)?;
            dsm.check()?;
            world.barrier()
        });
        Subject::new(omitting(steps::LEAVE_UNMARKED, program))
    }
}

/// The schedules in which a wrong variant must show.
const SCHEDULES: u64 = 20_000;
/// The random schedules of programs that have too many.
const SAMPLES: u64 = 5_000;

/// Checks of one program at three ranks on one, two and three nodes: all schedules, or, where a
/// program has too many on several nodes, random ones.
macro_rules! on_nodes {
    ($name:literal, $about:literal, $config:expr, $body:expr) => {
        [
            (concat!("dsm/", $name, "-1"), concat!($about, "; one node"), "node:1"),
            (concat!("dsm/", $name, "-2"), concat!($about, "; two nodes"), "node:2"),
            (concat!("dsm/", $name, "-3"), concat!($about, "; three nodes"), "node:3"),
        ]
        .map(|(name, about, topology)| {
            let setup = Setup::new(3).topology(topology);
            Check::new(name, about, subject($config, $body)).setup(setup)
        })
    };
    (random: $name:literal, $about:literal, $config:expr, $body:expr) => {{
        let [one, two, three] = on_nodes!($name, $about, $config, $body);
        let random = |check: Check| check.policy(Policy::Random, SAMPLES);
        [one, random(two), random(three)]
    }};
}

/// A program of two ranks on two nodes, all schedules.
fn pair(
    name: &'static str,
    about: &'static str,
    body: fn(&mut Dsm<'_>, Rounds) -> Result<()>,
) -> Check {
    pair_with(name, about, domains(), body)
}

fn pair_with(
    name: &'static str,
    about: &'static str,
    config: Config,
    body: fn(&mut Dsm<'_>, Rounds) -> Result<()>,
) -> Check {
    let setup = Setup::new(2).topology("node:2");
    Check::new(name, about, subject(config, body)).setup(setup)
}

fn pairs() -> Vec<Check> {
    vec![
        pair("dsm/demand-counting-pair", "no update under a lock is lost", run::counting),
        pair("dsm/demand-sharing-pair", "both write words of the same pages", run::false_sharing),
        pair("dsm/demand-current-pair", "words of the current interval are not lost", current),
        pair("dsm/demand-overtaking-pair", "a newer word is not overtaken", overtaking),
        pair("dsm/demand-closed-pair", "a page is closed, and opened again", closed),
        pair_with(
            "dsm/demand-back-pair",
            "words that change back are not kept by whoever has fetched their page meanwhile",
            original(),
            run::changes_back,
        )
        .policy(Policy::Random, SAMPLES),
        pair_with(
            "dsm/demand-again-reclaimed-pair",
            "a page that was reclaimed before is fetched as it was when it was reclaimed last",
            Config { storage_limit: 0, ..of_many() },
            written_again,
        )
        .policy(Policy::Random, SAMPLES),
        pair_with(
            "dsm/demand-back-reclaimed-pair",
            "the same where every barrier throws away what is not needed",
            reclaiming(),
            run::changes_back,
        )
        .policy(Policy::Random, SAMPLES),
    ]
}

pub(super) fn all() -> [Vec<Check>; 8] {
    [pairs(), right(), stores(), deaths(), many(), wrong_ones(), wrong_copies(), wrong_ahead()]
}

/// The promises of locks and barriers.
fn right() -> Vec<Check> {
    let central = Config { barrier: BarrierKind::Central, ..domains() };
    [
        on_nodes!(
            "demand-passing",
            "a rank that sees the flag sees the data",
            domains(),
            run::message_passing
        ),
        on_nodes!(
            "demand-original",
            "the same, with pages that only the first node has",
            original(),
            run::message_passing
        ),
        on_nodes!(
            random: "demand-counting",
            "no update under a lock is lost",
            domains(),
            run::counting
        ),
        on_nodes!(random: "demand-chain", "what is told on is seen", domains(), run::chain),
        on_nodes!(random: "demand-some", "two of three meet, and two others", domains(), run::some),
        on_nodes!(random: "demand-told", "a barrier of two is passed on", domains(), run::told),
        on_nodes!(
            random: "demand-sharing",
            "all write words of the same pages",
            domains(),
            run::false_sharing
        ),
        on_nodes!(
            random: "demand-sharing-central",
            "all write words of the same pages, with a manager",
            central,
            run::false_sharing
        ),
        on_nodes!(
            random: "demand-reclaim",
            "every barrier throws away what is not needed",
            reclaiming(),
            run::false_sharing
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The promises of chains, merges and closed pages.
fn stores() -> Vec<Check> {
    [
        on_nodes!(
            random: "demand-current",
            "words that are written while their page is asked for are not lost",
            domains(),
            current
        ),
        on_nodes!(
            random: "demand-overtaking",
            "a newer word is not overtaken by an older one",
            domains(),
            overtaking
        ),
        on_nodes!(
            random: "demand-neighbours",
            "a merge leaves a neighbour's store alone",
            of_four(),
            neighbours
        ),
        on_nodes!(
            random: "demand-closed",
            "a page that is not written for a while is closed, and opened again",
            domains(),
            closed
        ),
        on_nodes!(
            random: "demand-retired",
            "a page is closed when no rank of its node can write it any more",
            domains(),
            retired
        ),
        on_nodes!(
            random: "demand-pushed",
            "diffs that come with a barrier are not overtaken by older ones",
            domains(),
            pushed
        ),
        on_nodes!(
            random: "demand-pushed-later",
            "diffs that come with a barrier do not stand for those that did not come",
            of_many(),
            pushed_later
        ),
        on_nodes!(
            random: "demand-whole",
            "a word is not overtaken by all words of its page",
            original(),
            whole
        ),
        on_nodes!(
            random: "demand-most",
            "all words of a page but one leave that one alone",
            of_four(),
            most
        ),
        on_nodes!(
            random: "demand-ahead",
            "pages of a view that are opened with its first one are told of if they change",
            domains(),
            opened
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn deaths() -> Vec<Check> {
    let of = |name, about, topology, body: fn(&mut Dsm<'_>, Rounds) -> Result<()>| {
        let setup = Setup::new(3).topology(topology).deaths(1);
        Check::new(name, about, subject(of_four(), body)).setup(setup).policy(Policy::Random, 3000)
    };
    vec![
        of(
            "dsm/demand-barrier-death",
            "any rank of two nodes dies at any step of a barrier",
            "node:2",
            run::false_sharing,
        ),
        of(
            "dsm/demand-lock-death",
            "any rank of two nodes dies while it has a lock, or waits for it",
            "node:2",
            run::counting,
        ),
        of(
            "dsm/demand-merge-death",
            "any rank of two nodes dies while a neighbour brings a page up to date",
            "node:2",
            neighbours,
        ),
    ]
}

/// More ranks than all schedules can be tried for.
fn many() -> Vec<Check> {
    let of = |name, about, config| {
        Check::new(name, about, subject(config, run::mixed))
            .setup(Setup::new(8).topology("node:4").rounds(2))
            .policy(Policy::Random, 300)
    };
    let central = Config { barrier: BarrierKind::Central, ..domains() };
    vec![
        of("dsm/demand-many", "eight ranks on four nodes, locks and barriers", reclaiming()),
        of("dsm/demand-many-central", "the same with a manager", central),
    ]
}

fn wrong_ones() -> Vec<Check> {
    vec![
        caught(
            "dsm/renews-twins-early",
            "renews twins when an interval ends",
            subject(domains(), current),
            "node:3",
            "before its page was asked for",
        )
        .omitting(steps::RENEW_TWINS_LATE),
        caught(
            "dsm/forgets-after-diff",
            "forgets a page when its diff was made",
            subject(domains(), current),
            "node:3",
            "while its page was asked for",
        )
        .omitting(steps::COMPARE_AGAIN),
        caught(
            "dsm/keeps-chains",
            "goes on with a chain when another node has written the page",
            subject(domains(), overtaking),
            "node:3",
            "has overtaken a newer one",
        )
        .omitting(steps::END_CHAINS),
        caught(
            "dsm/merges-pages",
            "merges by writing back the whole page",
            subject(of_four(), neighbours),
            "node:2",
            "overwritten a neighbour's store",
        )
        .omitting(steps::MERGE_WORDS),
        caught(
            "dsm/merges-beside-twins",
            "merges into the page and not into its twin",
            subject(of_four(), neighbours),
            "node:2",
            "has come back as its own",
        )
        .omitting(steps::MERGE_INTO_TWINS),
        caught(
            "dsm/closes-silently",
            "closes pages that other ranks of the node can still write",
            subject(domains(), closed),
            "node:2",
            "that had been closed",
        )
        .omitting(steps::TELL_OF_CLOSED),
        caught(
            "dsm/closes-under-writers",
            "closes a page that a neighbour can still write",
            subject(domains(), retired),
            "node:2",
            "that a neighbour had left alone",
        )
        .omitting(steps::HEED_WRITERS),
    ]
}

/// The wrong ones of pages that are fetched whole.
fn wrong_copies() -> Vec<Check> {
    vec![
        pair_with(
            "dsm/demand-takes-written-pages",
            "fetches a whole page while ranks of the node that it comes from write it",
            original(),
            run::changes_back,
        )
        .policy(Policy::Random, SCHEDULES)
        .omitting(steps::TAKE_TWINS)
        .mutant(Promise::Consistency, "have changed back"),
        pair_with(
            "dsm/takes-old-twins",
            "fetches a twin that is older than what was reclaimed",
            Config { storage_limit: 0, ..of_many() },
            written_again,
        )
        .policy(Policy::Random, SCHEDULES)
        .omitting(steps::NOTE_ANEW)
        .mutant(Promise::Consistency, "before storage was reclaimed"),
    ]
}

/// The wrong ones of what comes, or is opened, before it is asked for.
fn wrong_ahead() -> Vec<Check> {
    vec![
        caught(
            "dsm/pushes-over-others",
            "merges a diff that came with a barrier into a page that lacks older ones",
            subject(domains(), pushed),
            "node:3",
            "came over one that came with a barrier",
        )
        .omitting(steps::PUSH_ALONE),
        caught(
            "dsm/pushes-over-gaps",
            "merges a diff that came with a barrier into a page that lacks one before it",
            subject(of_many(), pushed_later),
            "node:3",
            "before one that came with a barrier",
        )
        .omitting(steps::HEED_GAPS),
        caught(
            "dsm/fetches-whole-only",
            "takes a diff of all words of a page for all that there is",
            subject(domains(), whole),
            "node:3",
            "after all words of its page",
        )
        .omitting(steps::KEEP_LATER_DIFFS),
        caught(
            "dsm/takes-most-for-whole",
            "takes a diff of all words of a page but one for one of all",
            subject(of_four(), most),
            "node:3",
            "before all others of its page",
        )
        .omitting(steps::TELL_WHOLE),
        caught(
            "dsm/opens-blindly",
            "opens pages ahead of their first store, and never looks at them",
            subject(domains(), opened),
            "node:3",
            "to a page that was opened ahead",
        )
        .omitting(steps::LOOK_AT_OPENED),
    ]
}

/// A wrong variant of three ranks, which random schedules must catch by what it says.
fn caught(
    name: &'static str,
    about: &'static str,
    subject: impl Fn(&Setup) -> Subject + 'static,
    nodes: &str,
    said: &'static str,
) -> Check {
    Check::new(name, about, subject)
        .setup(Setup::new(3).topology(nodes))
        .policy(Policy::Random, SCHEDULES)
        .mutant(Promise::Consistency, said)
}

/// Rank 0 writes a word under a lock, and its neighbour on the page after it. Rank 1 may ask for
/// the page in between.
fn current(dsm: &mut Dsm<'_>, _rounds: Rounds) -> Result<()> {
    let all = run::words(dsm)?;
    match dsm.world().rank().0 {
        0 => {
            dsm.locked(0, |dsm| dsm.set(all, 0, 1))?;
            // The other lock is there for the explorer: between two operations a rank is alone.
            dsm.locked(1, |dsm| dsm.set(all, 1, 2))?;
        }
        1 => {
            dsm.locked(0, |dsm| dsm.get(all, 0))?;
        }
        _ => {}
    }
    dsm.barrier()?;
    match (dsm.get(all, 0)?, dsm.get(all, 1)?) {
        (1, 2) => Ok(()),
        (1, _) => Err(wrong("misses a word that was written while its page was asked for")),
        _ => Err(wrong("misses a word that was written before its page was asked for")),
    }
}

/// Ranks 0 and 1 write different words of a page under different locks; then rank 0 writes the word
/// of rank 1, too, if it has seen it.
fn overtaking(dsm: &mut Dsm<'_>, _rounds: Rounds) -> Result<()> {
    let all = run::words(dsm)?;
    let (own, others, has_seen) = (0, 1, 2);
    match dsm.world().rank().0 {
        0 => {
            dsm.locked(0, |dsm| dsm.set(all, own, 1))?;
            dsm.locked(1, |dsm| {
                if dsm.get(all, others)? == 5 {
                    dsm.set(all, others, 6)?;
                    dsm.set(all, has_seen, 1)?;
                }
                Ok(())
            })?;
        }
        1 => dsm.locked(1, |dsm| dsm.set(all, others, 5))?,
        _ => {}
    }
    dsm.barrier()?;
    let (seen, word) = (dsm.get(all, has_seen)?, dsm.get(all, others)?);
    if word == 5 + seen {
        return Ok(());
    }
    Err(wrong(format!("sees {word}: an older word has overtaken a newer one")))
}

/// A rank writes a word under one lock, and again under another; of two ranks that share another
/// node one looks at a third word of the page, under the first lock, and the other writes the word
/// beside it, twice.
fn neighbours(dsm: &mut Dsm<'_>, _rounds: Rounds) -> Result<()> {
    let all = run::words(dsm)?;
    let topology = dsm.world().topology();
    // Two ranks of one node, if there are any, and the third.
    let (writer, looker, neighbour) =
        if topology.same_node(Rank(1), Rank(2)) { (0, 1, 2) } else { (2, 1, 0) };
    let me = dsm.world().rank().0;
    if me == writer {
        dsm.locked(0, |dsm| dsm.set(all, 0, 1))?;
        dsm.locked(1, |dsm| dsm.set(all, 0, 2))?;
    } else if me == looker {
        dsm.locked(0, |dsm| dsm.get(all, 2))?;
    } else if me == neighbour {
        dsm.set(all, 1, 8)?;
        dsm.set(all, 1, 9)?;
    }
    dsm.barrier()?;
    match (dsm.get(all, 0)?, dsm.get(all, 1)?) {
        (2, 9) => Ok(()),
        (2, _) => Err(wrong("a merge has overwritten a neighbour's store")),
        (seen, _) => Err(wrong(format!("sees {seen}: another's word has come back as its own"))),
    }
}

/// Rank 1 writes a page that rank 2 or 0 reads, and then leaves it alone until it is closed.
fn closed(dsm: &mut Dsm<'_>, _rounds: Rounds) -> Result<()> {
    let all = run::words(dsm)?;
    let me = dsm.world().rank().0;
    if me == 1 {
        dsm.set(all, 0, 1)?;
    }
    dsm.barrier()?;
    if dsm.get(all, 0)? != 1 {
        return Err(wrong("misses a store before a barrier"));
    }
    // Compared and found the same at each of them.
    for _ in 0..3 {
        dsm.barrier()?;
    }
    if me == 1 {
        dsm.set(all, 1, 5)?;
    }
    dsm.barrier()?;
    if dsm.get(all, 1)? == 5 {
        return Ok(());
    }
    Err(wrong("misses a store to a page that had been closed"))
}

/// Two ranks, of one node if there is one with two, write words of a page that the third reads.
/// Then one of them ends intervals without touching the page, and the other one writes it again.
fn retired(dsm: &mut Dsm<'_>, _rounds: Rounds) -> Result<()> {
    let all = run::words(dsm)?;
    let me = dsm.world().rank().0;
    let is_second = dsm.world().topology().same_node(Rank(1), Rank(2));
    let (idle, writer) = if is_second { (1, 2) } else { (0, 1) };
    if me == idle {
        dsm.set(all, 0, 1)?;
    } else if me == writer {
        dsm.set(all, 1, 2)?;
    }
    dsm.barrier()?;
    if (dsm.get(all, 0)?, dsm.get(all, 1)?) != (1, 2) {
        return Err(wrong("misses a store before a barrier"));
    }
    // Compared and found the same here, and again at the end of the idle rank's interval.
    dsm.barrier()?;
    if me == idle {
        dsm.locked(0, |_| Ok(()))?;
    } else if me == writer {
        dsm.set(all, 1, 5)?;
    }
    dsm.barrier()?;
    if dsm.get(all, 1)? == 5 {
        return Ok(());
    }
    Err(wrong("misses a store to a page that a neighbour had left alone"))
}
