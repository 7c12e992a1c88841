//! The events of a run, for people to read.

use std::fmt::Write;

use farside_fabric::text::counted;

use crate::sim::{Event, Run, Verdict};

pub(super) fn replayed(ranks: u32, run: &Run) -> String {
    let trace: Vec<Event> = run.steps.iter().map(|step| step.event.clone()).collect();
    let text = match &run.verdict {
        Verdict::Passed => "nothing is wrong".to_owned(),
        Verdict::Pruned => "this schedule does not exist".to_owned(),
        Verdict::TooLong => format!("no end after {} steps", trace.len()),
        Verdict::Failed(problem) => problem.clone(),
    };
    format!("{}{text}", describe_trace_from(ranks, &trace, run.unused))
}

/// Describes the events of a run, a step a line, with a column for each rank.
///
/// ```
/// use farside::check::{Check, describe_trace};
/// use farside::{Rank, World};
///
/// let tickets = |world: &World| {
///     let tickets = world.words(1)?;
///     farside::check::begin(world);
///     world.fetch_add(tickets.at(Rank(0), 0), 1).map(drop)
/// };
/// let run = Check::new(3).replay(tickets, "21")?;
/// let trace: Vec<_> = run.steps.into_iter().map(|step| step.event).collect();
/// assert!(describe_trace(3, &trace).contains(" 1  . . 2  fetch_add 1 at word 0 of window"));
/// # Ok::<(), farside::Error>(())
/// ```
pub fn describe_trace(ranks: u32, trace: &[Event]) -> String {
    describe_trace_from(ranks, trace, 0)
}

/// Likewise, without the first steps, `unused` of them, in which nothing of the program's own
/// memory was used.
pub(super) fn describe_trace_from(ranks: u32, trace: &[Event], unused: usize) -> String {
    let mut text = String::new();
    if unused > 0 {
        let _ = writeln!(
            text,
            "       …  {} before the program's first operation",
            counted(unused, "step")
        );
    }
    for (step, event) in trace.iter().enumerate().skip(unused) {
        let column =
            |rank: u32| if rank == event.id.rank.0 { rank.to_string() } else { ".".into() };
        let columns: Vec<String> = (0..ranks).map(column).collect();
        let what = event.to_string();
        let what = what.split_once(": ").map_or(&*what, |(_, what)| what);
        let _ = writeln!(text, "  {:>6}  {}  {what}", step + 1, columns.join(" "));
    }
    text
}
