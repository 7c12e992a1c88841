//! Joining a job whose processes another launcher has started: the ranks have to make the job
//! themselves.
//!
//! ```text
//! every rank leaves a card: where it is         | fence
//! rank 0 reads all cards and leaves the plan    | fence
//! the first rank of each node makes its memory  |
//!   and its interface, and leaves a note where  | fence
//! the makers meet and hand the memory out; their neighbours fetch it
//! ```
//!
//! Under `farside run` the launcher's process makes a node's memory and hosts its interface; here
//! the first rank of each node does, in threads of its own. A process beside the ranks would
//! outlive any of them, but it would have to be the user's program started once more, and whatever
//! that does before it joins would be done once more. So the first rank stays instead: when it
//! leaves, it waits until all ranks have left or were lost, as the end of an MPI program does.
//! Memory needs no such care: it is there as long as a process maps it.
//!
//! Every rank watches all processes of its node, so that the end of each is noticed by all that are
//! left. When the first rank of one of several nodes ends before its time, its interface is gone:
//! its neighbours count the ranks of other nodes as lost, and those hear nothing of that node any
//! more.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::pmi::{Launcher, Session, StartDeadline};
use farside_fabric::{
    Connection, Error, ExitCause, Loss, Node, PeerState, Rank, Result, first_cause,
};
use farside_nic::Address;

use crate::board::Board;
use crate::card::Card;
use crate::enter::enter;
use crate::exchange::{Exchange, Notes};
use crate::handover::{Missing, Offer, Processes, fetch};
use crate::stuck;
use crate::watch::Watch;
use crate::{Host, JobPlan, Kind, NETWORK, START_TIMEOUT, address, environment, variable};

/// How long the start of a job may take, if nothing else is said. It is meant for hosts that do not
/// answer: a rank whose process is gone is found much earlier (`crate::pmi::StartDeadline`).
const START: Duration = Duration::from_secs(60);
/// How long an interface is kept after the last rank has left, in case a farewell has to be
/// answered once more: longer than any farewell waits before it is repeated.
const QUIET: Duration = Duration::from_millis(600);
/// What a note begins with that tells of a failure.
const FAILURE: &str = "failed: ";

pub(crate) fn join(launcher: &Launcher) -> Result<Box<dyn Connection>> {
    let deadline = launcher.start_deadline(start_timeout()?, START_TIMEOUT, &variable);
    let session = launcher.open(&deadline).map_err(|error| Error::Join(error.to_string()))?;
    assemble(session, &deadline)
}

/// Joins a job whose processes exchange bytes by themselves.
pub(crate) fn join_with(exchange: Box<dyn Exchange>) -> Result<Box<dyn Connection>> {
    let (rank, size) = (exchange.rank(), exchange.size());
    if rank >= size {
        return Err(Error::UnknownRank { rank: Rank(rank), ranks: size });
    }
    let deadline = StartDeadline::unseen(start_timeout()?, START_TIMEOUT, rank, size);
    assemble(Box::new(Notes::new(exchange)), &deadline)
}

fn assemble(
    session: Box<dyn Session>,
    deadline: &Rc<StartDeadline>,
) -> Result<Box<dyn Connection>> {
    let mut board = Board::new(session);
    let me = board.me();
    if me == Rank(0) {
        environment::warn_of_own();
    }
    let met = meet(&mut board);
    // Whatever came of it, the launcher is told: a rank that says nothing counts as failed, and an
    // error is reported by the rank that got it.
    let finished = board.finish();
    let Meeting { plan, made, note } = met?;
    finished?;
    let neighbours = plan.neighbours(me);
    match made {
        Some(made) => {
            let processes = hand_out(&made, me, &neighbours, deadline)?;
            let job = made.host.memory(me);
            stuck::watch_this_node();
            attend(&plan, me, job, &processes, Some(made.host))
        }
        None => {
            let (file, processes) = fetch(&note.socket, me, &neighbours, deadline)?;
            attend(&plan, me, farside_shm::Job::attach(file)?, &processes, None)
        }
    }
}

/// Hands this node's memory to its ranks. If one does not come, the node is given up.
fn hand_out(
    made: &Made,
    me: Rank,
    neighbours: &[Rank],
    deadline: &StartDeadline,
) -> Result<Processes> {
    let handed = made.offer.hand_out(neighbours, made.host.file(me), deadline);
    handed.map_err(|Missing { rank, error }| {
        call_off(&made.host, rank);
        error
    })
}

/// Gives a node up whose start has failed, and tells the others which rank is missing. Their ranks
/// may have started: after a silence they would blame the one that has made the interface here.
fn call_off(host: &Host, missing: Rank) {
    host.declare_lost(missing, ExitCause::Vanished);
    host.retire(QUIET);
}

fn start_timeout() -> Result<Duration> {
    let Some(text) = variable(START_TIMEOUT) else { return Ok(START) };
    let seconds = text.parse::<u64>().ok().filter(|&seconds| seconds > 0 && seconds < 1 << 24);
    seconds.map(Duration::from_secs).ok_or_else(|| {
        Error::InvalidSetting(format!("{START_TIMEOUT}={text:?}: expected a number of seconds"))
    })
}

