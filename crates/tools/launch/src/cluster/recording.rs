//! The recording of a job that spans hosts: each host sends what it has recorded, and its times
//! become those of the launcher's clock.

use std::time::{Duration, Instant};

use farside_fabric::Topology;
use farside_job::{Recording, now_ns};

use super::Cluster;
use crate::clocks::{self, HostClock, RoundTrip};
use crate::frames::ToNode;
use crate::recorded::Part;
use crate::remote::State;
use crate::{Error, Hosts, Launch};

/// The time that a comparison of clocks may take when the ranks have ended.
const LAST_COMPARISON: Duration = Duration::from_secs(2);

pub(super) struct HostRecordings {
    topology: Topology,
    clocks: Vec<HostClock>,
    /// What each host has sent, by its own clock.
    recordings: Vec<Recording>,
    parts: u64,
}

impl HostRecordings {
    /// Those of a job that is to be recorded.
    pub(super) fn new(launch: &Launch, hosts: &Hosts) -> Result<Option<HostRecordings>, Error> {
        if !launch.options.is_recorded {
            return Ok(None);
        }
        let topology = hosts.plan(&launch.options, [0; 16]).topology()?;
        let count = hosts.entries.len();
        let recordings = vec![Recording::new(topology.clone(), Vec::new()); count];
        let clocks = (0..count).map(|_| HostClock::default()).collect();
        Ok(Some(HostRecordings { topology, clocks, recordings, parts: 0 }))
    }
}

impl Cluster<'_> {
    /// Begins to compare the clock of a host with the one here, if the job is recorded.
    pub(super) fn compare_clock(&mut self, node: usize) {
        if let Some(recorded) = &mut self.recorded {
            recorded.clocks[node].begin();
            self.ask_time(node);
        }
    }

    fn ask_time(&self, node: usize) {
        self.remotes[node].outbox.push(&ToNode::Clock { sent_ns: now_ns() });
    }

    pub(super) fn note_time(&mut self, node: usize, trip: RoundTrip) {
        if self.recorded.as_mut().is_some_and(|recorded| recorded.clocks[node].note(trip)) {
            self.ask_time(node);
        }
    }

    /// Returns whether the clocks of all hosts that are there were compared, as far as needed.
    pub(super) fn are_clocks_compared(&self) -> bool {
        let is_gone = |node: usize| self.remotes[node].state >= State::Done;
        (0..self.remotes.len()).all(|node| is_gone(node) || self.is_clock_compared(node))
    }

    /// Returns whether the clock of a host was compared, as far as needed.
    pub(super) fn is_clock_compared(&self, node: usize) -> bool {
        self.recorded.as_ref().is_none_or(|recorded| recorded.clocks[node].is_compared())
    }

    /// Compares all clocks once more, when the ranks have ended.
    pub(super) fn compare_clocks_again(&mut self) {
        if self.recorded.is_none() {
            return;
        }
        for node in 0..self.remotes.len() {
            if self.remotes[node].state < State::Done {
                self.compare_clock(node);
            }
        }
        let mut deadline = Instant::now() + LAST_COMPARISON;
        while !self.are_clocks_compared() && Instant::now() < deadline {
            // What asks for the end must not wait for this.
            if self.step_quietly(&mut deadline).is_none_or(|(_, told_to_end)| told_to_end) {
                return;
            }
        }
    }

    pub(super) fn keep_part(&mut self, node: usize, part: Part) {
        if let Some(recorded) = &mut self.recorded {
            part.add_to(&mut recorded.recordings[node]);
            recorded.parts += 1;
        }
    }

    pub(super) fn parts_recorded(&self) -> u64 {
        self.recorded.as_ref().map_or(0, |recorded| recorded.parts)
    }

    /// Returns what all hosts have recorded, by one clock, and says whose is missing.
    pub(super) fn recording(&mut self) -> Option<Recording> {
        let HostRecordings { topology, clocks, recordings, .. } = self.recorded.take()?;
        for remote in self.remotes.iter().filter(|remote| remote.state != State::Done) {
            self.policy
                .say(&format!("the recording of host {} is missing or incomplete", remote.label));
        }
        let mut whole = Recording::new(topology, Vec::new());
        for (mut recording, clock) in recordings.into_iter().zip(&clocks) {
            recording.change_times(|there_ns| clock.here_ns(there_ns));
            whole.slices.append(&mut recording.slices);
            whole.services.append(&mut recording.services);
            whole.dropped += recording.dropped;
        }
        whole.clock_error_ns = clocks::error_ns(&clocks);
        Some(whole)
    }
}
