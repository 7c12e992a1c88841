//! Traces for people to look at: a file for Perfetto, or a page that needs nothing but a browser.
//!
//! A [`Trace`](farside_fabric::tracing::Trace) in front of every rank's fabric records; [`chrome`]
//! and [`page`] write down what it took:
//!
//! ```
//! use std::time::Instant;
//!
//! use farside::fabric::tracing::Trace;
//! use farside::{Local, Rank, Topology};
//!
//! let start = Instant::now();
//! let recording = Trace::new(move || start.elapsed().as_nanos() as u64);
//! let recorder = recording.clone();
//! Local::new(4)?.decorate(move |fabric| recorder.over(fabric)).run(|world| {
//!     let window = world.window::<u64>(1)?;
//!     world.put_value(7, window.at(Rank(0), 0))?;
//!     window.free(world)
//! })?;
//! let slices = recording.take();
//! let mut page = Vec::new();
//! let topology = Topology::flat(4);
//! let recorded = farside_inspect::trace::Recorded::new(&slices, &topology);
//! farside_inspect::trace::page(&recorded, "four puts", &mut page)?;
//! assert!(page.starts_with(b"<!doctype html>"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Both start their time at the earliest operation. Both draw an arrow from an operation to its
//! target where the recording knows when it landed there. Operations of one rank that overlap,
//! because several of its threads were at it, get a row each. Threads that executed operations for
//! others, such as the agent of a node, have rows of their own, behind the ranks of their node.

mod chrome;
mod page;

pub use chrome::chrome;
pub use page::page;

use std::io;

use farside_fabric::observed::Operation;
use farside_fabric::tracing::{Server, Service, Slice};
use farside_fabric::{Node, Rank, Topology};

/// A recording that is to be written down.
#[derive(Debug, Clone, Copy)]
pub struct Recorded<'a> {
    /// The operations of ranks, in any order.
    pub slices: &'a [Slice],
    /// What agents, and processes in their place, have executed for ranks, in any order.
    pub services: &'a [Service],
    /// The topology of the whole job.
    pub topology: &'a Topology,
    /// How far apart the times of two nodes may be that were the same: zero if they have one clock.
    pub clock_error_ns: u64,
}

impl<'a> Recorded<'a> {
    /// The operations of ranks that have one clock.
    pub fn new(slices: &'a [Slice], topology: &'a Topology) -> Recorded<'a> {
        Recorded { slices, services: &[], topology, clock_error_ns: 0 }
    }
}

/// The operations of a recording, each on a row of its track, in the order in which they began.
struct Timeline {
    bars: Vec<Bar>,
    /// The threads that have executed something for others. Tracks are the ranks, and then these.
    servers: Vec<Server>,
    /// How many rows each track needs; at least one.
    lanes: Vec<u32>,
}

/// An operation and where it is drawn. Times are nanoseconds since the earliest operation: they
/// stay small enough for the floating-point numbers that readers hold them in, whatever the clock's
/// beginning was.
struct Bar {
    /// The rank that called it, or the server that executed it, as the number of its track.
    track: u32,
    operation: Operation,
    lane: u32,
    begin_ns: u64,
    end_ns: u64,
    is_over: bool,
    landing: Option<Landing>,
    /// Whose memory it was executed on, if a server did.
    target: Option<Rank>,
}

#[derive(Clone, Copy)]
struct Landing {
    target: Rank,
    at_ns: u64,
}