/// What the first rank of a node has made.
struct Made {
    host: Arc<Host>,
    offer: Offer,
}

/// What it tells the others.
struct Note {
    /// The socket at which the memory is handed over.
    socket: String,
    interface: Option<Address>,
}

/// What the ranks have agreed on.
struct Meeting {
    plan: JobPlan,
    /// What this rank has made, if it is the first of its node.
    made: Option<Made>,
    /// The note of the rank that has made this node's memory.
    note: Note,
}

/// Agrees with the others on the plan; the first ranks of the nodes make what is in it.
fn meet(board: &mut Board) -> Result<Meeting> {
    let me = board.me();
    board.publish("card", &Card::here().encode()?)?;
    board.fence()?;
    if me == Rank(0) {
        let plan = plan(board).and_then(|plan| plan.encode());
        board.publish("plan", &plan.unwrap_or_else(|error| failure(&error)))?;
    }
    board.fence()?;
    let plan = JobPlan::decode(&good(board.read(Rank(0), "plan")?)?)?;
    let topology = plan.topology()?;
    let makers: Vec<Rank> = if plan.options.fabric == Kind::Shm {
        vec![Rank(0)]
    } else {
        (0..topology.nodes()).map(|node| topology.leader_of(Node(node))).collect::<Result<_>>()?
    };
    let maker = plan.neighbours(me)[0];
    let made = (maker == me).then(|| make(&plan, me));
    if let Some(made) = &made {
        let note = |made: &Made| {
            let interface = made.host.address().map(|address| address.to_string());
            format!("{} {}", made.offer.name, interface.unwrap_or_default())
        };
        board.publish("node", &made.as_ref().map_or_else(failure, note))?;
    }
    board.fence()?;
    let made = made.transpose()?;
    let note = read_note(board, maker)?;
    if let Some(made) = &made {
        let interfaces = makers.iter().map(|&maker| Ok(read_note(board, maker)?.interface));
        let interfaces = interfaces.collect::<Result<Vec<Option<Address>>>>()?;
        let interfaces: Vec<Address> = interfaces.into_iter().flatten().collect();
        check_reach(&plan, &interfaces)?;
        made.host.meet(&interfaces)?;
    }
    Ok(Meeting { plan, made, note })
}

/// Rank 0 decides for all.
fn plan(board: &mut Board) -> Result<JobPlan> {
    let cards = (0..board.ranks()).map(|rank| Card::decode(&board.read(Rank(rank), "card")?));
    let cards = cards.collect::<Result<Vec<Card>>>()?;
    JobPlan::decide(&cards, farside_nic::Key::random()?.bytes(), &variable)
}

fn make(plan: &JobPlan, me: Rank) -> Result<Made> {
    let host = if plan.options.fabric == Kind::Shm {
        Host::create(&plan.options_of(Node(0)))?
    } else {
        let node = plan.topology()?.node_of(me);
        let host = Host::node(plan, node, bind(plan, node)?)?;
        host.set_host(me);
        host
    };
    Ok(Made { host: Arc::new(host), offer: Offer::new()? })
}

/// Refuses addresses that do not reach each other: silence would be all that is seen of it.
fn check_reach(plan: &JobPlan, interfaces: &[Address]) -> Result<()> {
    let hosts = plan.hosts.iter().map(String::as_str).zip(interfaces.iter().map(Address::ip));
    let hosts: Vec<(&str, IpAddr)> = hosts.collect();
    address::check_reach(&hosts).map_err(|(at, why)| {
        let host = hosts[at].0;
        Error::Join(format!("host {host}: {why}; choose a network: {NETWORK}=10.1.0.0/16"))
    })
}

/// The address of this host that the others can reach.
fn bind(plan: &JobPlan, node: Node) -> Result<IpAddr> {
    let bad = |why: String| Error::Join(format!("{NETWORK}: {why}"));
    match variable(NETWORK) {
        Some(network) => address::within(&network).map_err(bad),
        None if plan.hosts.is_empty() => Ok(Ipv4Addr::LOCALHOST.into()),
        None => {
            let giving = format!("{NETWORK}=10.1.0.0/16, or an address");
            // These are different machines, whatever each calls itself.
            let named = |host: &String| if host == "localhost" { "" } else { host }.to_owned();
            let hosts: Vec<String> = plan.hosts.iter().map(named).collect();
            address::find(&hosts, node.0 as usize, None, &giving).map_err(Error::Join)
        }
    }
}

fn failure(error: &Error) -> String {
    format!("{FAILURE}{error}")
}

/// A note, or the failure that it tells of.
fn good(note: String) -> Result<String> {
    match note.strip_prefix(FAILURE) {
        Some(why) => Err(Error::Join(why.trim_start_matches("cannot join the job: ").to_owned())),
        None => Ok(note),
    }
}

