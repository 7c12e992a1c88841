//! Descriptions of results, for people to read.

use std::fmt::Write;

use farside::check::describe_trace;
use farside::sim::{Event, Policy};

use crate::check::{Check, Setup};

impl Setup {
    /// The job in a few words, such as `3 ranks, node:3, 2 rounds`.
    pub fn describe(&self) -> String {
        let count =
            |count: u32, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let mut text = count(self.ranks, "rank");
        text += &format!(", {}", self.topology.as_deref().unwrap_or("one node"));
        text += &format!(", {}", count(self.rounds, "round"));
        if self.deaths > 0 {
            text += &format!(", up to {}", count(self.deaths, "death"));
        }
        if self.slow_news {
            text += ", slow news";
        }
        if self.time_outs > 0 {
            text += &format!(", up to {}", count(self.time_outs, "time-out"));
        }
        if self.looks {
            text += ", looks";
        }
        if self.torn {
            text += ", torn";
        }
        text
    }
}

impl Check {
    /// The command that runs a schedule of this check again.
    pub fn replay_command(&self, setup: &Setup, schedule: &str) -> String {
        let mut command = format!(
            "farside check {} --ranks {} --rounds {}",
            self.name, setup.ranks, setup.rounds
        );
        if let Some(topology) = &setup.topology {
            command += &format!(" --topology {topology}");
        }
        if setup.deaths > 0 {
            command += &format!(" --deaths {}", setup.deaths);
        }
        if setup.slow_news {
            command += " --slow-news";
        }
        if setup.time_outs > 0 {
            command += &format!(" --time-outs {}", setup.time_outs);
        }
        // An empty schedule is one in which the first event always comes first.
        command + &format!(" --replay '{}'", if schedule.is_empty() { "0" } else { schedule })
    }

    /// A failure: what went wrong, in which job, and by which schedule.
    pub fn describe_failure(
        &self,
        setup: &Setup,
        policy: Policy,
        seed: u64,
        problem: &str,
        failure: Option<(&str, &[Event])>,
    ) -> String {
        let mut text = format!("{}: {problem}\n", self.name);
        let _ = writeln!(text, "  program   {}", self.about);
        let _ = writeln!(text, "  job       {}", setup.describe());
        let _ = writeln!(text, "  policy    {policy}, seed {seed}");
        if let Some((schedule, trace)) = failure {
            let _ =
                writeln!(text, "  schedule  {}", if schedule.is_empty() { "0" } else { schedule });
            text += &describe_trace(setup.ranks, trace);
            let _ = writeln!(text, "  again     {}", self.replay_command(setup, schedule));
        }
        text
    }
}
