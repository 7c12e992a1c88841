//! A port: where a thread's operations leave for other nodes, and where their answers arrive.
//!
//! It belongs to the thread whose operations it carries, lives in that thread's process, and is
//! driven by that thread whenever it posts or waits: no other thread has to wake up for an
//! operation to be sent or completed. While the thread computes, the rank's
//! [progress](crate::initiator::progress) thread drives it, seldom; or all the time, as long as a transfer is
//! [entrusted](Port::entrust) to it: then the thread that waits does nothing but sleep. What a rank
//! that dies leaves behind here is nobody else's.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar};
use std::time::Duration;

use farside_fabric::{Error, HandlerId, Node, Rank, Reply, Result, SegmentId, Ticket};
use farside_shm::{FarAnswer, Reach};
use rustc_hash::FxHashMap;

use crate::initiator::fragments::Cut;
use crate::initiator::origin::{Origin, Wire};
use crate::transport::direct::{Notice, Owed};
use crate::transport::udp::now_ns;
use crate::transport::{Line, Route};
use crate::wire::ServerId;
use crate::wire::request::Request;

/// How many datagrams are read before anything else is done.
const READ_AT_ONCE: u32 = 64;
/// The longest datagram there is.
const DATAGRAM_BYTES: usize = 1 << 16;
/// How long a call may take before the far agent is asked for its answer again.
const RECALL_AFTER: Duration = Duration::from_millis(50);

/// A port with its line.
pub(crate) struct Port {
    pub(crate) origin: Origin,
    line: Arc<dyn Line>,
    /// Where each server is.
    routes: Vec<Option<Route>>,
    /// The node that it is on, and what wakes the ranks there.
    here: (Node, Reach),
    calls: FxHashMap<(ServerId, u32), Call>,
    buffer: Box<[u8]>,
    /// The transfers that the progress thread sees to.
    entrusted: Vec<Entrusted>,
    /// How many times somebody on this host has asked to look.
    bells: u64,
    /// Whether the progress thread sleeps although something is entrusted to it.
    pub(crate) driver_sleeps: bool,
    /// Where the port's thread sleeps while transfers are entrusted.
    pub(crate) told: Arc<Condvar>,
    /// Not zero while the port's thread waits for the port: whoever drives it then lets go after
    /// the next datagram.
    pub(crate) wanted: Arc<AtomicU32>,
}

/// A transfer that the progress thread sees to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Entrusted {
    /// One of the agents' answers.
    Answered(Ticket),
    /// One that goes past the agents.
    Direct(u64),
}

/// A call under way.
struct Call {
    node: Node,
    handler: HandlerId,
    answer: Option<FarAnswer>,
    recall_ns: u64,
    recalls: u32,
}

impl Port {
    pub(crate) fn new(
        origin: Origin,
        line: Arc<dyn Line>,
        routes: Vec<Option<Route>>,
        here: (Node, Reach),
    ) -> Port {
        let buffer = vec![0; DATAGRAM_BYTES].into_boxed_slice();
        Port {
            origin,
            line,
            routes,
            here,
            calls: FxHashMap::default(),
            buffer,
            entrusted: Vec::new(),
            bells: 0,
            driver_sleeps: false,
            told: Arc::default(),
            wanted: Arc::default(),
        }
    }

    pub(crate) fn line(&self) -> &Arc<dyn Line> {
        &self.line
    }

    pub(crate) fn knows(&self, server: ServerId) -> bool {
        self.routes.get(server.0 as usize).is_some_and(Option::is_some)
    }

    pub(crate) fn learn(&mut self, server: ServerId, route: Route) {
        self.routes[server.0 as usize] = Some(route);
    }

    /// Where a server is.
    pub(crate) fn route(&self, server: ServerId) -> Option<Route> {
        self.routes.get(server.0 as usize).copied().flatten()
    }

    /// Forgets what nobody will ask for any more, so that somebody else can have the port.
    pub(crate) fn reset(&mut self) {
        self.calls.clear();
        self.entrusted.clear();
        self.origin.reset();
    }

    /// From now on, and until the transfer is over, the progress thread drives the port.
    pub(crate) fn entrust(&mut self, transfer: Entrusted) {
        self.entrusted.push(transfer);
    }

    /// Whether the progress thread drives the port.
    #[inline]
    pub(crate) fn is_entrusted(&self) -> bool {
        !self.entrusted.is_empty()
    }

    /// What agents have not been told of operations that went past them.
    #[inline]
    pub(crate) fn owed(&self) -> Owed {
        self.line.direct().map_or(Owed::Nothing, |direct| direct.owed())
    }

