//! The agent: a thread that runs handlers for the ranks of its node, so that the ranks need not.
//!
//! It lives in the process of the node's first rank, whose program has registered the handlers. A call is a slot of its caller's:
//! the caller fills it, sets the slot's bit, rings the agent's bell; the agent runs the handler, leaves the reply in the slot and rings
//! the caller's. There is no queue that a dying caller could leave in an inconsistent state: its bits are set, or not.

use std::cell::Cell;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use farside_fabric::{Effort, Error, Handler, HandlerId, Mapped, Node, Rank, Reply, Result, Ticket};

use crate::bell::ANYTHING;
use crate::endpoint::Neighbourhood;
use crate::memory::{CALL_BYTES, CALL_SLOTS, CallSlot, Job};
use crate::waiting;

/// The states of a slot.
const FREE: u32 = 0;
const ASKED: u32 = 1;
const ANSWERED: u32 = 2;
const NO_HANDLER: u32 = 3;
const PANICKED: u32 = 4;
const REPLY_TOO_LONG: u32 = 5;

type Handlers = Mutex<HashMap<HandlerId, Handler>>;

/// The thread and what it shares with the rank it lives with.
pub(crate) struct Agent {
    handlers: Arc<Handlers>,
    stop: Arc<AtomicBool>,
    job: Arc<Job>,
    node: Node,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    pub(crate) fn start(job: Arc<Job>, node: Node, neighbourhood: Neighbourhood) -> Result<Agent> {
        let handlers: Arc<Handlers> = Arc::default();
        let stop = Arc::new(AtomicBool::new(false));
        let run = {
            let (job, handlers, stop) = (job.clone(), handlers.clone(), stop.clone());
            move || serve(&job, node, &handlers, &stop, &neighbourhood)
        };
        let thread = std::thread::Builder::new().name("farside-agent".into()).spawn(run).map_err(|error| {
            Error::System { call: "starting the agent's thread", errno: error.raw_os_error().unwrap_or(0) }
        })?;
        job.agent_is_there(node).store(1, Ordering::SeqCst);
        Ok(Agent { handlers, stop, job, node, thread: Some(thread) })
    }

    pub(crate) fn register(&self, id: HandlerId, run: Handler) {
        lock(&self.handlers).insert(id, run);
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.job.agent_is_there(self.node).store(0, Ordering::SeqCst);
        self.stop.store(true, Ordering::SeqCst);
        self.job.agent_bell(self.node).ring();
        if let Some(thread) = self.thread.take() {
            // The thread catches the panics of handlers; should it have died all the same, there is nobody to tell.
            let _ = thread.join();
        }
    }
}

/// Which slots of a rank are free. Shared by the contexts of the rank.
pub(crate) struct Calls {
    slots: Mutex<Slots>,
    /// Told when a slot becomes free.
    freed: Condvar,
}

#[derive(Default)]
struct Slots {
    free: Vec<u32>,
    /// Slots of calls that were given up: free as soon as the agent has answered.
    abandoned: Vec<u32>,
}

