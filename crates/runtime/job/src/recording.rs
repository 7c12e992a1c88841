//! A recording of operations, and its way from the ranks to the launcher: as text, or through the
//! rings in a job's memory.

use std::fmt::Write as _;

use farside_fabric::observed::{Kind, Operation};
use farside_fabric::record::{RingReading, ServiceReading};
use farside_fabric::tracing::{Service, Slice};
use farside_fabric::{Error, Rank, Result, Topology};

/// The operations of some or all ranks of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// The topology of the whole job.
    pub topology: Topology,
    /// The operations, in any order.
    pub slices: Vec<Slice>,
    /// What agents, and processes in their place, have executed for ranks, in any order.
    pub services: Vec<Service>,
    /// How many earlier operations there was no room for.
    pub dropped: u64,
    /// How far apart the times of two ranks may be that were the same: zero if they have one clock.
    pub clock_error_ns: u64,
}

impl Recording {
    /// The recording of ranks that have one clock, and whatever there was.
    pub fn new(topology: Topology, slices: Vec<Slice>) -> Recording {
        Recording { topology, slices, services: Vec::new(), dropped: 0, clock_error_ns: 0 }
    }

    /// Puts together what the rings of ranks and of those that serve them hold.
    pub(crate) fn of_rings(
        topology: Topology,
        ranks: Vec<RingReading>,
        servers: Vec<ServiceReading>,
    ) -> Recording {
        let mut recording = Recording::new(topology, Vec::new());
        for mut reading in ranks {
            note_landings(&mut reading.slices, &recording.topology);
            recording.slices.append(&mut reading.slices);
            recording.dropped += reading.dropped;
        }
        for mut reading in servers {
            recording.services.append(&mut reading.services);
            recording.dropped += reading.dropped;
        }
        recording
    }

    /// Replaces every time by what `change` makes of it, such as the same time by another clock.
    pub fn change_times(&mut self, change: impl Fn(u64) -> u64) {
        let end = |end_ns: &mut u64| {
            if *end_ns != Slice::NOT_OVER {
                *end_ns = change(*end_ns);
            }
        };
        for slice in &mut self.slices {
            slice.begin_ns = change(slice.begin_ns);
            end(&mut slice.end_ns);
            slice.landed_ns = slice.landed_ns.map(&change);
        }
        for service in &mut self.services {
            service.begin_ns = change(service.begin_ns);
            end(&mut service.end_ns);
        }
    }

    /// Keeps what was under way in the last nanoseconds of the recording.
    pub fn keep_last(&mut self, last_ns: u64) {
        let known = |time: &u64| *time != Slice::NOT_OVER;
        let times = self.slices.iter().flat_map(|slice| [slice.begin_ns, slice.end_ns]);
        let first = times.filter(known).max().unwrap_or(0).saturating_sub(last_ns);
        let before = self.slices.len() + self.services.len();
        self.slices.retain(|slice| slice.end_ns >= first);
        self.services.retain(|service| service.end_ns >= first);
        self.dropped += (before - self.slices.len() - self.services.len()) as u64;
    }

    /// Returns the latest operation of each rank that has one, in the order of the ranks.
    pub fn latest(&self) -> Vec<Slice> {
        let ranks = (0..self.topology.ranks()).map(Rank);
        let of = |rank| self.slices.iter().filter(move |slice| slice.rank == rank);
        ranks.filter_map(|rank| of(rank).max_by_key(|slice| slice.begin_ns).copied()).collect()
    }

    /// Returns it as text, each line of which can be understood by itself.
    pub(crate) fn encode(&self) -> String {
        let ranks = self.topology.ranks();
        let mut text = format!("topology {ranks} {}\n", self.topology.encode());
        for slice in &self.slices {
            let Operation { kind, peer, bytes } = slice.operation;
            let peer = peer.map_or("-".into(), |peer| peer.0.to_string());
            let landed = slice.landed_ns.map_or("-".into(), |landed| landed.to_string());
            let (rank, begin, end) = (slice.rank.0, slice.begin_ns, slice.end_ns);
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "slice {rank} {} {peer} {bytes} {begin} {end} {landed}",
                kind.name()
            );
        }
        text
    }

    pub(crate) fn topology(line: &str) -> Result<Topology> {
        let (ranks, topology) = line.split_once(' ').ok_or_else(|| damaged(line))?;
        Topology::decode(topology, ranks.parse().map_err(|_| damaged(line))?)
    }

    pub(crate) fn slice(line: &str) -> Result<Slice> {
        let parse = || {
            let mut words = line.split(' ');
            let mut word = || words.next();
            let optional = |word: &str| match word {
                "-" => Some(None),
                number => number.parse::<u64>().ok().map(Some),
            };
            let rank = Rank(word()?.parse().ok()?);
            let name = word()?;
            let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name)?;
            let peer = optional(word()?)?.map(|rank| Some(Rank(u32::try_from(rank).ok()?)));
            let peer = match peer {
                Some(peer) => Some(peer?),
                None => None,
            };
            let operation = Operation { kind, peer, bytes: word()?.parse().ok()? };
            let (begin_ns, end_ns) = (word()?.parse().ok()?, word()?.parse().ok()?);
            Some(Slice { rank, operation, begin_ns, end_ns, landed_ns: optional(word()?)? })
        };
        parse().ok_or_else(|| damaged(line))
    }
}

