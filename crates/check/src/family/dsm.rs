//! Shared pages: small programs without races see what a sequentially consistent memory would show.

mod programs;

use farside::dsm::variant::{Right, Variant, mutants};
use farside::dsm::{Access, BarrierKind, Config, Dsm, Start};
use farside::sim::{Policy, staged};

use crate::check::{Check, Setup, Subject};
use programs as run;

/// How often each does what is to be done.
type Rounds = u32;

/// Two words on each page, so that little makes a page of several writers.
fn config(barrier: BarrierKind) -> Config {
    let (access, page_bytes, locks) = (Access::Explicit, 8, 2);
    Config { access, barrier, page_bytes, locks, storage_max: 1 << 12, ..Config::new(64) }
}

fn subject<V: Variant>(
    config: Config,
    body: fn(&mut Dsm<'_, V>, Rounds) -> farside::Result<()>,
) -> impl Fn(&Setup) -> Subject {
    move |setup| {
        let rounds = setup.rounds;
        Subject::new(staged(move |world, prepared| {
            let mut dsm = Dsm::<V>::variant(world, config)?;
            prepared();
            body(&mut dsm, rounds)
        }))
    }
}

fn central() -> Config {
    config(BarrierKind::Central)
}

fn tree() -> Config {
    config(BarrierKind::Tree)
}

/// A limit of nothing: every barrier reclaims.
fn reclaiming(config: Config) -> Config {
    Config { storage_limit: 0, ..config }
}

fn from_rank_0(config: Config) -> Config {
    Config { start: Start::Original, ..config }
}

/// The right one.
fn right() -> Vec<Check> {
    let three = || Setup::new(3);
    vec![
        Check::new(
            "dsm/message-passing",
            "who sees the flag sees the data",
            subject::<Right>(tree(), run::message_passing),
        )
        .setup(three()),
        Check::new(
            "dsm/message-passing-original",
            "the same, with pages that only rank 0 has",
            subject::<Right>(from_rank_0(tree()), run::message_passing),
        )
        .setup(three()),
        Check::new(
            "dsm/store-buffering",
            "two ranks write under one lock and read under the other: one of them sees the other's write",
            subject::<Right>(tree(), run::store_buffering),
        ),
        Check::new(
            "dsm/false-sharing-central",
            "all write words of the same pages, by turns",
            subject::<Right>(central(), run::false_sharing),
        )
        .setup(three().rounds(2)),
        Check::new("dsm/false-sharing-tree", "the same along the tree", subject::<Right>(tree(), run::false_sharing))
            .setup(three().rounds(2)),
        Check::new(
            "dsm/false-sharing-original",
            "the same with pages that only rank 0 has",
            subject::<Right>(from_rank_0(tree()), run::false_sharing),
        )
        .setup(three().rounds(1)),
        Check::new("dsm/counting", "no update under a lock is lost", subject::<Right>(tree(), run::counting))
            .setup(three()),
        Check::new("dsm/counting-again", "the same, two ranks and two rounds", subject::<Right>(tree(), run::counting))
            .setup(Setup::new(2).rounds(2)),
        Check::new(
            "dsm/chain",
            "what one tells another, and that one a third, the third has seen, too",
            subject::<Right>(tree(), run::chain),
        )
        .setup(three()),
        Check::new(
            "dsm/some-central",
            "two of three meet, and then one of them and the third",
            subject::<Right>(central(), run::some),
        )
        .setup(three()),
        Check::new("dsm/some-tree", "the same along the tree", subject::<Right>(tree(), run::some)).setup(three()),
        Check::new(
            "dsm/reclaim-central",
            "every barrier throws away what is not needed",
            subject::<Right>(reclaiming(central()), run::false_sharing),
        )
        .setup(three().rounds(2)),
        Check::new(
            "dsm/reclaim-tree",
            "the same along the tree",
            subject::<Right>(reclaiming(tree()), run::false_sharing),
        )
        .setup(three().rounds(2)),
        Check::new(
            "dsm/barrier-death",
            "any rank dies at any step of a barrier: the others get an error, or get through",
            subject::<Right>(tree(), run::false_sharing),
        )
        .setup(three().deaths(1)),
        Check::new(
            "dsm/barrier-death-central",
            "the same with a manager",
            subject::<Right>(central(), run::false_sharing),
        )
        .setup(three().deaths(1)),
        Check::new(
            "dsm/lock-death",
            "any rank dies while it has a lock, or waits for it",
            subject::<Right>(tree(), run::counting),
        )
        .setup(Setup::new(2).deaths(1)),
        Check::new(
            "dsm/many",
            "eight ranks on four nodes, locks and barriers",
            subject::<Right>(reclaiming(tree()), run::mixed),
        )
        .setup(Setup::new(8).topology("node:4").rounds(2))
        .policy(Policy::Random, 300),
        Check::new("dsm/many-central", "the same with a manager", subject::<Right>(central(), run::mixed))
            .setup(Setup::new(8).topology("node:4").rounds(2))
            .policy(Policy::Random, 300),
    ]
}

/// The wrong ones.
fn wrong() -> Vec<Check> {
    use mutants::{
        AppliesBackwards, ConfusesSubtrees, DropsANotice, KeepsItsTwin, KeepsToItself, ReclaimsTooEarly, UsesOnePlace,
    };
    vec![
        Check::new(
            "dsm/drops-a-notice",
            "overlooks the first notice of each interval",
            subject::<DropsANotice>(tree(), run::message_passing),
        )
        .mutant("without the data"),
        Check::new(
            "dsm/applies-backwards",
            "applies the newest diff first",
            subject::<AppliesBackwards>(tree(), run::counting),
        )
        .setup(Setup::new(3))
        .mutant("counted"),
        Check::new(
            "dsm/keeps-its-twin",
            "compares with the twin of an earlier interval",
            subject::<KeepsItsTwin>(tree(), run::false_sharing),
        )
        .setup(Setup::new(3).rounds(2))
        .mutant("sees"),
        Check::new(
            "dsm/reclaims-too-early",
            "throws diffs away while others still need them",
            subject::<ReclaimsTooEarly>(reclaiming(tree()), run::false_sharing),
        )
        .setup(Setup::new(3).rounds(2))
        .mutant("sees"),
        Check::new(
            "dsm/confuses-subtrees",
            "sends a subtree what its sibling lacks",
            subject::<ConfusesSubtrees>(tree(), run::false_sharing),
        )
        .setup(Setup::new(3))
        .mutant("sees"),
        Check::new(
            "dsm/keeps-to-itself",
            "passes on its own notices only",
            subject::<KeepsToItself>(tree(), run::chain),
        )
        .setup(Setup::new(3))
        .mutant("without what"),
        Check::new(
            "dsm/uses-one-place",
            "uses one place for all its requests of a lock",
            subject::<UsesOnePlace>(tree(), run::counting),
        )
        .setup(Setup::new(2).rounds(2))
        .mutant(""),
    ]
}

/// All checks of shared pages.
pub fn checks() -> Vec<Check> {
    let mut checks = right();
    checks.extend(wrong());
    checks
}