/// How long a call waits for a slot before it looks whether the agent still lives.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl Calls {
    pub(crate) fn new(rank: Rank) -> Calls {
        let first = rank.0 * CALL_SLOTS;
        let slots = Slots { free: (first..first + CALL_SLOTS).collect(), abandoned: Vec::new() };
        Calls { slots: Mutex::new(slots), freed: Condvar::new() }
    }

    /// Takes a free slot. When other threads of the rank have all of them, waits until one is done.
    fn take(&self, job: &Arc<Job>, alive: &dyn Fn() -> Result<()>) -> Result<u32> {
        let mut slots = lock(&self.slots);
        loop {
            let Slots { free, abandoned } = &mut *slots;
            abandoned.retain(|&index| {
                let answered = Calls::is_done(job, Ticket(index.into()));
                if answered {
                    free.push(index);
                }
                !answered
            });
            if let Some(index) = slots.free.pop() {
                return Ok(index);
            }
            alive()?;
            let waited = self.freed.wait_timeout(slots, LOOK_AGAIN);
            slots = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }

    /// Gives up on a call: its slot is used again once the agent has answered.
    pub(crate) fn abandon(&self, ticket: Ticket) {
        lock(&self.slots).abandoned.push(ticket.0 as u32);
    }

    /// Fills a slot and wakes the agent. `alive` says whether there is still somebody to answer.
    pub(crate) fn begin(
        &self,
        job: &Arc<Job>,
        node: Node,
        handler: HandlerId,
        bytes: &[u8],
        alive: &dyn Fn() -> Result<()>,
    ) -> Result<Ticket> {
        if bytes.len() as u64 > CALL_BYTES {
            return Err(Error::TooMuch {
                what: "bytes of a call's argument",
                value: bytes.len() as u64,
                limit: CALL_BYTES,
            });
        }
        let index = self.take(job, alive)?;
        ask(job, index, node, handler, bytes);
        Ok(Ticket(index.into()))
    }

    /// Whether the agent is done with the call.
    pub(crate) fn is_done(job: &Arc<Job>, ticket: Ticket) -> bool {
        job.call_slot(ticket.0 as u32).0.state.load(Ordering::SeqCst) != ASKED
    }

    /// The reply, if the agent is done; the slot is free then.
    pub(crate) fn finish(&self, job: &Arc<Job>, rank: Rank, ticket: Ticket) -> Result<Option<Reply>> {
        let index = ticket.0 as u32;
        let (slot, memory) = job.call_slot(index);
        if ticket.0 / u64::from(CALL_SLOTS) != u64::from(rank.0) || slot.state.load(Ordering::SeqCst) == FREE {
            return Err(Error::Misuse(format!("{ticket:?} names no call that is under way from {rank}")));
        }
        let state = slot.state.load(Ordering::SeqCst);
        if state == ASKED {
            return Ok(None);
        }
        let (node, handler) =
            (Node(slot.node.load(Ordering::Relaxed)), HandlerId(slot.handler.load(Ordering::Relaxed)));
        let (bytes, reply) = read_reply(slot, &memory);
        slot.state.store(FREE, Ordering::SeqCst);
        lock(&self.slots).free.push(index);
        self.freed.notify_one();
        outcome(state, node, handler, bytes, reply).map(Some)
    }
}

/// Fills a slot and wakes the agent.
fn ask(job: &Arc<Job>, index: u32, node: Node, handler: HandlerId, argument: &[u8]) {
    let (slot, memory) = job.call_slot(index);
    let written = memory.put(0, argument);
    debug_assert!(written);
    slot.bytes.store(argument.len() as u64, Ordering::Relaxed);
    slot.handler.store(handler.0, Ordering::Relaxed);
    slot.node.store(node.0, Ordering::Relaxed);
    slot.state.store(ASKED, Ordering::Release);
    job.waiting_calls(node)[index as usize / 64].fetch_or(1 << (index % 64), Ordering::SeqCst);
    job.agent_bell(node).ring_if_watched(ANYTHING);
}

/// How long the reply in a slot is, or would have been, and the reply.
fn read_reply(slot: &CallSlot, memory: &Mapped) -> (u64, Vec<u8>) {
    let bytes = slot.bytes.load(Ordering::Relaxed);
    let mut reply = vec![0; bytes.min(CALL_BYTES) as usize];
    let read = memory.get(0, &mut reply);
    debug_assert!(read);
    (bytes, reply)
}

/// What a call comes to, from the state that the agent has left.
fn outcome(state: u32, node: Node, handler: HandlerId, bytes: u64, reply: Vec<u8>) -> Result<Reply> {
    match state {
        ANSWERED => Ok(Reply::Bytes(reply)),
        NO_HANDLER => Err(Error::NoHandler { node, handler: handler.0 }),
        REPLY_TOO_LONG => Err(Error::TooMuch { what: "bytes of a call's reply", value: bytes, limit: CALL_BYTES }),
        _ => Err(Error::HandlerPanicked { node, handler: handler.0 }),
    }
}

/// What an agent has answered to a caller that is elsewhere; [`FarAnswer::outcome`] says what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FarAnswer {
    /// How the call went: a code that only this crate understands.
    pub state: u32,
    /// The reply; if it was too long, as much as there is room for.
    pub reply: Vec<u8>,
}