/// Fills in when the operations of one rank, in the order in which they began, have landed by: near
/// ones when they returned, and posted far ones when the next flush of their target returned.
fn note_landings(slices: &mut [Slice], topology: &Topology) {
    let mut flushed = vec![None; topology.ranks() as usize];
    for slice in slices.iter_mut().rev() {
        let Operation { kind, peer: Some(peer), .. } = slice.operation else { continue };
        let Some(flush) = flushed.get_mut(peer.0 as usize) else { continue };
        let end = Some(slice.end_ns).filter(|&end_ns| end_ns != Slice::NOT_OVER);
        let is_near = topology.node_of(slice.rank) == topology.node_of(peer);
        slice.landed_ns = match kind {
            Kind::Flush => {
                *flush = end;
                continue;
            }
            Kind::Put | Kind::Accumulate | Kind::Post | Kind::PutSignal if !is_near => *flush,
            Kind::Put | Kind::Accumulate | Kind::Post | Kind::PutSignal | Kind::Atomic
                if is_near && peer != slice.rank =>
            {
                end
            }
            _ => continue,
        };
    }
}

fn damaged(line: &str) -> Error {
    Error::Join(format!("the recording of the program is damaged: {line:?}"))
}

#[cfg(test)]
mod tests {
    use farside_fabric::Node;
    use farside_fabric::tracing::Server;

    use super::*;

    #[test]
    fn a_recording_survives_its_way_as_text() {
        let operation = Operation { kind: Kind::PutSignal, peer: Some(Rank(1)), bytes: 64 };
        let put =
            Slice { rank: Rank(0), operation, begin_ns: 5, end_ns: 9, landed_ns: Some(1 << 60) };
        let operation = Operation { kind: Kind::Wait, peer: None, bytes: 0 };
        let wait = Slice { rank: Rank(3), operation, begin_ns: 0, end_ns: 7, landed_ns: None };
        let topology = Topology::parse("node:2", 4).unwrap();
        let recording = Recording::new(topology, vec![put, wait]);
        let text = recording.encode();
        let lines: Vec<(&str, &str)> =
            text.lines().map(|line| line.split_once(' ').unwrap()).collect();
        assert_eq!(Recording::topology(lines[0].1).unwrap().nodes(), 2);
        let slices = lines[1..].iter().map(|(_, rest)| Recording::slice(rest).unwrap());
        assert_eq!(slices.collect::<Vec<Slice>>(), [put, wait]);
        for bad in ["", "0 put", "0 shove 1 8 0 1 -", "0 put 99999999999 8 0 1 -"] {
            assert!(Recording::slice(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_change_all_together_and_what_is_not_over_stays_so() {
        let operation = Operation { kind: Kind::Put, peer: Some(Rank(1)), bytes: 8 };
        let slice = |begin_ns, end_ns, landed_ns| Slice {
            rank: Rank(0),
            operation,
            begin_ns,
            end_ns,
            landed_ns,
        };
        let service = |begin_ns, end_ns| {
            let (server, target) = (Server::Agent(Node(0)), Some(Rank(0)));
            Service { server, operation, target, begin_ns, end_ns }
        };
        let slices = vec![slice(100, 110, Some(105)), slice(120, Slice::NOT_OVER, None)];
        let mut recording = Recording::new(Topology::flat(2), slices);
        recording.services = vec![service(101, 104), service(121, Slice::NOT_OVER)];
        recording.change_times(|time| time - 100);
        let slices = [slice(0, 10, Some(5)), slice(20, Slice::NOT_OVER, None)];
        assert_eq!(recording.slices, slices);
        assert_eq!(recording.services, [service(1, 4), service(21, Slice::NOT_OVER)]);
        recording.keep_last(8);
        assert_eq!((recording.slices.len(), recording.services.len()), (1, 1));
        assert_eq!(recording.dropped, 2);
    }
}
