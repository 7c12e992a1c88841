//! The agent: a thread that runs handlers for the ranks of its node, so that the ranks need not.
//!
//! Every rank that has registered handlers has one, in its own process; the agent of one rank at a
//! time runs them, the others sleep until it is their turn (`succession` says whose it is). A call
//! is a slot of its caller's: the caller fills it, sets the slot's bit, rings the agent's bell; the
//! agent runs the handler, leaves the reply in the slot and rings the caller's. There is no queue
//! that a dying caller could leave in an inconsistent state: its bits are set, or not.
//!
//! State:     of each slot its state and the rank whose process executes it; of each node a bit for
//!            each slot that waits, and which slot is being executed.
//! Invariant: a call is executed once, or its caller gets an error: a slot goes from asked to
//!            running in one step, by the agent whose turn it is, and nobody makes it asked again
//!            but its caller.
//! Ordering:  the agent first writes down which slot it is at, then clears the slot's bit, then
//!            marks the slot as running. So whoever takes over from a process that was killed finds
//!            every call: by its bit, or by what was written down. One that was running may have
//!            been executed in part: its caller is told, and it is not executed again. One that was
//!            only asked is executed now.

use std::cell::Cell;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use farside_fabric::lock::lock;
use farside_fabric::observed::{Kind, Operation};
use farside_fabric::record::RingProbe;
use farside_fabric::tracing::Server;
use farside_fabric::{
    Effort, Error, ExitCause, Handler, HandlerId, Loss, Mapped, Node, PeerState, Rank, Reply,
    Result, first_cause,
};

use crate::bell::ANYTHING;
use crate::layout::{CALL_BYTES, CALL_SLOTS, CallSlot};
use crate::machine::now_ns;
use crate::memory::Job;
use crate::succession::{FAILED, READY, STOPPED, Turn};
use crate::waiting::{self, Site};

/// The states of a slot.
pub(crate) const FREE: u32 = 0;
const ASKED: u32 = 1;
const ANSWERED: u32 = 2;
const NO_HANDLER: u32 = 3;
const PANICKED: u32 = 4;
const REPLY_TOO_LONG: u32 = 5;
const RUNNING: u32 = 6;
/// The rank that ran it, or would have, is gone: the reply says which and how it ended.
const GONE: u32 = 7;
/// Whoever took over cannot run handlers: the reply is the system's error.
const REFUSED: u32 = 8;

/// What a fabric that reaches further adds to the agent that lives with a rank.
pub trait Surroundings: Send + Sync {
    /// What the handlers of an agent that is about to start can reach, and whom to tell of calls
    /// that they have answered.
    fn start(&self) -> Result<Neighbourhood>;
}

/// What an agent is given.
pub struct Neighbourhood {
    /// What its handlers can reach.
    pub reach: Box<dyn farside_fabric::Agent + Send>,
    /// Called with who had asked, whenever a call was answered.
    pub answered: Box<dyn Fn(Rank) + Send>,
}

type Handlers = Mutex<HashMap<HandlerId, Handler>>;

/// The thread and what it shares with the rank it lives with.
pub(crate) struct Agent {
    duty: Arc<Duty>,
    thread: Option<JoinHandle<()>>,
}

struct Duty {
    handlers: Handlers,
    stop: AtomicBool,
    job: Arc<Job>,
    rank: Rank,
    node: Node,
    surroundings: Arc<dyn Surroundings>,
    /// Records the calls that it executes, if the job is recorded.
    recorder: Option<RingProbe>,
}

impl Agent {
    pub(crate) fn start(
        job: Arc<Job>,
        rank: Rank,
        surroundings: Arc<dyn Surroundings>,
    ) -> Result<Agent> {
        if job.serving(rank).load(Ordering::SeqCst) == FAILED {
            // Another may run the handlers since.
            return Err(Error::InvalidState(format!(
                "the agent of {rank} failed to start earlier; start the job again"
            )));
        }
        let node = job.topology().node_of(rank);
        let (handlers, stop) = (Handlers::default(), AtomicBool::new(false));
        let ring = job.service_ring(Server::Handlers(node));
        let recorder = ring.map(|ring| RingProbe { ring, now_ns });
        let duty = Arc::new(Duty { handlers, stop, job, rank, node, surroundings, recorder });
        let begun = duty.begin();
        duty.job.serving(rank).store(if begun.is_ok() { READY } else { FAILED }, Ordering::SeqCst);
        // If this one cannot, it may be another's turn.
        duty.job.standby_bell(node).ring();
        Ok(Agent { thread: Some(begun?), duty })
    }

