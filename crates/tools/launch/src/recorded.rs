//! What was recorded on a host, in parts that travel to the launcher.

use farside_fabric::observed::{Kind, Operation};
use farside_fabric::tracing::{Server, Service, Slice};
use farside_fabric::{Node, Rank};
use farside_job::Recording;
use serde::{Deserialize, Serialize};

/// How many operations a part has at most: some hundred kilobytes.
const PART: usize = 8192;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Part {
    slices: Vec<SliceText>,
    services: Vec<ServiceText>,
    dropped: u64,
}

/// [`Operation`] as it travels; a kind by its place among all of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct OperationText {
    kind: u8,
    peer: Option<u32>,
    bytes: u64,
}

/// [`Slice`] as it travels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct SliceText {
    rank: u32,
    operation: OperationText,
    begin_ns: u64,
    end_ns: u64,
    landed_ns: Option<u64>,
}

/// [`Service`] as it travels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct ServiceText {
    server: ServerText,
    operation: OperationText,
    target: Option<u32>,
    begin_ns: u64,
    end_ns: u64,
}

/// [`Server`] as it travels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum ServerText {
    Agent(u32),
    Handlers(u32),
    Host(u32),
}

pub(crate) fn parts(recording: &Recording) -> Vec<Part> {
    let slices = recording
        .slices
        .chunks(PART)
        .map(|some| Part { slices: some.iter().map(SliceText::from).collect(), ..Part::default() });
    let services = recording.services.chunks(PART).map(|some| Part {
        services: some.iter().map(ServiceText::from).collect(),
        ..Part::default()
    });
    let rest = Part { dropped: recording.dropped, ..Part::default() };
    slices.chain(services).chain([rest]).collect()
}

impl Part {
    /// Adds what it has to a recording, as far as the recording's topology knows of it.
    pub(crate) fn add_to(self, recording: &mut Recording) {
        let ranks = recording.topology.ranks();
        let is_known = |rank: Option<Rank>| rank.is_none_or(|rank| rank.0 < ranks);
        let slices = self.slices.into_iter().filter_map(SliceText::slice);
        recording.slices.extend(
            slices.filter(|slice| is_known(Some(slice.rank)) && is_known(slice.operation.peer)),
        );
        let services: Vec<Service> =
            self.services.into_iter().filter_map(ServiceText::service).collect();
        let topology = &recording.topology;
        recording.services.extend(services.into_iter().filter(|service| {
            service.server.is_of(topology)
                && is_known(service.operation.peer)
                && is_known(service.target)
        }));
        recording.dropped = recording.dropped.saturating_add(self.dropped);
    }
}

impl From<&Operation> for OperationText {
    fn from(operation: &Operation) -> OperationText {
        let kind = Kind::ALL.iter().position(|&kind| kind == operation.kind).unwrap_or(0) as u8;
        let peer = operation.peer.map(|peer| peer.0);
        OperationText { kind, peer, bytes: operation.bytes }
    }
}

impl OperationText {
    fn operation(self) -> Option<Operation> {
        let kind = *Kind::ALL.get(usize::from(self.kind))?;
        Some(Operation { kind, peer: self.peer.map(Rank), bytes: self.bytes })
    }
}

impl From<&Slice> for SliceText {
    fn from(slice: &Slice) -> SliceText {
        let &Slice { rank, operation, begin_ns, end_ns, landed_ns } = slice;
        let operation = OperationText::from(&operation);
        SliceText { rank: rank.0, operation, begin_ns, end_ns, landed_ns }
    }
}

impl SliceText {
    fn slice(self) -> Option<Slice> {
        let SliceText { rank, operation, begin_ns, end_ns, landed_ns } = self;
        let operation = operation.operation()?;
        Some(Slice { rank: Rank(rank), operation, begin_ns, end_ns, landed_ns })
    }
}

impl From<&Service> for ServiceText {
    fn from(service: &Service) -> ServiceText {
        let &Service { server, operation, target, begin_ns, end_ns } = service;
        let server = match server {
            Server::Agent(node) => ServerText::Agent(node.0),
            Server::Handlers(node) => ServerText::Handlers(node.0),
            Server::Host(rank) => ServerText::Host(rank.0),
        };
        let (operation, target) = (OperationText::from(&operation), target.map(|rank| rank.0));
        ServiceText { server, operation, target, begin_ns, end_ns }
    }
}

impl ServiceText {
    fn service(self) -> Option<Service> {
        let ServiceText { server, operation, target, begin_ns, end_ns } = self;
        let server = match server {
            ServerText::Agent(node) => Server::Agent(Node(node)),
            ServerText::Handlers(node) => Server::Handlers(Node(node)),
            ServerText::Host(rank) => Server::Host(Rank(rank)),
        };
        let (operation, target) = (operation.operation()?, target.map(Rank));
        Some(Service { server, operation, target, begin_ns, end_ns })
    }
}

#[cfg(test)]
mod tests {
    use farside_fabric::Topology;

    use super::*;
    use crate::frames::{ToLauncher, decode, encode};

    fn recording() -> Recording {
        let topology = Topology::parse("node:2", 4).unwrap();
        let slices = (0..3 * PART as u64 / 2).map(|at| Slice {
            rank: Rank(at as u32 % 4),
            operation: Operation {
                kind: Kind::ALL[at as usize % Kind::ALL.len()],
                peer: (at % 3 == 0).then_some(Rank(3)),
                bytes: at << 20,
            },
            begin_ns: u64::MAX - 2 * at,
            end_ns: if at % 5 == 0 { Slice::NOT_OVER } else { at },
            landed_ns: (at % 2 == 0).then_some(at),
        });
        let mut recording = Recording::new(topology, slices.collect());
        let servers = [Server::Agent(Node(1)), Server::Handlers(Node(0)), Server::Host(Rank(3))];
        let service = |(at, server): (usize, Server)| Service {
            server,
            operation: Operation { kind: Kind::Get, peer: Some(Rank(at as u32)), bytes: 8 },
            target: (at > 0).then_some(Rank(2)),
            begin_ns: 7,
            end_ns: 9,
        };
        recording.services = servers.into_iter().enumerate().map(service).collect();
        recording.dropped = 12;
        recording
    }

    #[test]
    fn a_recording_survives_the_channel_in_parts() {
        let whole = recording();
        let mut copy = Recording::new(whole.topology.clone(), Vec::new());
        let parts = parts(&whole);
        assert_eq!(parts.len(), 4, "two of operations, one of services, one of the rest");
        for part in parts {
            let bytes = encode(&ToLauncher::Recorded(Box::new(part)));
            let Some(ToLauncher::Recorded(part)) = decode(&mut bytes.as_slice()).unwrap() else {
                panic!("another message");
            };
            part.add_to(&mut copy);
        }
        assert_eq!(copy, whole);
    }

    #[test]
    fn what_the_job_does_not_have_is_left_out() {
        let mut small = Recording::new(Topology::flat(3), Vec::new());
        parts(&recording()).into_iter().for_each(|part| part.add_to(&mut small));
        assert!(!small.slices.is_empty());
        assert!(small.slices.iter().all(|slice| slice.rank.0 < 3));
        assert!(small.slices.iter().all(|slice| slice.operation.peer.is_none()));
        assert_eq!(small.services.len(), 1, "node 1 and rank 3 are not there");
    }
}
