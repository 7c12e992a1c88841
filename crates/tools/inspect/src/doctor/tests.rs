//! What the doctor says of snapshots made by hand.

use super::*;
use crate::snapshot::{
    ActivityView, ContextView, Entered, HeldView, Kind, NameView, ProcessView, RankState, RankView,
    SilenceView, WordView,
};

const SECOND: u64 = 1_000_000_000;
const NOW: u64 = 100 * SECOND;

fn snapshot(ranks: Vec<RankView>) -> Snapshot {
    let names = vec![NameView { segment: 7, offset: 0, name: "table".into() }];
    Snapshot { taken_ns: NOW, processors: 64, ranks, names, silences: Vec::new() }
}

fn rank(rank: u32, context: ContextView) -> RankView {
    RankView {
        rank,
        is_read: true,
        process: 1000 + rank,
        state: RankState::Alive,
        system: Some(ProcessView { state: 'S', ..ProcessView::default() }),
        joined_ns: NOW - 20 * SECOND,
        contexts: vec![context],
        ..RankView::default()
    }
}

fn runs() -> ContextView {
    ContextView { is_there: true, since_ns: NOW - 12 * SECOND, ..ContextView::default() }
}

fn waits(activity: ActivityView) -> ContextView {
    let (since_ns, looked_ns) = (NOW - 12 * SECOND, NOW);
    let (is_there, activity) = (true, Some(activity));
    ContextView { is_there, since_ns, looked_ns, activity, ..ContextView::default() }
}

fn activity(kind: Kind, name: &str, number: u64) -> ActivityView {
    ActivityView {
        kind,
        name: name.into(),
        segment: 7,
        number,
        size: 0,
        place: "main.rs:1".into(),
        word: None,
        peers: None,
        has_limit: false,
        entered: Entered::default(),
    }
}

/// A barrier with this number, which the members have entered so many collectives up to.
fn barrier(number: u64, entered: &[u64]) -> ActivityView {
    let entered = entered.iter().enumerate().map(|(at, &count)| (at as u32, count)).collect();
    let entered = Entered::new(entered);
    ActivityView { segment: 1, entered, ..activity(Kind::Collective, "barrier", number) }
}

fn word(seen: u64, now: u64) -> ActivityView {
    let word = WordView { segment: 9, offset: 24, bytes: 8, seen, now: Some(now), others: vec![] };
    ActivityView { word: Some(word), ..activity(Kind::Word, "wait", 0) }
}

fn holds(mut context: ContextView, offset: u64) -> ContextView {
    context.held.push(HeldView { segment: 7, offset, place: "main.rs:9".into() });
    context
}

fn diagnosis(ranks: Vec<ContextView>) -> Diagnosis {
    let ranks = ranks.into_iter().enumerate().map(|(at, each)| rank(at as u32, each)).collect();
    let snapshot = snapshot(ranks);
    diagnose(&snapshot, &snapshot)
}

fn kinds(diagnosis: &Diagnosis) -> Vec<FindingKind> {
    diagnosis.findings.iter().map(|finding| finding.kind).collect()
}

#[test]
fn a_lock_and_a_barrier_can_be_a_cycle() {
    // Rank 1 holds the lock and is in the barrier; rank 0 waits for the lock.
    let lock = waits(activity(Kind::Lock, "mcs", 0));
    let in_barrier = || waits(barrier(17, &[16, 17, 17]));
    let found = diagnosis(vec![lock, holds(in_barrier(), 0), in_barrier()]);
    assert_eq!(found.verdict, Verdict::Stuck);
    assert_eq!(found.stuck, [0, 1, 2]);
    let deadlock = &found.findings[0];
    assert_eq!((deadlock.kind, &*deadlock.ranks), (FindingKind::Deadlock, &[0, 1, 2][..]));
    let said = &deadlock.what;
    assert!(said.contains("waits for lock `table` (main.rs:1), which rank 1 holds"), "{said}");
    assert!(said.contains("barrier 17 of team `world` (main.rs:1), where rank 0 is missing"));
}

