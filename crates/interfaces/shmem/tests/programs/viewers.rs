//! What viewers see of programs in C.

use std::time::Instant;

use farside_inspect::{Snapshot, Verdict, diagnose};
use farside_testing::{DEADLINE, one_node};
use rustix::process::{Pid, Signal, kill_process};

use crate::{compile_by, here};

/// The places where the ranks of a program wait, as a viewer reads them; ranks that do not wait
/// have none.
fn places_of(snapshot: &Snapshot) -> Vec<Option<String>> {
    let place = |rank: &farside_inspect::snapshot::RankView| {
        let activity = rank.contexts.iter().find_map(|context| context.activity.as_ref())?;
        Some(activity.place.clone()).filter(|place| !place.is_empty())
    };
    snapshot.ranks.iter().map(place).collect()
}

/// Runs a program that never ends, looks at it until `is_seen` says that there is enough to be
/// seen, and ends it; returns the last two looks.
fn look_at(source: &str, is_seen: impl Fn(&Snapshot, &Snapshot) -> bool) -> [Snapshot; 2] {
    let (program, start) = (compile_by("gcc", source), Instant::now());
    let path = program.path.display().to_string();
    let jobs = || farside_inspect::jobs().into_iter().filter(|job| job.command.contains(&path));
    let look = || Some(jobs().next()?.open().ok()?.read());
    std::thread::scope(|threads| {
        let ends = threads.spawn(|| farside_testing::launch(&program, 2, false, one_node));
        let mut looks: Option<[Snapshot; 2]> = None;
        while start.elapsed() < DEADLINE / 2
            && !looks.as_ref().is_some_and(|[before, after]| is_seen(before, after))
        {
            let before = looks.map(|[_, last]| last).or_else(look);
            looks = before.and_then(|before| Some([before, look()?]));
        }
        for job in jobs() {
            let others = job.processes.iter().filter(|&&process| process != std::process::id());
            for process in others.filter_map(|&process| Pid::from_raw(process as i32)) {
                let _ = kill_process(process, Signal::KILL);
            }
        }
        assert_ne!(ends.join().expect("the job is over").status, 0);
        looks.expect("the job was seen")
    })
}

fn line_with(source: &str, mark: &str) -> usize {
    let text = std::fs::read_to_string(here("tests/programs").join(source)).expect("it is there");
    text.lines().position(|line| line.contains(mark)).expect("it has the mark") + 1
}

#[test]
fn viewers_name_the_lines_of_programs_in_c() {
    let [_, seen] = look_at("never.c", |_, now| matches!(&places_of(now)[..], [Some(_), Some(_)]));
    let expected = ["the word */", "the barrier */"]
        .map(|mark| format!("never.c:{}", line_with("never.c", mark)));
    assert_eq!(places_of(&seen), expected.map(Some));
}

#[test]
fn viewers_see_a_deadlock_over_locks() {
    let [before, after] = look_at("two_locks.c", |before, after| {
        diagnose(before, after).verdict == Verdict::Stuck
            && matches!(&places_of(after)[..], [Some(_), Some(_)])
    });
    let said = format!("{:?}", diagnose(&before, &after));
    assert!(said.contains("Deadlock") && said.contains("lock"), "{said}");
    let line = format!("two_locks.c:{}", line_with("two_locks.c", "the second */"));
    assert_eq!(places_of(&after), [Some(line.clone()), Some(line)]);
}

#[test]
fn viewers_count_near_operations() {
    let is_waiting = |now: &Snapshot| matches!(&places_of(now)[..], [Some(_), Some(_)]);
    let [_, seen] = look_at("counted.c", |_, now| is_waiting(now));
    for (rank, next) in [(0, 1), (1, 0)] {
        let peers = seen.ranks[rank].contexts.iter().flat_map(|context| &context.peers);
        let (operations, bytes) =
            peers.filter(|peer| peer.rank == next).fold((0, 0), |(operations, bytes), peer| {
                (operations + peer.operations, bytes + peer.bytes)
            });
        // Nine thousand, and a few to start and to meet.
        assert!((9000..9500).contains(&operations), "{operations}: {:?}", seen.ranks[rank]);
        let expected = 1000 * (8 + 8 + 160 + 160 + 80 + 8);
        assert!((expected..expected + 10_000).contains(&bytes), "{bytes}: {:?}", seen.ranks[rank]);
    }
}
