//! A recording of operations as text, on its way from the ranks to the launcher.

use std::fmt::Write as _;

use farside_fabric::observed::{Kind, Operation};
use farside_fabric::tracing::Slice;
use farside_fabric::{Error, Rank, Result, Topology};

/// The operations of some or all ranks of a job.
#[derive(Debug, Clone)]
pub struct Recording {
    /// The topology of the whole job.
    pub topology: Topology,
    /// The operations, in any order.
    pub slices: Vec<Slice>,
}

impl Recording {
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
        let recording = Recording { topology, slices: vec![put, wait] };
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