#[test]
fn a_rank_that_is_awake_and_gets_no_processor_is_not_stuck() {
    let with = |state: char, computed_ns: u64| {
        let mut ranks = vec![rank(0, waits(word(2, 3))), rank(1, waits(word(1, 1)))];
        ranks[0].system = Some(ProcessView { state, computed_ns, ..ProcessView::default() });
        snapshot(ranks)
    };
    let (asleep, awake, polled) = (with('S', 0), with('R', 0), with('R', SECOND));
    assert_eq!(diagnose(&asleep, &asleep).verdict, Verdict::Stuck);
    // It was woken, and has not run since.
    assert_eq!(diagnose(&asleep, &awake).verdict, Verdict::Slow);
    // It has run, and did not notice the change.
    assert_eq!(diagnose(&awake, &polled).verdict, Verdict::Stuck);
}

#[test]
fn whoever_waits_for_a_rank_that_runs_is_slow() {
    let in_barrier = || waits(barrier(3, &[3, 2, 3]));
    let found = diagnosis(vec![in_barrier(), runs(), in_barrier()]);
    assert_eq!((found.verdict, kinds(&found)), (Verdict::Slow, vec![FindingKind::Runs]));
    assert!(found.findings[0].what.contains("2 of 3 ranks are in barrier 3"));
    let found = diagnosis(vec![waits(barrier(3, &[3, 2, 2])), runs(), runs()]);
    assert!(found.findings[0].what.contains("1 of 3 ranks is in barrier 3"), "{found:?}");
    let lock = || waits(activity(Kind::Lock, "mcs", 0));
    let found = diagnosis(vec![holds(runs(), 0), lock(), lock()]);
    assert_eq!((found.verdict, kinds(&found)), (Verdict::Slow, vec![FindingKind::Runs]));
    let said = &found.findings[0].what;
    assert!(said.contains("rank 0 holds lock `table` (main.rs:9)"), "{said}");
    assert!(said.contains("ranks 1 and 2 wait for it"), "{said}");
}

#[test]
fn a_wait_that_ends_by_itself_is_not_stuck() {
    let limited = |activity: ActivityView| ActivityView { has_limit: true, ..activity };
    let found = diagnosis(vec![waits(limited(word(0, 0))), waits(limited(word(0, 0)))]);
    assert_eq!(found.verdict, Verdict::Slow);
    let found = diagnosis(vec![waits(word(0, 0)), waits(activity(Kind::Pause, "pause", 0))]);
    assert_eq!(found.verdict, Verdict::Slow);
}

#[test]
fn words_that_nobody_can_write_are_told_of() {
    let found = diagnosis(vec![waits(word(0, 0)), waits(word(0, 0))]);
    assert_eq!(
        (found.verdict, kinds(&found)),
        (Verdict::Stuck, vec![FindingKind::UnwrittenWord; 2])
    );
    let mut elsewhere = word(0, 0);
    elsewhere.word.as_mut().unwrap().others = vec![(32, 7)];
    let found = diagnosis(vec![waits(elsewhere), waits(barrier(1, &[0, 1]))]);
    assert!(found.findings[0].what.contains("word 4 holds 7"), "{:?}", found.findings);
    // One of the ranks that could write it runs.
    let found = diagnosis(vec![waits(word(0, 0)), runs()]);
    assert_eq!(found.verdict, Verdict::Slow);
}

#[test]
fn a_change_that_woke_nobody_is_told_of_although_others_run() {
    let found = diagnosis(vec![waits(word(0, 1)), runs()]);
    assert_eq!(
        (found.verdict, kinds(&found)),
        (Verdict::Stuck, vec![FindingKind::UnnoticedChange])
    );
    // A lock that was passed on, or a collective that is over, is noticed in a moment.
    let granted = ActivityView { word: word(0, 1).word, ..activity(Kind::Lock, "mcs", 0) };
    let found = diagnosis(vec![waits(granted), waits(barrier(1, &[0, 1]))]);
    assert_eq!(found.verdict, Verdict::Slow);
}