fn read_note(board: &mut Board, maker: Rank) -> Result<Note> {
    let note = good(board.read(maker, "node")?)?;
    let damaged = || Error::Join(format!("the start-up message of {maker} is damaged: {note:?}"));
    let (socket, interface) = note.split_once(' ').ok_or_else(damaged)?;
    let interface =
        if interface.is_empty() { None } else { Some(interface.parse().map_err(|_| damaged())?) };
    Ok(Note { socket: socket.to_owned(), interface })
}

/// What a rank does besides, from when it has joined until it has left.
struct Attendance {
    me: Rank,
    job: Arc<farside_shm::Job>,
    /// What this rank has made, if it is the first of its node and others need it until all are
    /// done.
    serves: Option<Arc<Host>>,
    _watch: Watch,
}

/// Joins, and watches over the neighbours.
fn attend(
    plan: &JobPlan,
    me: Rank,
    job: Arc<farside_shm::Job>,
    processes: &Processes,
    host: Option<Arc<Host>>,
) -> Result<Box<dyn Connection>> {
    let maker = processes[0].0;
    let others: Processes = processes.iter().copied().filter(|(rank, _)| *rank != me).collect();
    let ended = {
        let (job, host, kind) = (job.clone(), host.clone(), plan.options.fabric);
        let near: Vec<Rank> = processes.iter().map(|(rank, _)| *rank).collect();
        move |rank: Rank| {
            host.iter().for_each(|host| host.note_end(rank));
            match (job.peer_state(rank), &host) {
                (PeerState::Left, _) => {}
                // A neighbour may have heard of it first, and cannot tell the other nodes.
                (PeerState::Lost(how), Some(host)) => host.declare_lost(rank, how),
                (_, Some(host)) => host.declare_lost(rank, ExitCause::Vanished),
                (_, None) => job.declare_lost(rank, ExitCause::Vanished),
            }
            if kind != Kind::Shm && rank == maker {
                // With it went the node's interface, and with that all ranks of other nodes.
                let cause = Loss { rank: maker, how: ExitCause::Vanished };
                let cause = first_cause(me, cause, |rank| job.departure(rank));
                let far = job.topology().all().iter().filter(|rank| !near.contains(rank));
                far.filter(|&&rank| !job.is_gone(rank)).for_each(|&rank| {
                    job.note_departure(rank, PeerState::Lost(ExitCause::Silent), Some(cause))
                });
            }
        }
    };
    let entered = Watch::start(&others, ended).and_then(|watch| {
        let serves = host.clone().filter(|_| plan.options.fabric != Kind::Shm);
        let attendance = Attendance { me, job: job.clone(), serves, _watch: watch };
        enter(plan.options.fabric, job.clone(), me, Some(Box::new(attendance)))
    });
    // The others would wait for a rank that lives and never joins.
    entered.inspect_err(|_| match &host {
        Some(host) => host.declare_lost(me, ExitCause::Failed),
        None => job.declare_lost(me, ExitCause::Failed),
    })
}

impl Drop for Attendance {
    fn drop(&mut self) {
        // A rank that unwinds is lost, and its node with it; to wait for others would only delay
        // the news. One that could not join would wait for itself.
        let has_joined = self.job.peer_state(self.me) != PeerState::Starting;
        let is_over = has_joined && !std::thread::panicking();
        if let Some(host) = self.serves.take().filter(|_| is_over) {
            self.job.await_everybody(self.me);
            host.retire(QUIET);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::NODES;

    /// A job of two nodes of two ranks each.
    fn two_nodes() -> JobPlan {
        let variables = |name: &str| (name == NODES).then(|| "2".to_owned());
        JobPlan::decide(&vec![Card::here(); 4], [7; 16], &variables).unwrap()
    }

    #[test]
    fn the_interface_of_a_node_is_part_of_the_process_that_has_made_it() {
        let plan = two_nodes();
        for maker in [Rank(0), Rank(2)] {
            assert_eq!(make(&plan, maker).unwrap().host.process(), Some(maker));
        }
        // That of a launcher outlives all ranks.
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert_eq!(Host::node(&plan, Node(0), here).unwrap().process(), None);
    }

    #[test]
    fn other_nodes_hear_which_rank_is_missing() {
        let plan = two_nodes();
        let made = [0, 2].map(|maker| make(&plan, Rank(maker)).unwrap());
        let addresses: Vec<Address> = made.iter().filter_map(|it| it.host.address()).collect();
        made.iter().for_each(|it| it.host.meet(&addresses).unwrap());
        // Rank 1 was killed before it came.
        let launcher = Launcher::Pmi1 { socket: -1, rank: 0, size: 4 };
        let soon = launcher.start_deadline(Duration::from_millis(50), "A_VARIABLE", &|_| None);
        let error = hand_out(&made[0], Rank(0), &plan.neighbours(Rank(0)), &soon).unwrap_err();
        assert!(error.to_string().contains("rank 1"), "{error}");
        let begun = Instant::now();
        let other = made[1].host.memory(Rank(2));
        while other.peer_state(Rank(1)) != PeerState::Lost(ExitCause::Vanished) {
            assert!(begun.elapsed() < Duration::from_secs(30), "nobody has told");
            std::thread::yield_now();
        }
    }
}
