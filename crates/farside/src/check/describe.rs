//! What was found, for people to read.

use std::fmt::{self, Write};

use crate::sim::{Event, Run, Verdict};

use super::explore::{Finding, Outcome};

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Outcome::Exhaustive => "exhaustive",
            Outcome::Sampled => "sampled",
            Outcome::Bounded => "bounded",
            Outcome::Failed => "FAILED",
        })
    }
}

impl Finding {
    /// Describes what was found. `again` makes the command that shows a schedule again.
    pub fn describe(&self, again: &dyn Fn(&str) -> String) -> String {
        let (check, report) = (&self.check, &self.report);
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = match (self.outcome, &self.race, &report.failure) {
            (Outcome::Failed, Some(race), _) => writeln!(text, "{race}"),
            (Outcome::Failed, None, Some(failure)) => writeln!(text, "{}", failure.problem),
            (Outcome::Bounded, ..) => writeln!(
                text,
                "not all schedules were tried: a limit ended it after {}, and nothing is known of \
                 the rest. Fewer ranks or rounds, or `farside::check::begin` after the \
                 preparations, make it smaller; the policy pct:3 with a number of schedules takes \
                 a sample",
                report.runs
            ),
            (outcome, ..) => writeln!(text, "{outcome}: nothing was found"),
        };
        if let Some(cure) = &self.cure {
            let _ = writeln!(
                text,
                "  cure      {cure}: with it {} schedules have passed",
                self.cured_schedules
            );
        }
        let count =
            |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let topology = check.topology.as_deref().unwrap_or("one node");
        let ranks = count(check.ranks.into(), "rank");
        let _ = write!(text, "  job       {ranks}, {topology}");
        if check.deaths > 0 {
            let _ = write!(text, ", up to {}", count(check.deaths.into(), "death"));
        }
        let torn = if check.torn { ", torn" } else { "" };
        let races = if check.races { "" } else { ", races not looked for" };
        let _ = writeln!(text, "{torn}{races}");
        let (tried, steps) = (count(report.runs, "schedule"), count(report.steps, "step"));
        let _ =
            writeln!(text, "  policy    {}, seed {}: {tried}, {steps}", check.policy, check.seed);
        if let Some(failure) = &report.failure {
            let schedule = if failure.schedule.is_empty() { "0" } else { &failure.schedule };
            let _ = writeln!(text, "  schedule  {schedule}");
            text += &describe_trace(check.ranks, &failure.trace);
            let _ = writeln!(text, "  again     {}", again(schedule));
        }
        text
    }
}

/// Describes one schedule that was run again.
pub(super) fn replayed(ranks: u32, run: &Run) -> String {
    let trace: Vec<Event> = run.steps.iter().map(|step| step.event.clone()).collect();
    let text = match &run.verdict {
        Verdict::Passed => "nothing is wrong".to_owned(),
        Verdict::Pruned => "this schedule does not exist".to_owned(),
        Verdict::TooLong => format!("no end after {} steps", trace.len()),
        Verdict::Failed(problem) => problem.clone(),
    };
    format!("{}{text}", describe_trace(ranks, &trace))
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
/// assert!(describe_trace(3, &trace).contains(" 1  . . 2  fetch_add 1 at byte 0 of"));
/// # Ok::<(), farside::Error>(())
/// ```
pub fn describe_trace(ranks: u32, trace: &[Event]) -> String {
    let mut text = String::new();
    for (step, event) in trace.iter().enumerate() {
        let column =
            |rank: u32| if rank == event.id.rank.0 { rank.to_string() } else { ".".into() };
        let columns: Vec<String> = (0..ranks).map(column).collect();
        let what = event.to_string();
        let what = what.split_once(": ").map_or(&*what, |(_, what)| what);
        let _ = writeln!(text, "  {:>6}  {}  {what}", step + 1, columns.join(" "));
    }
    text
}