#[test]
fn a_change_that_was_just_made_is_not_called_unnoticed() {
    let with = |activity: ActivityView, looked_ns: u64| {
        let mut context = waits(activity);
        context.looked_ns = looked_ns;
        snapshot(vec![rank(0, context), rank(1, runs())])
    };
    let before = with(word(5, 5), NOW - 3 * SECOND);
    // Between the two looks somebody has added to the word.
    let after = with(word(5, 6), NOW - 3 * SECOND);
    let found = diagnose(&before, &after);
    assert_eq!((found.verdict, kinds(&found)), (Verdict::Healthy, vec![]), "{found:?}");
    // Or the waiter was woken and has looked, and there is another change again.
    let (before, after) = (with(word(5, 6), NOW - SECOND), with(word(6, 7), NOW));
    assert_eq!(diagnose(&before, &after).verdict, Verdict::Healthy);
    // A change that stands and that its waiter sleeps through woke nobody.
    let stands = with(word(5, 6), NOW - 3 * SECOND);
    let found = diagnose(&stands, &stands);
    assert_eq!(
        (found.verdict, kinds(&found)),
        (Verdict::Stuck, vec![FindingKind::UnnoticedChange])
    );
}

#[test]
fn a_long_handler_is_not_a_host_out_of_reach() {
    let call = || {
        let call = activity(Kind::Call, "call", 0);
        waits(ActivityView { peers: Some(vec![1]), ..call })
    };
    let mut far = rank(1, runs());
    far.node = 1;
    let mut now = snapshot(vec![rank(0, call()), far]);
    let found = diagnose(&now, &now);
    assert_eq!((found.verdict, kinds(&found)), (Verdict::Slow, vec![FindingKind::Runs]));
    let said = &found.findings[0].what;
    assert!(said.contains("has not answered yet") && found.findings[0].cure.is_none(), "{said}");
    // What lands here in time is nobody's silence.
    let landings = waits(activity(Kind::Flush, "landings", 0));
    assert_eq!(kinds(&diagnosis(vec![landings, runs()])), []);
    // A node that is not heard does not answer.
    now.silences = vec![SilenceView { node: 0, peer: 1, since_ns: NOW - 6 * SECOND }];
    let found = diagnose(&now, &now);
    assert_eq!(kinds(&found), [FindingKind::Silent; 2]);
    assert!(found.findings[1].what.contains("does not answer"), "{found:?}");
}

#[test]
fn a_stopped_process_is_what_others_wait_for() {
    let mut ranks = vec![rank(0, waits(barrier(1, &[1, 0]))), rank(1, runs())];
    ranks[1].system = Some(ProcessView { state: 'T', ..ProcessView::default() });
    let snapshot = snapshot(ranks);
    let found = diagnose(&snapshot, &snapshot);
    assert_eq!((found.verdict, &*found.stuck), (Verdict::Stuck, &[0][..]));
    assert_eq!(found.findings[0].kind, FindingKind::Stopped);
    assert_eq!(found.findings[0].cure.as_deref(), Some("resume it with `kill -CONT 1001`"));
}

#[test]
fn what_changes_between_two_looks_is_not_stuck() {
    let after = snapshot(vec![rank(0, waits(barrier(2, &[2, 1]))), rank(1, waits(word(0, 0)))]);
    assert_eq!(diagnose(&after, &after).verdict, Verdict::Stuck);
    let mut before = after.clone();
    before.ranks[1].contexts[0].since_ns -= SECOND / 10;
    assert!(diagnose(&before, &after).stuck.is_empty());
}