    /// Whether the progress thread must drive the port without a pause: something is entrusted to
    /// it, or somebody may sleep until an agent hears of what is under way.
    pub(crate) fn is_pressing(&self) -> bool {
        self.is_entrusted() || self.owed() == Owed::Wakes
    }

    /// Takes the port back from the progress thread, for good or until more is entrusted.
    pub(crate) fn take_back(&mut self) {
        self.entrusted.clear();
        self.told.notify_all();
    }

    /// Whether the port's thread waits for the port.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) != 0
    }

    /// Changes when something may have happened that the port's thread waits for.
    pub(crate) fn news(&self) -> u64 {
        let direct = self.line.direct().map_or(0, |direct| direct.ends());
        self.origin.ends() + self.bells + direct
    }

    /// Sends to a server what may be sent. Often that is nothing: then not even the clock is looked
    /// at. What is lent goes when somebody waits for it, or has entrusted it.
    #[inline]
    pub(crate) fn send(&mut self, server: ServerId) {
        if !self.origin.is_ready(server) || self.origin.has_lent_next(server) {
            return;
        }
        self.origin.send_to(
            server,
            now_ns(),
            &mut Sending::of(&self.line, &self.routes, &self.wanted),
        );
    }

    /// Sends a part of a put from where it is; see [`Origin::put_straight`].
    ///
    /// # Safety
    ///
    /// `bytes` must stay where and as they are until [`Origin::take_over`] was called.
    pub(crate) unsafe fn put_straight(
        &mut self,
        server: ServerId,
        place: (Rank, SegmentId),
        cut: &mut Cut<'_>,
        bytes: &[u8],
        counts: bool,
    ) -> bool {
        let mut wire = Sending::of(&self.line, &self.routes, &self.wanted);
        // SAFETY: by the caller's promise.
        unsafe {
            self.origin.put_straight((server, now_ns(), &mut wire), place, cut, bytes, counts)
        }
    }

    /// Reads what has arrived; if anything has, that may let something go or be the end of
    /// something.
    #[inline]
    pub(crate) fn look(&mut self) {
        if self.read() || self.line.direct().is_some_and(|direct| direct.has_notices()) {
            self.attend();
        }
    }

    /// Reads what has arrived, sends what may be sent, repeats what is overdue. Wakes the port's
    /// thread if that sleeps because something is entrusted, and there is news for it.
    pub(crate) fn drive(&mut self) {
        let before = self.news();
        self.read();
        self.attend();
        if self.is_entrusted() {
            let Port { entrusted, origin, line, .. } = self;
            entrusted.retain(|transfer| match *transfer {
                Entrusted::Answered(ticket) => !origin.is_done(ticket),
                Entrusted::Direct(transfer) => {
                    line.direct().is_some_and(|direct| !direct.is_over(transfer))
                }
            });
            if self.news() != before || !self.is_entrusted() {
                self.told.notify_all();
            }
        }
    }

    /// Reads what has arrived, and says whether that was anything.
    fn read(&mut self) -> bool {
        for count in 0..READ_AT_ONCE {
            if count > 0 && self.is_wanted() {
                return true;
            }
            match self.line.receive(&mut self.buffer) {
                // Somebody wants us to look: we do.
                Some(0) => self.bells += 1,
                Some(length) => {
                    // What is refused changes nothing.
                    let _ = self.origin.receive(&self.buffer[..length], now_ns());
                    if !self.origin.is_waiting() {
                        // Nothing more is to come.
                        return true;
                    }
                }
                None => return count > 0,
            }
        }
        true
    }

    fn attend(&mut self) {
        let now = now_ns();
        self.pass_on_notices();
        self.attend_to_calls(now);
        if self.origin.is_busy() {
            self.origin.pump(now, &mut Sending::of(&self.line, &self.routes, &self.wanted));
        }
    }

    /// Tells agents what has happened to their nodes' memory without them. Who sleeps on this node
    /// is woken at once.
    fn pass_on_notices(&mut self) {
        let Port { line, origin, here: (node, reach), .. } = self;
        let Some(direct) = line.direct() else { return };
        for (to, notice) in direct.take_notices() {
            match notice {
                // For a word that is gone by now nobody waits.
                Notice::Changed(at) if to == *node => drop(reach.wake_for(at)),
                _ => origin.tell(ServerId(to.0), &notice.request()),
            }
        }
    }

    /// How long this port may be left alone.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let recall = self
            .calls
            .values()
            .filter(|call| call.answer.is_none())
            .map(|call| call.recall_ns)
            .min();
        let due = [self.origin.due_ns(), recall].into_iter().flatten().min()?;
        Some(Duration::from_nanos(due.saturating_sub(now_ns())))
    }

    /// Asks the agent of a node to run a handler, in one of the caller's slots.
    pub(crate) fn call(
        &mut self,
        (node, server): (Node, ServerId),
        slot: u32,
        handler: HandlerId,
        argument: &[u8],
    ) -> Result<()> {
        self.origin.post_whole(
            server,
            &Request::Call { slot, handler: handler.0, argument },
            argument.len(),
        )?;
        let recall_ns = now_ns() + RECALL_AFTER.as_nanos() as u64;
        self.calls
            .insert((server, slot), Call { node, handler, answer: None, recall_ns, recalls: 0 });
        self.origin.push();
        self.send(server);
        Ok(())
    }

    pub(crate) fn call_is_done(&self, server: ServerId, slot: u32) -> bool {
        self.calls.get(&(server, slot)).is_none_or(|call| call.answer.is_some())
    }

    /// The outcome of a call, if it is over.
    pub(crate) fn take_call(&mut self, server: ServerId, slot: u32) -> Result<Option<Reply>> {
        let done = self.calls.get(&(server, slot)).map(|call| call.answer.is_some());
        match done {
            None => Err(Error::Misuse(format!("slot {slot} names no call that is under way"))),
            Some(false) => Ok(None),
            Some(true) => {
                let call = self.calls.remove(&(server, slot));
                let outcome = call.and_then(|call| {
                    call.answer.map(|answer| answer.outcome(call.node, call.handler))
                });
                outcome.transpose()
            }
        }
    }

    pub(crate) fn forget_call(&mut self, server: ServerId, slot: u32) {
        self.calls.remove(&(server, slot));
    }

    /// Takes in answers, and asks for those that are late.
    fn attend_to_calls(&mut self, now: u64) {
        for called in self.origin.take_calls() {
            if let Some(call) = self.calls.get_mut(&(called.server, called.slot)) {
                call.answer.get_or_insert(FarAnswer { state: called.state, reply: called.bytes });
            }
        }
        for (&(server, slot), call) in &mut self.calls {
            if call.answer.is_none() && call.recall_ns <= now {
                call.recalls += 1;
                call.recall_ns =
                    now + (RECALL_AFTER.as_nanos() as u64) * u64::from(call.recalls.min(20));
                self.origin.post(server, &Request::Recall { slot });
            }
        }
    }
}

