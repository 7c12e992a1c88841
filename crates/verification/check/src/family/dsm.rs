//! Shared pages: small programs without races see what a sequentially consistent memory would show.

mod ahead;
mod domains;
mod programs;

use farside::dsm::{Access, BarrierKind, Config, Copies, Diffs, Dsm, Start, steps};
use farside::sim::{Policy, staged};

use crate::check::{Check, Setup, Subject};
use crate::property::Promise;
use programs as run;

type Rounds = u32;

/// Two words on each page, so that little makes a page of several writers; a copy for each rank and
/// eager diffs.
fn config(barrier: BarrierKind) -> Config {
    let (access, page_bytes, locks) = (Access::Explicit, 8, 2);
    let (copies, diffs, storage_max) = (Copies::Rank, Diffs::Eager, 1 << 12);
    let usual = Config::new(64);
    Config { access, barrier, page_bytes, locks, storage_max, copies, diffs, ..usual }
}

fn subject(
    config: Config,
    body: fn(&mut Dsm<'_>, Rounds) -> farside::Result<()>,
) -> impl Fn(&Setup) -> Subject {
    move |setup| {
        let rounds = setup.rounds;
        Subject::new(staged(move |world, prepared| {
            let mut dsm = Dsm::new(world, config)?;
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

/// No room for the diffs of more than one page.
fn without_room(config: Config) -> Config {
    Config { storage_max: 8, ..config }
}

fn roomy(config: Config) -> Config {
    Config { bytes: 1 << 11, ..config }
}

fn from_rank_0(config: Config) -> Config {
    Config { start: Start::Original, ..config }
}

fn invalid(config: Config) -> Config {
    Config { start: Start::ZeroInvalid, ..config }
}

/// The right one, on three ranks unless it is said.
fn right(
    name: &'static str,
    about: &'static str,
    config: Config,
    body: fn(&mut Dsm<'_>, Rounds) -> farside::Result<()>,
) -> Check {
    Check::new(name, about, subject(config, body)).setup(three())
}

fn three() -> Setup {
    Setup::new(3)
}

fn locks() -> Vec<Check> {
    let original = from_rank_0(tree());
    vec![
        right(
            "dsm/message-passing",
            "who sees the flag sees the \
                                      data",
            tree(),
            run::message_passing,
        ),
        right(
            "dsm/message-passing-original",
            "the same, with pages that only rank 0 has",
            original,
            run::message_passing,
        ),
        right(
            "dsm/message-passing-zero-invalid",
            "the same, with zeroed pages that only rank 0 may use unasked",
            invalid(tree()),
            run::message_passing,
        ),
        right(
            "dsm/store-buffering",
            "two ranks write under one lock and read under the other: one of them sees the other's \
             write",
            tree(),
            run::store_buffering,
        )
        .setup(Setup::new(2)),
        right("dsm/counting", "no update under a lock is lost", tree(), run::counting),
        right("dsm/counting-again", "the same, two ranks and two rounds", tree(), run::counting)
            .setup(Setup::new(2).rounds(2)),
        right(
            "dsm/counting-late",
            "the same when tickets and epochs run over their end",
            tree(),
            run::counting,
        )
        .omitting(steps::COUNT_FROM_ZERO)
        .setup(Setup::new(2).rounds(2)),
        right(
            "dsm/told-late",
            "what is heard in a barrier of two is passed on when tickets and epochs run over their \
             end",
            tree(),
            run::told,
        )
        .omitting(steps::COUNT_FROM_ZERO),
        right(
            "dsm/chain",
            "what one tells another, and that one a third, the third has seen, \
                            too",
            tree(),
            run::chain,
        ),
    ]
}

/// The promises of barriers, of all ranks and of some, with and without reclaiming.
fn barriers() -> Vec<Check> {
    let twice = || three().rounds(2);
    let original = from_rank_0(tree());
    vec![
        right(
            "dsm/false-sharing-central",
            "all write words of the same pages, by turns",
            central(),
            run::false_sharing,
        )
        .setup(twice()),
        right("dsm/false-sharing-tree", "the same along the tree", tree(), run::false_sharing)
            .setup(twice()),
        right(
            "dsm/false-sharing-original",
            "the same with pages that only rank 0 has",
            original,
            run::false_sharing,
        )
        .setup(three().rounds(1)),
        right(
            "dsm/false-sharing-zero-invalid",
            "the same with zeroed pages that only rank 0 may use unasked",
            invalid(tree()),
            run::false_sharing,
        )
        .setup(three().rounds(1)),
        right(
            "dsm/reclaim-zero-invalid",
            "the same, and every barrier throws away what is not needed",
            reclaiming(invalid(tree())),
            run::false_sharing,
        )
        .setup(three().rounds(1)),
        right(
            "dsm/long-messages",
            "acknowledgements of two messages that are fetched are on their way",
            roomy(tree()),
            run::long_messages,
        )
        .setup(Setup::new(2).rounds(5)),
        right(
            "dsm/some-central",
            "two of three meet, and then one of them and the third",
            central(),
            run::some,
        ),
        right("dsm/some-tree", "the same along the tree", tree(), run::some),
        right(
            "dsm/told",
            "what one hears in a barrier of two, the next one with a lock sees, too",
            tree(),
            run::told,
        ),
        right(
            "dsm/reclaim-central",
            "every barrier throws away what is not needed",
            reclaiming(central()),
            run::false_sharing,
        )
        .setup(twice()),
        right(
            "dsm/reclaim-tree",
            "the same along the tree",
            reclaiming(tree()),
            run::false_sharing,
        )
        .setup(twice()),
    ]
}

/// Pages that are fetched whole while their keeper writes them.
fn copies() -> Vec<Check> {
    vec![
        right(
            "dsm/changes-back",
            "words that change back are not kept by a rank that has fetched their page meanwhile",
            from_rank_0(tree()),
            run::changes_back,
        )
        .setup(Setup::new(2)),
        right(
            "dsm/changes-back-reclaimed",
            "the same where every barrier throws away what is not needed",
            reclaiming(tree()),
            run::changes_back,
        )
        .setup(Setup::new(2)),
    ]
}

fn deaths() -> Vec<Check> {
    vec![
        right(
            "dsm/barrier-death",
            "any rank dies at any step of a barrier: the others get an error, or get through",
            tree(),
            run::false_sharing,
        )
        .setup(three().deaths(1)),
        right(
            "dsm/barrier-death-central",
            "the same with a manager",
            central(),
            run::false_sharing,
        )
        .setup(three().deaths(1)),
        right(
            "dsm/long-messages-death",
            "any rank dies, also one that was sent more than its signal brings",
            roomy(tree()),
            run::long_without_a_third,
        )
        .setup(three().deaths(1))
        .policy(Policy::Random, 3000),
        Check::new(
            "dsm/barrier-of-two-death",
            "any of three ranks dies: of two others that meet, one waits for a lock of the third",
            without_a_third,
        )
        .setup(three().deaths(1))
        .policy(Policy::Random, 3000),
        right(
            "dsm/lock-death",
            "any rank dies while it has a lock, or waits for it",
            tree(),
            run::counting,
        )
        .setup(Setup::new(2).deaths(1)),
    ]
}

fn without_a_third(_: &Setup) -> Subject {
    Subject::new(staged(|world, prepared| {
        let mut dsm = Dsm::new(world, tree())?;
        let heard = world.words(1)?;
        prepared();
        run::meets_without_a_third(&mut dsm, &heard)
    }))
}

/// The promises to the others when one rank cannot go on.
fn failures() -> Vec<Check> {
    vec![
        right(
            "dsm/barrier-failure",
            "a rank that has no room for its diffs meets nobody, and all hear of it",
            without_room(tree()),
            run::meets_without_room,
        ),
        right(
            "dsm/barrier-failure-central",
            "the same with a manager",
            without_room(central()),
            run::meets_without_room,
        ),
        right(
            "dsm/lock-failure",
            "a rank that has no room for its diffs passes no lock on, and nobody waits for it",
            without_room(tree()),
            run::unlocks_without_room,
        )
        .setup(Setup::new(2)),
        Check::new(
            "dsm/domain-failure",
            "a rank that has no room for the notices of its node: nobody goes on without them",
            subject(
                Config { bytes: 1 << 13, copies: Copies::Node, diffs: Diffs::OnDemand, ..tree() },
                run::closes_without_room,
            ),
        )
        .omitting(steps::LEAVE_UNMARKED)
        .setup(three().topology("node:2"))
        .policy(Policy::Random, 300),
        Check::new(
            "dsm/keeps-its-failure",
            "lets others wait for a rank that cannot go on",
            subject(without_room(tree()), run::meets_without_room),
        )
        .omitting(steps::TELL_OF_FAILURE)
        .setup(Setup::new(2))
        .mutant(Promise::Progress, "deadlock"),
        Check::new(
            "dsm/keeps-its-lock",
            "the same with a lock",
            subject(without_room(tree()), run::unlocks_without_room),
        )
        .omitting(steps::TELL_OF_FAILURE)
        .setup(Setup::new(2))
        .mutant(Promise::Progress, "deadlock"),
    ]
}

/// More ranks than all schedules can be tried for.
fn many() -> Vec<Check> {
    let of = |name, about, config| {
        right(name, about, config, run::mixed)
            .setup(Setup::new(8).topology("node:4").rounds(2))
            .policy(Policy::Random, 300)
    };
    vec![
        of("dsm/many", "eight ranks on four nodes, locks and barriers", reclaiming(tree())),
        of("dsm/many-central", "the same with a manager", central()),
    ]
}

fn wrong() -> Vec<Check> {
    vec![
        Check::new(
            "dsm/drops-a-notice",
            "overlooks the first notice of each interval",
            subject(tree(), run::message_passing),
        )
        .omitting(steps::HEED_NOTICES)
        .mutant(Promise::Consistency, "without the data"),
        Check::new(
            "dsm/applies-backwards",
            "applies the newest diff first",
            subject(tree(), run::counting),
        )
        .omitting(steps::ORDER_DIFFS)
        .setup(Setup::new(3))
        .mutant(Promise::Consistency, "were counted"),
        Check::new(
            "dsm/keeps-its-twin",
            "compares with the twin of an earlier interval",
            subject(tree(), run::false_sharing),
        )
        .omitting(steps::RENEW_TWINS)
        .setup(Setup::new(3).rounds(2))
        .mutant(Promise::Consistency, "instead of"),
        Check::new(
            "dsm/reclaims-too-early",
            "throws diffs away while others still need them",
            subject(reclaiming(tree()), run::false_sharing),
        )
        .omitting(steps::AWAIT_KEEPERS)
        .setup(Setup::new(3).rounds(2))
        .mutant(Promise::Consistency, "instead of"),
        Check::new(
            "dsm/confuses-subtrees",
            "sends a subtree what its sibling lacks",
            subject(tree(), run::false_sharing),
        )
        .omitting(steps::TELL_SUBTREES_APART)
        .setup(Setup::new(3))
        .mutant(Promise::Consistency, "instead of"),
        Check::new(
            "dsm/keeps-to-itself",
            "passes on its own notices only",
            subject(tree(), run::chain),
        )
        .omitting(steps::PASS_ON)
        .setup(Setup::new(3))
        .mutant(Promise::Consistency, "without what"),
        Check::new(
            "dsm/forgets-what-some-told",
            "keeps nothing that it hears in barriers for those who come for a lock",
            subject(tree(), run::told),
        )
        .omitting(steps::KEEP_WHAT_SOME_TELL)
        .setup(Setup::new(3))
        .mutant(Promise::Consistency, "without what"),
        Check::new(
            "dsm/uses-one-place",
            "uses one place for all its requests of a lock",
            subject(tree(), run::counting),
        )
        .omitting(steps::ALTERNATE_PLACES)
        .setup(Setup::new(2).rounds(2))
        .mutant(Promise::Progress, "deadlock"),
    ]
}

/// The wrong one of pages that are fetched whole.
fn wrong_copies() -> Vec<Check> {
    vec![
        Check::new(
            "dsm/takes-written-pages",
            "fetches a whole page while its keeper writes it",
            subject(from_rank_0(tree()), run::changes_back),
        )
        .omitting(steps::TAKE_TWINS)
        .setup(Setup::new(2))
        .mutant(Promise::Consistency, "have changed back"),
    ]
}

/// The wrong one whose acknowledgements go back.
fn wrong_mail() -> Vec<Check> {
    let subject = subject(roomy(tree()), run::long_messages);
    let about = "lets an old acknowledgement land on a newer one";
    let check = Check::new("dsm/stores-taken", about, subject).omitting(steps::ADD_TAKEN);
    let check = check.setup(Setup::new(2).rounds(5));
    vec![check.unordered(super::IS_THE_FAULT).mutant(Promise::Progress, "deadlock")]
}

/// All checks of shared pages.
pub fn checks() -> Vec<Check> {
    let right = [locks(), barriers(), copies(), deaths(), failures(), many()];
    let paper = right.into_iter().chain([wrong(), wrong_copies(), wrong_mail()]);
    paper.chain(domains::all()).flatten().collect()
}