    pub(crate) fn register(&self, id: HandlerId, run: Handler) {
        lock(&self.duty.handlers).insert(id, run);
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let Duty { job, node, rank, stop, .. } = &*self.duty;
        stop.store(true, Ordering::SeqCst);
        job.agent_bell(*node).ring();
        job.standby_bell(*node).ring();
        if let Some(thread) = self.thread.take() {
            // The thread catches the panics of handlers; should it have died all the same, there is
            // nobody to tell.
            let _ = thread.join();
        }
        // No thread of this rank runs a handler any more: the next may.
        job.serving(*rank).store(STOPPED, Ordering::SeqCst);
        job.standby_bell(*node).ring();
    }
}

pub(crate) fn is_waiting(state: u32) -> bool {
    matches!(state, ASKED | RUNNING)
}

/// Fills a slot and wakes the agent.
pub(crate) fn ask(job: &Arc<Job>, index: u32, node: Node, handler: HandlerId, argument: &[u8]) {
    let (slot, memory) = job.call_slot(index);
    let written = memory.put(0, argument);
    debug_assert!(written);
    slot.bytes.store(argument.len() as u64, Ordering::Relaxed);
    slot.handler.store(handler.0, Ordering::Relaxed);
    slot.node.store(node.0, Ordering::Relaxed);
    slot.state.store(ASKED, Ordering::Release);
    announce(job, node, index);
    job.agent_bell(node).ring_if_watched(ANYTHING);
}

/// Sets the bit of a slot that waits.
fn announce(job: &Job, node: Node, index: u32) {
    job.waiting_calls(node)[index as usize / 64].fetch_or(1 << (index % 64), Ordering::SeqCst);
}

/// How long the reply in a slot is, or would have been, and the reply.
pub(crate) fn read_reply(slot: &CallSlot, memory: &Mapped) -> (u64, Vec<u8>) {
    let bytes = slot.bytes.load(Ordering::Relaxed);
    let mut reply = vec![0; bytes.min(CALL_BYTES) as usize];
    let read = memory.get(0, &mut reply);
    debug_assert!(read);
    (bytes, reply)
}

pub(crate) fn outcome(
    state: u32,
    node: Node,
    handler: HandlerId,
    bytes: u64,
    reply: Vec<u8>,
) -> Result<Reply> {
    match state {
        ANSWERED => Ok(Reply::Bytes(reply)),
        NO_HANDLER => Err(Error::NoHandler { node, handler: handler.0 }),
        REPLY_TOO_LONG => {
            Err(Error::TooMuch { what: "bytes of a call's reply", value: bytes, limit: CALL_BYTES })
        }
        GONE => {
            Err(decode_gone(&reply)
                .map_or(Error::NoHandler { node, handler: handler.0 }, Loss::error))
        }
        REFUSED => {
            let errno = reply.first_chunk().map_or(0, |bytes| i32::from_le_bytes(*bytes));
            Err(Error::System {
                call: "opening the network for handlers that another rank ran before",
                errno,
            })
        }
        _ => Err(Error::HandlerPanicked { node, handler: handler.0 }),
    }
}

/// Why nobody ran a call: the first cause of the end of the one who did, or would have. The caller
/// may not have heard of either.
fn encode_gone(job: &Job, caller: Rank, runner: Rank) -> Vec<u8> {
    let how = job.departure(runner).lost().unwrap_or(ExitCause::Left);
    let loss = first_cause(caller, Loss { rank: runner, how }, |rank| job.departure(rank));
    loss.to_bits().to_le_bytes().to_vec()
}

fn decode_gone(bytes: &[u8]) -> Option<Loss> {
    Loss::from_bits(u64::from_le_bytes(*bytes.first_chunk()?))
}

/// What an agent has answered to a caller that is elsewhere; [`FarAnswer::outcome`] says what it
/// means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FarAnswer {
    /// How the call went: a code that only this crate understands.
    pub state: u32,
    /// The reply; if it was too long, as much as there is room for.
    pub reply: Vec<u8>,
}

impl FarAnswer {
    fn nobody() -> FarAnswer {
        FarAnswer { state: NO_HANDLER, reply: Vec::new() }
    }