/// Where packets go.
struct Sending<'a> {
    line: &'a dyn Line,
    routes: &'a [Option<Route>],
    wanted: &'a AtomicU32,
}

impl<'a> Sending<'a> {
    fn of(
        line: &'a Arc<dyn Line>,
        routes: &'a [Option<Route>],
        wanted: &'a AtomicU32,
    ) -> Sending<'a> {
        Sending { line: &**line, routes, wanted }
    }
}

impl Wire for Sending<'_> {
    fn send(&mut self, to: ServerId, packet: &[u8]) {
        self.send_parts(to, packet, &[]);
    }

    fn send_parts(&mut self, to: ServerId, head: &[u8], rest: &[u8]) {
        if let Some(route) = self.routes.get(to.0 as usize).copied().flatten() {
            self.line.send(route, head, rest);
        }
    }

    fn goes_on(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) == 0
    }
}

/// What the ticket of a far operation is made of. Tickets of the near fabric have neither mark.
pub(crate) mod ticket {
    use super::{ServerId, Ticket};

    const TRANSFER: u64 = 1 << 63;
    const CALL: u64 = 1 << 62;

    /// What a ticket means.
    pub(crate) enum Meaning {
        Near(Ticket),
        Transfer(Ticket),
        Call(ServerId, u32),
    }

    pub(crate) fn transfer(ticket: Ticket) -> Ticket {
        debug_assert!(ticket.0 < CALL);
        Ticket(ticket.0 | TRANSFER)
    }

    pub(crate) fn call(server: ServerId, slot: u32) -> Ticket {
        Ticket(CALL | (u64::from(server.0) << 32) | u64::from(slot))
    }

    pub(crate) fn meaning(ticket: Ticket) -> Meaning {
        if ticket.0 & TRANSFER != 0 {
            Meaning::Transfer(Ticket(ticket.0 & !TRANSFER))
        } else if ticket.0 & CALL != 0 {
            Meaning::Call(ServerId(((ticket.0 & !CALL) >> 32) as u32), ticket.0 as u32)
        } else {
            Meaning::Near(ticket)
        }
    }
}