#[test]
fn a_thread_with_nothing_to_do_does_not_hide_a_wait() {
    let mut ranks = vec![rank(0, waits(barrier(2, &[2, 1]))), rank(1, waits(word(0, 0)))];
    ranks[1].contexts.push(runs());
    let after = snapshot(ranks);
    assert_eq!(diagnose(&after, &after).verdict, Verdict::Stuck);
    let mut busy = after.clone();
    busy.ranks[1].system.as_mut().unwrap().computed_ns = SECOND;
    assert_eq!(diagnose(&after, &busy).verdict, Verdict::Slow);
    let mut works = after.clone();
    works.ranks[1].contexts[1].operations = 1;
    assert_eq!(diagnose(&after, &works).verdict, Verdict::Slow);
    let mut gone = works.clone();
    gone.ranks[1].contexts[1].is_there = false;
    assert_eq!(diagnose(&after, &gone).verdict, Verdict::Stuck);
}

#[test]
fn different_collectives_and_lost_ranks_are_told_of() {
    let mut other = barrier(5, &[5, 5]);
    other.name = "broadcast".into();
    let found = diagnosis(vec![waits(barrier(5, &[5, 5])), waits(other)]);
    assert!(kinds(&found).contains(&FindingKind::DifferentCollectives), "{found:?}");
    let mut ranks = vec![rank(0, runs()), rank(1, runs()), rank(2, runs())];
    ranks[1].state = RankState::Lost("was killed by signal 9".into());
    ranks[2].system = None;
    let snapshot = snapshot(ranks);
    let found = diagnose(&snapshot, &snapshot);
    assert_eq!(kinds(&found), [FindingKind::Lost; 2]);
    assert_eq!(found.places.len(), 3);
}

#[test]
fn a_snapshot_survives_json() {
    let snapshot = snapshot(vec![rank(0, holds(waits(word(1, 2)), 8)), rank(1, runs())]);
    let text = serde_json::to_string(&snapshot).unwrap();
    assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), snapshot);
}

#[test]
fn what_several_hosts_have_read_is_put_together() {
    // Rank 0 is on one host, in a barrier; rank 1 is on another, whose clock differs, and waits.
    let mut here = snapshot(vec![rank(0, waits(barrier(2, &[2]))), RankView::default()]);
    (here.ranks[1].rank, here.ranks[1].state) = (1, RankState::Alive);
    let mut there = snapshot(vec![RankView::default(), rank(1, waits(word(0, 0)))]);
    there.taken_ns += 1000 * SECOND;
    there.ranks[1].contexts[0].since_ns += 1000 * SECOND;
    assert_eq!(diagnose(&here, &here).verdict, Verdict::Slow, "of the other rank nothing is known");
    let all = Snapshot::merge(vec![here, there]);
    assert_eq!(all.ranks[1].contexts[0].since_ns, NOW - 12 * SECOND);
    let found = diagnose(&all, &all);
    assert_eq!((found.verdict, &*found.stuck), (Verdict::Stuck, &[0, 1][..]));
    assert!(kinds(&found).contains(&FindingKind::MissingMember), "{found:?}");
}

#[test]
fn ranks_behind_a_network_that_is_cut_are_not_stuck_and_it_is_said_first() {
    let mut far = rank(1, waits(word(1, 1)));
    far.node = 1;
    let mut now = snapshot(vec![rank(0, waits(word(1, 1))), far]);
    assert_eq!(diagnose(&now, &now).verdict, Verdict::Stuck);
    now.silences = vec![
        SilenceView { node: 0, peer: 1, since_ns: NOW - 6 * SECOND },
        SilenceView { node: 1, peer: 0, since_ns: NOW - 5 * SECOND },
    ];
    let diagnosis = diagnose(&now, &now);
    assert_eq!(diagnosis.verdict, Verdict::Slow);
    let first = &diagnosis.findings[0];
    assert_eq!(first.kind, FindingKind::Silent);
    assert!(
        first.what.contains("nodes 0 and 1 receive nothing from each other, for 6.0 s"),
        "{first:?}"
    );
}
