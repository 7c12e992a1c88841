//! What the tests show: sixteen ranks on two nodes that put, get, count and meet.

use std::time::Instant;

use farside::fabric::observed::{Kind, Operation};
use farside::fabric::tracing::{Server, Service, Slice, Trace};
use farside::sim::{Profile, Virtual};
use farside::{Local, Rank, Result, Topology, World};

pub(crate) const RANKS: u32 = 16;
const NODES: &str = "node:2";
const ROUNDS: u64 = 3;

pub(crate) fn topology() -> Topology {
    Topology::parse(NODES, RANKS).unwrap()
}

/// What sixteen threads did. Threads do not tell when an operation lands, so a time is made up for
/// each that goes to somebody.
pub(crate) fn record() -> Vec<Slice> {
    let start = Instant::now();
    let trace = Trace::new(move || start.elapsed().as_nanos() as u64);
    let recorder = trace.clone();
    let job = Local::new(RANKS).unwrap().topology(NODES);
    job.decorate(move |fabric| recorder.over(fabric)).run(exchange).unwrap();
    let mut slices = trace.take();
    for (index, slice) in slices.iter_mut().enumerate() {
        let duration_ns = slice.end_ns - slice.begin_ns;
        slice.landed_ns = match slice.operation.kind {
            Kind::Fence | Kind::Flush | Kind::Wait => None,
            Kind::Get | Kind::Atomic | Kind::Call => Some(slice.begin_ns + duration_ns / 2),
            Kind::Put | Kind::Accumulate | Kind::Post | Kind::PutSignal => {
                Some(slice.end_ns + 37 * (index as u64 % 11))
            }
        };
    }
    slices
}

/// What sixteen simulated ranks did, with the times at which operations landed.
pub(crate) fn simulate() -> Vec<Slice> {
    let profile = Profile::load("aries-xc30").unwrap();
    let job = Virtual::new(&profile, RANKS).unwrap().topology(NODES).unwrap();
    job.traced().run(exchange).unwrap().timing.slices
}

/// What agents of two nodes would have executed for these ranks: the operations that went to
/// another node, one after the other, and calls.
pub(crate) fn serve(slices: &[Slice]) -> Vec<Service> {
    let topology = topology();
    let mut free_ns = slices.iter().map(|slice| slice.begin_ns).min().unwrap_or(0);
    let mut services = Vec::new();
    for slice in slices {
        let Some(target) = slice.operation.peer else { continue };
        let node = topology.node_of(target);
        if node == topology.node_of(slice.rank) {
            continue;
        }
        let operation = Operation { peer: Some(slice.rank), ..slice.operation };
        let agent = (Server::Agent(node), Some(target));
        for (server, target) in [agent, (Server::Handlers(node), None)] {
            let (begin_ns, end_ns) = (free_ns, free_ns + 50);
            services.push(Service { server, operation, target, begin_ns, end_ns });
            free_ns += 60;
        }
    }
    services
}

/// How many of these operations are known to have landed with somebody.
pub(crate) fn landings(slices: &[Slice]) -> usize {
    slices
        .iter()
        .filter(|slice| slice.operation.peer.is_some() && slice.landed_ns.is_some())
        .count()
}

fn exchange(world: &World) -> Result<()> {
    let next = Rank((world.rank().0 + 1) % world.size());
    let window = world.window::<u64>(32)?;
    let words = world.words(1)?;
    let mut seen = [0; 32];
    for round in 0..ROUNDS {
        world.put(&[round; 32], window.at(next, 0))?;
        world.get(window.at(next, 0), &mut seen)?;
        world.fetch_add(words.at(Rank(0), 0), 1)?;
        world.barrier()?;
    }
    window.free(world)?;
    words.free(world)
}
