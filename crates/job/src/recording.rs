//! A recording of operations, and its way from the ranks to the launcher: as text, or through the
//! rings in a job's memory.

use std::fmt::Write as _;

use farside_fabric::observed::{Kind, Operation};
use farside_fabric::record::RingReading;
use farside_fabric::tracing::Slice;
use farside_fabric::{Error, Rank, Result, Topology};

/// The operations of some or all ranks of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// The topology of the whole job.
    pub topology: Topology,
    /// The operations, in any order.
    pub slices: Vec<Slice>,
    /// How many earlier operations there was no room for.
    pub dropped: u64,
}

impl Recording {
    /// Puts together what the ranks' rings hold.
    pub(crate) fn of_rings(topology: Topology, readings: Vec<RingReading>) -> Recording {
        let dropped = readings.iter().map(|reading| reading.dropped).sum();
        let mut slices = Vec::new();
        for mut reading in readings {
            note_landings(&mut reading.slices, &topology);
            slices.append(&mut reading.slices);
        }
        Recording { topology, slices, dropped }
    }

    /// Keeps what was under way in the last nanoseconds of the recording.
    pub fn keep_last(&mut self, last_ns: u64) {
        let known = |time: &u64| *time != Slice::NOT_OVER;
        let times = self.slices.iter().flat_map(|slice| [slice.begin_ns, slice.end_ns]);
        let first = times.filter(known).max().unwrap_or(0).saturating_sub(last_ns);
        let before = self.slices.len();
        self.slices.retain(|slice| slice.end_ns >= first);
        self.dropped += (before - self.slices.len()) as u64;
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

    /// Reads the line of a topology.
    pub(crate) fn topology(line: &str) -> Result<Topology> {
        let (ranks, topology) = line.split_once(' ').ok_or_else(|| damaged(line))?;
        Topology::decode(topology, ranks.parse().map_err(|_| damaged(line))?)
    }

    /// Reads the line of an operation.
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
    use super::*;

    #[test]
    fn a_recording_survives_its_way_as_text() {
        let operation = Operation { kind: Kind::PutSignal, peer: Some(Rank(1)), bytes: 64 };
        let put =
            Slice { rank: Rank(0), operation, begin_ns: 5, end_ns: 9, landed_ns: Some(1 << 60) };
        let operation = Operation { kind: Kind::Wait, peer: None, bytes: 0 };
        let wait = Slice { rank: Rank(3), operation, begin_ns: 0, end_ns: 7, landed_ns: None };
        let topology = Topology::parse("node:2", 4).unwrap();
        let recording = Recording { topology, slices: vec![put, wait], dropped: 0 };
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
}
