//! What was found, for people to read.

use std::fmt::{self, Write};

use farside_fabric::text::counted;

use crate::sim::NOT_COVERED;

use super::explore::{Finding, Outcome};
use super::trace::describe_trace_from;

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
                counted(report.runs, "schedule")
            ),
            (Outcome::Sampled, ..) => writeln!(
                text,
                "sampled: nothing was found in {}; all others were not tried",
                counted(report.runs, "random schedule")
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
            let verified = counted(self.cured_schedules, "schedule");
            let _ = writeln!(text, "  fix       {cure}: verified with it in {verified}");
        }
        let topology = check.topology.as_deref().unwrap_or("one node");
        let ranks = counted(check.ranks, "rank");
        let _ = write!(text, "  job       {ranks}, {topology}");
        if check.deaths > 0 {
            let _ = write!(text, ", up to {}", counted(check.deaths, "death"));
        }
        if check.slow_news {
            text += ", slow news";
        }
        let torn = if check.torn { ", torn" } else { "" };
        let races = if check.races { "" } else { ", races not looked for" };
        let _ = writeln!(text, "{torn}{races}");
        let (tried, steps) = (counted(report.runs, "schedule"), counted(report.steps, "step"));
        let first = match (self.random_first, check.policy == self.policy.to_string()) {
            (0, true) => String::new(),
            (first, true) => format!(", after {}", counted(first, "random one")),
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