impl FarAnswer {
    /// Nobody serves here.
    pub fn nobody() -> FarAnswer {
        FarAnswer { state: NO_HANDLER, reply: Vec::new() }
    }

    /// What it means to the caller, who had asked for `handler` of `node`.
    pub fn outcome(self, node: Node, handler: HandlerId) -> Result<Reply> {
        let bytes = self.reply.len() as u64;
        outcome(self.state, node, handler, bytes + u64::from(self.state == REPLY_TOO_LONG), self.reply)
    }
}

/// Calls of ranks that do not map this memory, made on their behalf in slots that nobody else uses.
impl Job {
    /// How many calls such a rank may have under way here.
    pub const FAR_CALLS: u32 = CALL_SLOTS;
    /// The longest argument.
    pub const CALL_BYTES: u64 = CALL_BYTES;

    /// Asks the agent of `node` for `caller`. False if there is none, or if the numbers are out of range.
    #[must_use]
    pub fn ask(self: &Arc<Job>, node: Node, caller: Rank, slot: u32, handler: HandlerId, argument: &[u8]) -> bool {
        let good = caller.0 < self.ranks() && slot < CALL_SLOTS && argument.len() as u64 <= CALL_BYTES;
        if !good || self.agent_is_there(node).load(Ordering::SeqCst) == 0 {
            return false;
        }
        ask(self, caller.0 * CALL_SLOTS + slot, node, handler, argument);
        true
    }

    /// The answer, if there is one.
    pub fn answer(self: &Arc<Job>, caller: Rank, slot: u32) -> Option<FarAnswer> {
        let index = caller.0 * CALL_SLOTS + slot;
        let (slot, memory) = self.call_slot(index);
        let state = slot.state.load(Ordering::SeqCst);
        (state != ASKED && state != FREE).then(|| FarAnswer { state, reply: read_reply(slot, &memory).1 })
    }
}

/// The agent's life.
fn serve(job: &Arc<Job>, node: Node, handlers: &Handlers, stop: &AtomicBool, neighbourhood: &Neighbourhood) {
    let effort = Cell::new(Effort::default());
    let calls = job.waiting_calls(node);
    loop {
        let known = job.alarm().departures.load(Ordering::SeqCst);
        let wanted = || {
            let asked = stop.load(Ordering::SeqCst) || calls.iter().any(|word| word.load(Ordering::SeqCst) != 0);
            asked.then_some(())
        };
        waiting::wait(job, (job.agent_bell(node), ANYTHING), wanted, known, (None, true), &effort);
        for (at, word) in calls.iter().enumerate() {
            let mut bits = word.swap(0, Ordering::SeqCst);
            while bits != 0 {
                let bit = bits.trailing_zeros();
                bits &= bits - 1;
                serve_one(job, handlers, neighbourhood, at as u32 * 64 + bit);
            }
        }
        if stop.load(Ordering::SeqCst) {
            return;
        }
    }
}

fn serve_one(job: &Arc<Job>, handlers: &Handlers, neighbourhood: &Neighbourhood, index: u32) {
    let (slot, memory) = job.call_slot(index);
    let caller = Rank(index / CALL_SLOTS);
    let id = HandlerId(slot.handler.load(Ordering::Relaxed));
    let mut argument = vec![0; slot.bytes.load(Ordering::Relaxed).min(CALL_BYTES) as usize];
    let read = memory.get(0, &mut argument);
    debug_assert!(read);
    let result = match lock(handlers).get_mut(&id) {
        None => Err(NO_HANDLER),
        Some(run) => std::panic::catch_unwind(AssertUnwindSafe(|| run(&*neighbourhood.reach, caller, &argument)))
            .map_err(|_| PANICKED),
    };
    let state = match result {
        Ok(reply) => {
            slot.bytes.store(reply.len() as u64, Ordering::Relaxed);
            if memory.put(0, &reply) { ANSWERED } else { REPLY_TOO_LONG }
        }
        Err(state) => {
            slot.bytes.store(0, Ordering::Relaxed);
            state
        }
    };
    slot.state.swap(state, Ordering::SeqCst);
    job.bell(caller).ring_if_watched(ANYTHING);
    (neighbourhood.answered)(caller);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is done under these locks can panic half-way, except a handler, which is caught.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