impl Timeline {
    /// Puts every operation on a row. Fails if one names a rank or a node that the topology does
    /// not have.
    fn new(recorded: &Recorded<'_>) -> io::Result<Timeline> {
        recorded.check()?;
        let Recorded { slices, services, topology, .. } = *recorded;
        let mut servers: Vec<Server> = services.iter().map(|service| service.server).collect();
        servers.sort_unstable_by_key(|server| (server.node(topology).0, *server));
        servers.dedup();
        let times = || {
            let called = slices.iter().flat_map(|slice| [slice.begin_ns, slice.end_ns]);
            called.chain(services.iter().flat_map(|service| [service.begin_ns, service.end_ns]))
        };
        let start_ns = times().min().unwrap_or(0);
        let last_ns = times().filter(|&time| time != Slice::NOT_OVER).max().unwrap_or(0);
        let called = slices.iter().map(|slice| Bar::of_slice(slice, start_ns, last_ns));
        let track = |server: &Server| {
            let at = servers.iter().position(|other| other == server).unwrap_or_default();
            topology.ranks() + at as u32
        };
        let executed = services
            .iter()
            .map(|service| Bar::of_service(service, track(&service.server), start_ns, last_ns));
        let mut bars: Vec<Bar> = called.chain(executed).collect();
        bars.sort_by_key(|bar| (bar.begin_ns, bar.end_ns, bar.track));
        let tracks = topology.ranks() as usize + servers.len();
        let mut busy_until: Vec<Vec<u64>> = vec![Vec::new(); tracks];
        for bar in &mut bars {
            let lanes = &mut busy_until[bar.track as usize];
            let free =
                lanes.iter().position(|&end_ns| end_ns <= bar.begin_ns).unwrap_or(lanes.len());
            if free == lanes.len() {
                lanes.push(0);
            }
            lanes[free] = bar.end_ns;
            bar.lane = free as u32;
        }
        let lanes = busy_until.iter().map(|lanes| lanes.len().max(1) as u32).collect();
        Ok(Timeline { bars, servers, lanes })
    }

    fn node_of(&self, track: u32, topology: &Topology) -> Node {
        match track.checked_sub(topology.ranks()) {
            None => topology.node_of(Rank(track)),
            Some(server) => self.servers[server as usize].node(topology),
        }
    }

    fn tracks(&self) -> u32 {
        self.lanes.len() as u32
    }
}

impl Recorded<'_> {
    /// Fails if anything is recorded of a rank or a node that the topology does not have.
    fn check(&self) -> io::Result<()> {
        let invalid = |message: String| io::Error::new(io::ErrorKind::InvalidInput, message);
        let called = self.slices.iter().flat_map(|slice| [Some(slice.rank), slice.operation.peer]);
        let executed =
            self.services.iter().flat_map(|service| [service.operation.peer, service.target]);
        let ranks = self.topology.ranks();
        if let Some(rank) = called.chain(executed).flatten().find(|rank| rank.0 >= ranks) {
            let message = format!("the trace has {rank} but the topology only {ranks} ranks");
            return Err(invalid(message));
        }
        let is_unknown = |service: &&Service| !service.server.is_of(self.topology);
        match self.services.iter().find(is_unknown) {
            Some(service) => {
                let message = format!("the trace has the {}, and the topology not", service.server);
                Err(invalid(message))
            }
            None => Ok(()),
        }
    }
}

impl Bar {
    /// An operation of a recording that begins and ends at these times; one that is not over is
    /// drawn to the end.
    fn of_slice(slice: &Slice, start_ns: u64, last_ns: u64) -> Bar {
        let mut bar = Bar {
            track: slice.rank.0,
            operation: slice.operation,
            lane: 0,
            begin_ns: slice.begin_ns - start_ns,
            end_ns: end_ns(slice.begin_ns, slice.end_ns, last_ns) - start_ns,
            is_over: slice.end_ns != Slice::NOT_OVER,
            landing: None,
            target: None,
        };
        // Nothing lands before it begins. A recording that says so mixes clocks, and readers drop
        // an arrow into the past.
        bar.landing = slice.operation.peer.zip(slice.landed_ns).map(|(target, landed_ns)| {
            Landing { target, at_ns: landed_ns.saturating_sub(start_ns).max(bar.begin_ns) }
        });
        bar
    }

    /// Likewise, one that a server has executed.
    fn of_service(service: &Service, track: u32, start_ns: u64, last_ns: u64) -> Bar {
        Bar {
            track,
            operation: service.operation,
            lane: 0,
            begin_ns: service.begin_ns - start_ns,
            end_ns: end_ns(service.begin_ns, service.end_ns, last_ns) - start_ns,
            is_over: service.end_ns != Slice::NOT_OVER,
            landing: None,
            target: service.target,
        }
    }
}

fn end_ns(begin_ns: u64, end_ns: u64, last_ns: u64) -> u64 {
    let end_ns = if end_ns == Slice::NOT_OVER { last_ns } else { end_ns };
    end_ns.max(begin_ns)
}

