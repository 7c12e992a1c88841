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

use farside_fabric as fabric;
use farside_fabric::{Atomic, Effort, Error, Handler, HandlerId, Node, Rank, Region, Reply, Result, Ticket, Word};

use crate::bell::ANYTHING;
use crate::endpoint;
use crate::memory::{CALL_BYTES, CALL_SLOTS, Job};
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
    pub(crate) fn start(job: Arc<Job>, node: Node) -> Result<Agent> {
        let handlers: Arc<Handlers> = Arc::default();
        let stop = Arc::new(AtomicBool::new(false));
        let run = {
            let (job, handlers, stop) = (job.clone(), handlers.clone(), stop.clone());
            move || serve(&job, node, &handlers, &stop)
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
        let (slot, memory) = job.call_slot(index);
        let written = memory.put(0, bytes);
        debug_assert!(written);
        slot.bytes.store(bytes.len() as u64, Ordering::Relaxed);
        slot.handler.store(handler.0, Ordering::Relaxed);
        slot.node.store(node.0, Ordering::Relaxed);
        slot.state.store(ASKED, Ordering::Release);
        job.waiting_calls(node)[index as usize / 64].fetch_or(1 << (index % 64), Ordering::SeqCst);
        job.agent_bell(node).ring_if_watched(ANYTHING);
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
        let (node, handler) = (Node(slot.node.load(Ordering::Relaxed)), slot.handler.load(Ordering::Relaxed));
        let bytes = slot.bytes.load(Ordering::Relaxed);
        let mut reply = vec![0; bytes.min(CALL_BYTES) as usize];
        let read = memory.get(0, &mut reply);
        debug_assert!(read);
        slot.state.store(FREE, Ordering::SeqCst);
        lock(&self.slots).free.push(index);
        self.freed.notify_one();
        match state {
            ANSWERED => Ok(Some(Reply::Bytes(reply))),
            NO_HANDLER => Err(Error::NoHandler { node, handler }),
            REPLY_TOO_LONG => Err(Error::TooMuch { what: "bytes of a call's reply", value: bytes, limit: CALL_BYTES }),
            _ => Err(Error::HandlerPanicked { node, handler }),
        }
    }
}

/// The agent's life.
fn serve(job: &Arc<Job>, node: Node, handlers: &Handlers, stop: &AtomicBool) {
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
                serve_one(job, node, handlers, at as u32 * 64 + bit);
            }
        }
        if stop.load(Ordering::SeqCst) {
            return;
        }
    }
}

fn serve_one(job: &Arc<Job>, node: Node, handlers: &Handlers, index: u32) {
    let (slot, memory) = job.call_slot(index);
    let caller = Rank(index / CALL_SLOTS);
    let id = HandlerId(slot.handler.load(Ordering::Relaxed));
    let mut argument = vec![0; slot.bytes.load(Ordering::Relaxed).min(CALL_BYTES) as usize];
    let read = memory.get(0, &mut argument);
    debug_assert!(read);
    let reach = Reach { job, node };
    let result = match lock(handlers).get_mut(&id) {
        None => Err(NO_HANDLER),
        Some(run) => {
            std::panic::catch_unwind(AssertUnwindSafe(|| run(&reach, caller, &argument))).map_err(|_| PANICKED)
        }
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
}

/// What a handler can reach: everything, since all ranks of this fabric share memory.
struct Reach<'a> {
    job: &'a Arc<Job>,
    node: Node,
}

impl fabric::Agent for Reach<'_> {
    fn node(&self) -> Node {
        self.node
    }

    fn atomic(&self, at: Word, op: Atomic) -> Result<u128> {
        endpoint::execute(self.job, at, op)
    }

    fn post(&self, at: Word, op: Atomic) -> Result<()> {
        endpoint::execute(self.job, at, op).map(|_| ())
    }

    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()> {
        endpoint::write(self.job, to, bytes)
    }

    fn put_signal(&self, to: &Region<'_>, bytes: &[u8], at: Word, op: Atomic) -> Result<()> {
        endpoint::write(self.job, to, bytes)?;
        // The atomic orders the bytes before itself.
        endpoint::execute(self.job, at, op).map(|_| ())
    }

    fn get(&self, from: &Region<'_>, into: &mut [u8]) -> Result<()> {
        endpoint::read(self.job, from, into)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is done under these locks can panic half-way, except a handler, which is caught.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