    /// What it means to the caller, who had asked for `handler` of `node`.
    pub fn outcome(self, node: Node, handler: HandlerId) -> Result<Reply> {
        let bytes = self.reply.len() as u64;
        outcome(
            self.state,
            node,
            handler,
            bytes + u64::from(self.state == REPLY_TOO_LONG),
            self.reply,
        )
    }
}

/// Calls of ranks that do not map this memory, made on their behalf in slots that nobody else uses.
impl Job {
    /// How many calls such a rank may have under way here.
    pub const FAR_CALLS: u32 = CALL_SLOTS;
    /// The longest argument.
    pub const CALL_BYTES: u64 = CALL_BYTES;

    /// Asks the agent of `node` for `caller`. If there is none, or if the numbers are out of range,
    /// that is the answer.
    pub fn ask(
        self: &Arc<Job>,
        node: Node,
        caller: Rank,
        slot: u32,
        handler: HandlerId,
        argument: &[u8],
    ) -> Option<FarAnswer> {
        let good =
            caller.0 < self.ranks() && slot < CALL_SLOTS && argument.len() as u64 <= CALL_BYTES;
        match self.turn(node) {
            Turn::Of(_) if good => {
                ask(self, caller.0 * CALL_SLOTS + slot, node, handler, argument);
                None
            }
            Turn::Over(rank) => {
                Some(FarAnswer { state: GONE, reply: encode_gone(self, caller, rank) })
            }
            _ => Some(FarAnswer::nobody()),
        }
    }

    /// The answer, if there is one.
    pub fn answer(self: &Arc<Job>, caller: Rank, slot: u32) -> Option<FarAnswer> {
        let index = caller.0 * CALL_SLOTS + slot;
        let (slot, memory) = self.call_slot(index);
        let state = slot.state.load(Ordering::SeqCst);
        (!is_waiting(state) && state != FREE)
            .then(|| FarAnswer { state, reply: read_reply(slot, &memory).1 })
    }
}

/// What runs handlers, or the error that keeps this process from running any.
type Office = std::result::Result<Neighbourhood, i32>;

impl Duty {
    /// Starts the thread. If it is this rank's turn already, whatever the handlers need is there
    /// before that.
    fn begin(self: &Arc<Duty>) -> Result<JoinHandle<()>> {
        let opened =
            if self.job.is_turn_of(self.rank) { Some(self.surroundings.start()?) } else { None };
        let duty = self.clone();
        let run = move || duty.run(opened);
        std::thread::Builder::new().name("farside-agent".into()).spawn(run).map_err(|error| {
            Error::System {
                call: "starting the agent's thread",
                errno: error.raw_os_error().unwrap_or(0),
            }
        })
    }

