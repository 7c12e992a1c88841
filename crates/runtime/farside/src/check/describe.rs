//! What was found, for people to read.

use std::fmt::{self, Write};

use crate::sim::{Event, NOT_COVERED, Run, Verdict};

use super::explore::{Finding, Outcome};

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Outcome::Exhaustive => "exhaustive",
            Outcome::Partial => "partial",
            Outcome::Sampled => "sampled",
            Outcome::Bounded => "bounded",
            Outcome::Failed => "FAILED",
        })
    }
}

/// Returns a number of things, in words.
pub(super) fn count(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

impl Finding {
    /// Why no access was looked at, if races were to be found and the program has made some.
    pub(super) fn no_race_looked_for(&self) -> Option<String> {
        let coverage = self.coverage.as_ref().filter(|coverage| !coverage.unseen.is_empty())?;
        coverage.nothing_checked().filter(|_| self.race.is_none())
    }

    /// Describes what was found. `again` makes the command that shows a schedule again.
    #[allow(clippy::too_many_lines, reason = "it writes a page from top to bottom")]
    pub fn describe(&self, again: &dyn Fn(&str) -> String) -> String {
        let (check, report) = (&self.check, &self.report);
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = match (self.outcome, &self.race, &report.failure) {
            (Outcome::Failed, Some(race), _) => writeln!(text, "{race}"),
            (Outcome::Failed, None, Some(failure)) => writeln!(text, "{}", failure.problem),
            (Outcome::Bounded, ..) => writeln!(
                text,
                "NOT PASSED (bounded): not all schedules were tried: a limit ended it after {}, \
                 with no failure so far; the rest is unknown. To shrink the search, use fewer \
                 ranks or rounds, or call `farside::check::begin` after the setup; to sample, use \
                 policy pct:3 with a number of schedules",
                count(report.runs, "schedule")
            ),
            (Outcome::Sampled, ..) => writeln!(
                text,
                "sampled: nothing was found in {}; all others were not tried",
                count(report.runs, "random schedule")
            ),
            (Outcome::Partial, ..) => writeln!(
                text,
                "partial: nothing was found, but schedules may be missing: the program used memory \
                 in a way that the exploration cannot follow"
            ),
            (Outcome::Exhaustive, ..) if self.no_race_looked_for().is_some() => {
                writeln!(text, "no failure in any schedule (exhaustive), but races were not seen")
                    .and_then(|()| writeln!(text, "  uncovered {NOT_COVERED}"))
            }
            (Outcome::Exhaustive, ..) => {
                writeln!(text, "passed in all schedules (exhaustive: nothing was found)")
                    .and_then(|()| writeln!(text, "  uncovered {NOT_COVERED}"))
            }
            (Outcome::Failed, None, None) => writeln!(text, "failed"),
        };
        for unseen in &report.unseen {
            let _ = writeln!(text, "  unseen    {unseen}");
        }
        let not_seen = self.coverage.as_ref().and_then(|coverage| coverage.not_seen());
        if let Some(why) = self.no_race_looked_for() {
            let _ = writeln!(text, "  races     nothing was checked: {why} (docs/races.md)");
        } else if let Some(what) = not_seen {
            let _ = writeln!(text, "  races     not seen: {what} (docs/races.md)");
        }
        if let Some(cure) = &self.cure {
            let verified = count(self.cured_schedules, "schedule");
            let _ = writeln!(text, "  fix       {cure}: verified with it in {verified}");
        }
        let topology = check.topology.as_deref().unwrap_or("one node");
        let ranks = count(check.ranks.into(), "rank");
        let _ = write!(text, "  job       {ranks}, {topology}");
        if check.deaths > 0 {
            let _ = write!(text, ", up to {}", count(check.deaths.into(), "death"));
        }
        if check.slow_news {
            text += ", slow news";
        }
        let torn = if check.torn { ", torn" } else { "" };
        let races = if check.races { "" } else { ", races not looked for" };
        let _ = writeln!(text, "{torn}{races}");
        let (tried, steps) = (count(report.runs, "schedule"), count(report.steps, "step"));
        let first = match (self.random_first, check.policy == self.policy.to_string()) {
            (0, true) => String::new(),
            (first, true) => format!(", after {}", count(first, "random one")),
            (_, false) => format!("; the policy {} was not needed", check.policy),
        };
        let _ = writeln!(
            text,
            "  policy    {}, seed {}: {tried}, {steps}{first}",
            self.policy, check.seed
        );
        if let Some(failure) = &report.failure {
            let schedule = if failure.schedule.is_empty() { "0" } else { &failure.schedule };
            let _ = writeln!(text, "  schedule  {schedule}");
            text += &describe_trace_from(check.ranks, &failure.trace, failure.unused);
            let _ = writeln!(text, "  again     {}", again(schedule));
        }
        text
    }
}

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
fn describe_trace_from(ranks: u32, trace: &[Event], unused: usize) -> String {
    let mut text = String::new();
    if unused > 0 {
        let _ = writeln!(
            text,
            "       …  {} before the program's first operation",
            count(unused as u64, "step")
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