#[cfg(test)]
mod tests {
    use farside_fabric::observed::Kind;

    use super::*;

    fn slice(rank: u32, begin_ns: u64, end_ns: u64, landed_ns: Option<u64>) -> Slice {
        let operation = Operation { kind: Kind::Put, peer: Some(Rank(1)), bytes: 8 };
        Slice { rank: Rank(rank), operation, begin_ns, end_ns, landed_ns }
    }

    #[test]
    fn overlapping_operations_of_one_rank_are_on_rows_of_their_own() {
        let slices = [
            slice(0, 20, 30, None),
            slice(0, 10, 20, None),
            slice(0, 15, 25, None),
            slice(1, 10, 40, None),
        ];
        let topology = Topology::flat(3);
        let timeline = Timeline::new(&Recorded::new(&slices, &topology)).unwrap();
        let placed: Vec<_> =
            timeline.bars.iter().map(|bar| (bar.track, bar.begin_ns, bar.lane)).collect();
        assert_eq!(placed, [(0, 0, 0), (1, 0, 0), (0, 5, 1), (0, 10, 0)]);
        assert_eq!(timeline.lanes, [2, 1, 1]);
    }

    #[test]
    fn nothing_lands_before_it_begins() {
        let slices = [slice(0, 100, 110, Some(105)), slice(0, 120, 130, Some(90))];
        let topology = Topology::flat(2);
        let timeline = Timeline::new(&Recorded::new(&slices, &topology)).unwrap();
        let landings: Vec<_> = timeline.bars.iter().map(|bar| bar.landing.unwrap().at_ns).collect();
        assert_eq!(landings, [5, 20]);
    }

    #[test]
    fn a_rank_that_the_topology_does_not_have_is_named() {
        let (slices, topology) = ([slice(7, 0, 1, None)], Topology::flat(2));
        let error = Timeline::new(&Recorded::new(&slices, &topology)).err().unwrap();
        assert_eq!(error.to_string(), "the trace has rank 7 but the topology only 2 ranks");
        let services = [service(Server::Agent(Node(4)), 0, 1)];
        let recorded = Recorded { services: &services, ..Recorded::new(&[], &topology) };
        let error = Timeline::new(&recorded).err().unwrap();
        assert_eq!(error.to_string(), "the trace has the agent of node 4, and the topology not");
    }

    fn service(server: Server, begin_ns: u64, end_ns: u64) -> Service {
        let operation = Operation { kind: Kind::Get, peer: Some(Rank(1)), bytes: 8 };
        Service { server, operation, target: Some(Rank(0)), begin_ns, end_ns }
    }

    #[test]
    fn those_who_serve_have_tracks_behind_the_ranks() {
        let topology = Topology::parse("node:2", 4).unwrap();
        let (agent, host) = (Server::Agent(Node(1)), Server::Host(Rank(0)));
        let slices = [slice(3, 100, Slice::NOT_OVER, None)];
        let services = [
            service(agent, 105, 120),
            service(agent, 90, 95),
            service(host, 110, 130),
            service(agent, 110, Slice::NOT_OVER),
        ];
        let recorded = Recorded { services: &services, ..Recorded::new(&slices, &topology) };
        let timeline = Timeline::new(&recorded).unwrap();
        assert_eq!(timeline.servers, [host, agent]);
        let placed: Vec<_> = timeline
            .bars
            .iter()
            .map(|bar| (bar.track, bar.begin_ns, bar.end_ns, bar.lane, bar.is_over))
            .collect();
        let expected = [
            (5, 0, 5, 0, true),
            (3, 10, 40, 0, false),
            (5, 15, 30, 0, true),
            (4, 20, 40, 0, true),
            (5, 20, 40, 1, false),
        ];
        assert_eq!(placed, expected);
        assert_eq!(timeline.lanes, [1, 1, 1, 1, 1, 2]);
        let nodes: Vec<u32> =
            (0..timeline.tracks()).map(|track| timeline.node_of(track, &topology).0).collect();
        assert_eq!(nodes, [0, 0, 1, 1, 0, 1]);
    }
}