    fn run(&self, opened: Option<Neighbourhood>) {
        if !self.await_turn() {
            return;
        }
        let open = || {
            self.surroundings.start().map_err(|error| match error {
                Error::System { errno, .. } => errno,
                _ => 0,
            })
        };
        let office = opened.map_or_else(open, Ok);
        self.take_over();
        self.serve(&office);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Sleeps until it is this rank's turn. False if it never will be, because the rank leaves.
    fn await_turn(&self) -> bool {
        let bell = self.job.standby_bell(self.node);
        let effort = Cell::new(Effort::default());
        loop {
            let known = self.job.failures().departures.load(Ordering::SeqCst);
            let over = || (self.is_stopped() || self.job.is_turn_of(self.rank)).then_some(());
            waiting::wait(Site::until_told(&self.job, bell, known), over, &effort);
            if self.is_stopped() {
                return false;
            }
            if self.job.is_turn_of(self.rank) {
                return true;
            }
        }
    }

    /// Sees to the call that the one before may have been at when its process was killed.
    fn take_over(&self) {
        let executing = self.job.executing(self.node);
        let Some(index) = executing.load(Ordering::SeqCst).checked_sub(1) else { return };
        let (slot, memory) = self.job.call_slot(index);
        match slot.state.load(Ordering::SeqCst) {
            ASKED => announce(&self.job, self.node, index),
            RUNNING => {
                let runner = Rank(slot.runner.load(Ordering::Relaxed));
                let caller = Rank(index / CALL_SLOTS);
                answer(slot, &memory, Ok(encode_gone(&self.job, caller, runner)), GONE);
                self.job.bell(caller).ring_if_watched(ANYTHING);
            }
            _ => {}
        }
        executing.store(0, Ordering::SeqCst);
    }

    /// Executes calls until the rank leaves.
    fn serve(&self, office: &Office) {
        let Duty { job, node, .. } = self;
        let effort = Cell::new(Effort::default());
        let calls = job.waiting_calls(*node);
        loop {
            let known = job.failures().departures.load(Ordering::SeqCst);
            let wanted = || {
                let asked =
                    self.is_stopped() || calls.iter().any(|word| word.load(Ordering::SeqCst) != 0);
                asked.then_some(())
            };
            let site = Site::until_told(job, job.agent_bell(*node), known);
            waiting::wait(Site { soon: true, ..site }, wanted, &effort);
            for (at, word) in calls.iter().enumerate() {
                let mut bits = word.load(Ordering::SeqCst);
                while bits != 0 && !self.is_stopped() {
                    let bit = bits.trailing_zeros();
                    bits &= bits - 1;
                    self.execute(office, at as u32 * 64 + bit);
                }
            }
            if self.is_stopped() {
                return;
            }
        }
    }

    /// Executes the call of a slot whose bit is set.
    fn execute(&self, office: &Office, index: u32) {
        let Duty { job, node, .. } = self;
        let (slot, memory) = job.call_slot(index);
        let caller = Rank(index / CALL_SLOTS);
        job.executing(*node).store(index + 1, Ordering::SeqCst);
        job.waiting_calls(*node)[index as usize / 64]
            .fetch_and(!(1 << (index % 64)), Ordering::SeqCst);
        slot.runner.store(self.rank.0, Ordering::Relaxed);
        if slot.state.compare_exchange(ASKED, RUNNING, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            // Nobody waits for what the lost have asked. Those who go on without them rely on it
            // that it is not done any more.
            let result = match job.peer_state(caller) {
                PeerState::Lost(_) => Err(NO_HANDLER),
                _ => {
                    let begun = self.recorder.as_ref().map(|recorder| {
                        let (kind, peer) = (Kind::Call, Some(caller));
                        let bytes = slot.bytes.load(Ordering::Relaxed);
                        recorder.serve(&Operation { kind, peer, bytes }, Some(self.rank))
                    });
                    let result = self.run_handler(office, (slot, &memory), caller);
                    self.recorder.iter().zip(begun).for_each(|(recorder, at)| recorder.served(at));
                    result
                }
            };
            let refused = result.as_ref().is_ok_and(|_| office.is_err());
            answer(slot, &memory, result, if refused { REFUSED } else { ANSWERED });
            job.bell(caller).ring_if_watched(ANYTHING);
        }
        job.executing(*node).store(0, Ordering::SeqCst);
        if let Ok(neighbourhood) = office {
            (neighbourhood.answered)(caller);
        }
    }

    /// The reply, or the state that says why there is none.
    fn run_handler(
        &self,
        office: &Office,
        (slot, memory): (&CallSlot, &Mapped),
        caller: Rank,
    ) -> std::result::Result<Vec<u8>, u32> {
        let neighbourhood = match office {
            Ok(neighbourhood) => neighbourhood,
            Err(errno) => return Ok(errno.to_le_bytes().to_vec()),
        };
        let id = HandlerId(slot.handler.load(Ordering::Relaxed));
        let mut argument = vec![0; slot.bytes.load(Ordering::Relaxed).min(CALL_BYTES) as usize];
        let read = memory.get(0, &mut argument);
        debug_assert!(read);
        match lock(&self.handlers).get_mut(&id) {
            None => Err(NO_HANDLER),
            Some(run) => {
                let run = AssertUnwindSafe(|| run(&*neighbourhood.reach, caller, &argument));
                std::panic::catch_unwind(run).map_err(|_| PANICKED)
            }
        }
    }
}

/// Leaves an answer in a slot: the reply in the state `good`, or the state that stands in its
/// place.
fn answer(slot: &CallSlot, memory: &Mapped, result: std::result::Result<Vec<u8>, u32>, good: u32) {
    let state = match result {
        Ok(reply) => {
            slot.bytes.store(reply.len() as u64, Ordering::Relaxed);
            if memory.put(0, &reply) { good } else { REPLY_TOO_LONG }
        }
        Err(state) => {
            slot.bytes.store(0, Ordering::Relaxed);
            state
        }
    };
    slot.state.swap(state, Ordering::SeqCst);
}
