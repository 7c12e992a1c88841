//! The fabric as a simulated rank sees it.

use std::cell::{RefCell, RefMut};
use std::mem::ManuallyDrop;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use farside_fabric::record::Records;
use farside_fabric::{
    Accumulate, Atomic, Caps, CarriedOut, Clock, Departure, Effort, Error, Event, Fabric, Failures,
    Handler, HandlerId, Hint, JobState, JobView, Landings, Loss, Mapped, Node, OldValue, Ordering,
    OwnAccess, PeerState, Probe, ProbeEvent, Rank, Region, Reply, Result, SegmentId, Started,
    Ticket, Topology, Wait, Wake, Word,
};

use crate::body::{Accumulation, Body, ticket};
use crate::engine::{Engine, Shared};
use crate::event::{Access, EventId, What};
use crate::fiber::{Pause, Resume, Switch};
use crate::parked_wait::ParkedWait;
use crate::store::CALL_BYTES;

/// A segment that no rank has, for offers of handlers. Calls are in conflict with everything.
const HANDLERS: SegmentId = SegmentId(u64::MAX - 3);

/// One rank's connection to a simulated job.
pub(crate) struct Port<E> {
    rank: Rank,
    machine: Shared<E>,
    switch: Rc<Switch>,
    topology: Arc<Topology>,
    failures: Failures,
    caps: Caps,
}

// SAFETY: a port never leaves the thread of its simulation: every method that reaches shared state
// checks that it is there.
unsafe impl<E> Send for Port<E> {}

impl<E: Engine> Port<E> {
    pub(crate) fn new(
        rank: Rank,
        machine: &Shared<E>,
        switch: &Rc<Switch>,
        root_bytes: u64,
    ) -> Port<E> {
        let (topology, failures, processors) = {
            let mut machine = machine.borrow_mut();
            let store = machine.store();
            let failures = store.heard_at(store.topology.node_of(rank)).failures().clone();
            (store.topology.clone(), Failures::from(failures), store.processors)
        };
        let caps = Caps {
            name: "sim",
            ordering: Ordering::Unordered,
            direct: false,
            cpu_coherent: true,
            call_bytes_max: CALL_BYTES,
            outstanding_max: u32::MAX,
            processors,
            root_bytes,
        };
        Port { rank, machine: machine.clone(), switch: switch.clone(), topology, failures, caps }
    }

    fn machine(&self) -> RefMut<'_, E> {
        assert!(self.switch.is_home(), "a simulated rank belongs to one thread");
        self.machine.borrow_mut()
    }

    /// The machine, for a rank that lives. Who has died does nothing any more, whatever its fiber
    /// tries while it unwinds.
    fn alive(&self) -> Result<RefMut<'_, E>> {
        let mut machine = self.machine();
        machine.store().check_alive(self.rank)?;
        Ok(machine)
    }

    fn pause(&self, pause: Pause) -> Result<Resume> {
        let over = || Error::InvalidState("the simulation of this rank is over".into());
        // A fiber that unwinds must not wait any more: nobody would wake it.
        if std::thread::panicking() {
            return Err(over());
        }
        self.switch.pause(pause).ok_or_else(over)
    }

    /// This rank is about to change what others can reach: an event that is in conflict with all
    /// that they do there.
    fn change(&self, segment: SegmentId, what: What) -> Result<()> {
        if self.alive()?.explores() && !std::thread::panicking() {
            let (rank, start, end) = (self.rank, 0, u64::MAX);
            self.pause(Pause::Own(Access { rank, segment, start, end, writes: true }, what))?;
        }
        Ok(())
    }

    fn launch(&self, mut machine: RefMut<'_, E>, target: Rank, body: Body) -> Started {
        Started::Pending(ticket(machine.launch(self.rank, target, body, false, None)))
    }

    /// Launches an operation whose old value is wanted, and posts another.
    fn launch_or_post<'a>(
        &'a self,
        machine: RefMut<'a, E>,
        target: Rank,
        body: Body,
        old: OldValue,
    ) -> Result<Started> {
        if old == OldValue::Wanted {
            return Ok(self.launch(machine, target, body));
        }
        self.post_body(machine, target, body, None)?;
        Ok(Started::Done(Reply::None))
    }

    fn post_body<'a>(
        &'a self,
        mut machine: RefMut<'a, E>,
        target: Rank,
        body: Body,
        after: Option<EventId>,
    ) -> Result<EventId> {
        while !machine.has_room(self.rank) {
            drop(machine);
            self.pause(Pause::NeedsRoom)?;
            machine = self.machine();
        }
        Ok(machine.launch(self.rank, target, body, true, after))
    }

    fn node(&self) -> Node {
        self.topology.node_of(self.rank)
    }

    fn put_body(&self, machine: &mut E, to: &Region<'_>, bytes: &[u8]) -> Result<Body> {
        let pieces = machine.store().pieces(self.node(), to)?;
        to.check_length(bytes.len())?;
        Ok(Body::Put { segment: to.segment, pieces, bytes: bytes.to_vec() })
    }
}

impl<E: Engine> JobState for Port<E> {
    fn peer_state(&self, peer: Rank) -> PeerState {
        self.machine().store().heard_at(self.node()).peer_state(peer)
    }
    fn departure(&self, peer: Rank) -> Departure {
        self.machine().store().heard_at(self.node()).departure(peer)
    }
    fn note_cause(&self, cause: Option<Loss>) {
        self.machine().store().note_cause(self.rank, cause);
    }
    fn leave(&self) {
        // No process of its own exits: the rank leaves with its last connection.
    }
    fn records(&self) -> Option<Records> {
        // A simulated rank that is stuck is asked what it waits for: see `deadlock`.
        None
    }
    fn effort(&self) -> Effort {
        Effort { repeats: self.machine().repeats(self.rank), ..Effort::default() }
    }
}

impl<E: Engine> Clock for Port<E> {
    fn now_ns(&self) -> u64 {
        self.machine().now_ns(self.rank)
    }
    fn work(&self, ns: u64) {
        // A rank that is over has nothing more to do.
        let _ = self.pause(Pause::Work(ns));
    }
}

impl<E: Engine> Landings for Port<E> {
    fn begin(&self) -> Result<Word> {
        self.machine().count_landings(self.topology.node_of(self.rank))
    }
    fn exclude(&self, segment: SegmentId) -> Result<()> {
        self.machine().store().exclude(segment);
        Ok(())
    }
}

impl<E: Engine + 'static> Fabric for Port<E> {
    fn job(&self) -> JobView<'_> {
        let Port { rank, topology, caps, failures, .. } = self;
        JobView { rank: *rank, topology, caps, failures, state: self }
    }
    fn register(&self, segment: SegmentId, bytes: u64) -> Result<()> {
        self.change(segment, What::Register)?;
        self.alive()?.store().register(self.rank, segment, bytes)
    }
    fn deregister(&self, segment: SegmentId) -> Result<()> {
        self.change(segment, What::Free)?;
        self.alive()?.store().deregister(self.rank, segment)
    }
    fn map(&self, rank: Rank, segment: SegmentId) -> Result<Option<Mapped>> {
        if self.topology.check(rank).is_err() || !self.topology.same_node(rank, self.rank) {
            return Ok(None);
        }
        self.machine().store().open(rank, segment).map(Some)
    }

    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()> {
        let mut machine = self.alive()?;
        let body = self.put_body(&mut machine, to, bytes)?;
        self.post_body(machine, to.rank, body, None).map(drop)
    }
    unsafe fn get(&self, from: &Region<'_>, into: *mut u8, _hint: Hint) -> Result<Started> {
        let mut machine = self.alive()?;
        let pieces = machine.store().pieces(self.node(), from)?;
        Ok(self.launch(machine, from.rank, Body::Get { segment: from.segment, pieces, into }))
    }
    fn accumulate(
        &self,
        to: &Region<'_>,
        accumulate: &Accumulate,
        bytes: &[u8],
        old: OldValue,
    ) -> Result<Started> {
        let mut machine = self.alive()?;
        let pieces = machine.store().pieces(self.node(), to)?;
        accumulate.check(to, bytes.len())?;
        let (segment, accumulate, bytes) = (to.segment, *accumulate, bytes.to_vec());
        let body = Body::Accumulate(Accumulation { segment, pieces, accumulate, bytes, old });
        self.launch_or_post(machine, to.rank, body, old)
    }
    fn atomic(&self, at: Word, op: Atomic, old: OldValue) -> Result<Started> {
        let mut machine = self.alive()?;
        machine.store().check_word(self.node(), at, op)?;
        self.launch_or_post(machine, at.rank, Body::Atomic { at, op }, old)
    }
    fn fence(&self) -> Result<()> {
        self.alive()?.fence(self.rank);
        Ok(())
    }
    fn flush(&self, peer: Rank) -> Result<()> {
        let machine = self.alive()?;
        self.topology.check(peer)?;
        let flushed = machine.is_flushed(self.rank, peer);
        drop(machine);
        if !flushed {
            self.pause(Pause::Flush(peer.0))?;
        }
        match self.machine().store().late_error(self.rank, peer) {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    fn call(&self, node: Node, handler: HandlerId, bytes: &[u8]) -> Result<Started> {
        let machine = self.alive()?;
        let leader = self.topology.leader_of(node)?;
        let limit = CALL_BYTES;
        if bytes.len() as u64 > limit {
            return Err(Error::TooMuch {
                what: "bytes of a call's argument",
                value: bytes.len() as u64,
                limit,
            });
        }
        Ok(self.launch(machine, leader, Body::Call { node, handler, bytes: bytes.to_vec() }))
    }
    fn serve(&self, handler: HandlerId, run: Handler) -> Result<()> {
        self.change(HANDLERS, What::Serve)?;
        self.alive()?.store().serve(self.rank, handler, run);
        Ok(())
    }

    fn poll(&self, ticket: Ticket) -> Result<Option<Reply>> {
        self.alive()?.poll(self.rank, ticket)
    }
    fn cancel(&self, ticket: Ticket) {
        if let Ok(mut machine) = self.alive() {
            machine.cancel(self.rank, ticket);
        }
    }
    fn block(&self, wait: &Wait<'_>) -> Result<Wake> {
        let machine = self.alive()?;
        if let Event::Words(conditions) = wait.event {
            conditions.iter().try_for_each(|condition| condition.check(self.rank))?;
        }
        let held = machine.holds_already(wait);
        drop(machine);
        if let Some((which, value)) = held {
            return Ok(Wake::Ready { which, value });
        }
        // SAFETY: this fiber pauses here, in the call that borrows the wait, until it is resumed.
        let wait = unsafe { ParkedWait::new(wait) };
        Ok(match self.pause(Pause::Wait(wait))? {
            Resume::Go(which, value) => Wake::Ready { which, value },
            Resume::Departure => Wake::Departure,
            Resume::TimedOut => Wake::TimedOut,
        })
    }
    fn relax(&self) {
        // A rank that is over polls no more; its next operation says so.
        let _ = self.pause(Pause::Relax);
    }
    fn wake(&self, _peer: Rank) {}

    fn context(&self) -> Result<Box<dyn farside_fabric::Connection>> {
        Err(Error::Unsupported {
            what: "several threads of a simulated rank: a fiber has one".into(),
        })
    }

    fn landings(&self) -> Option<&dyn Landings> {
        (self.topology.nodes() > 1).then_some(self)
    }
    fn clock(&self) -> Option<&dyn Clock> {
        Some(self)
    }
    fn probe(&self) -> Option<Arc<dyn Probe>> {
        let (machine, switch) = (Rc::downgrade(&self.machine), self.switch.clone());
        let carried_out = self.machine().carried_out();
        let shared = ManuallyDrop::new((machine, switch, carried_out));
        let explores = self.machine().explores();
        explores.then(|| Arc::new(OwnMemory { rank: self.rank, shared }) as Arc<dyn Probe>)
    }

    fn put_signal(&self, to: &Region<'_>, bytes: &[u8], at: Word, op: Atomic) -> Result<()> {
        let mut machine = self.alive()?;
        machine.store().check_word(self.node(), at, op)?;
        let body = self.put_body(&mut machine, to, bytes)?;
        let put = self.post_body(machine, to.rank, body, None)?;
        // Only the put itself comes first; whatever else is in flight may still land later.
        self.post_body(self.machine(), at.rank, Body::Atomic { at, op }, Some(put)).map(drop)
    }
}

/// What a machine has carried out; at hand for handlers, too, while it carries them out.
type CarriedOuts = Option<Rc<RefCell<Vec<CarriedOut>>>>;

/// What an exploration is told of a rank's accesses to its own memory.
struct OwnMemory<E> {
    rank: Rank,
    /// A handler may hold a window, and the machine holds handlers.
    shared: ManuallyDrop<(Weak<RefCell<E>>, Rc<Switch>, CarriedOuts)>,
}

// SAFETY: as for a port: whatever reaches shared state checks that it is on the thread of the
// simulation, also dropping it.
unsafe impl<E> Send for OwnMemory<E> {}
// SAFETY: likewise.
unsafe impl<E> Sync for OwnMemory<E> {}

impl<E> Drop for OwnMemory<E> {
    fn drop(&mut self) {
        if self.shared.1.is_home() {
            // SAFETY: it is not used any more.
            unsafe { ManuallyDrop::drop(&mut self.shared) };
        }
    }
}

impl<E> OwnMemory<E> {
    /// Calls `act` with the machine, unless a handler runs: that is a part of an event, which is in
    /// conflict with all others.
    fn with_machine<R>(&self, act: impl FnOnce(&mut E) -> R) -> Option<R> {
        assert!(self.shared.1.is_home(), "a simulated rank belongs to one thread");
        let machine = self.shared.0.upgrade()?;
        let mut machine = machine.try_borrow_mut().ok()?;
        Some(act(&mut machine))
    }
}

impl<E: Engine> OwnMemory<E> {
    /// Returns whether what the rank is about to do is an event: it lives, and no handler runs. A
    /// fiber that unwinds must not wait any more.
    fn may_pause(&self) -> bool {
        let is_alive = |machine: &mut E| machine.store().check_alive(self.rank).is_ok();
        self.with_machine(is_alive) == Some(true) && !std::thread::panicking()
    }
}

impl<E: Engine> OwnMemory<E> {
    fn poll(&self, ticket: Ticket) {
        let is_event = self.with_machine(|machine| machine.explores_looks()) == Some(true);
        if is_event && self.may_pause() {
            // Its next operation tells a fiber that it is over.
            let _ = self.shared.1.pause(Pause::Poll(ticket));
        }
    }

    fn carried_out(&self) -> Vec<CarriedOut> {
        assert!(self.shared.1.is_home(), "a simulated rank belongs to one thread");
        self.shared.2.as_ref().map_or_else(Vec::new, |all| all.take())
    }

    fn own(&self, access: &OwnAccess) {
        if access.bytes > 0 && self.may_pause() {
            // Its next operation tells a fiber that it is over.
            let bytes = Access {
                rank: access.owner.unwrap_or(self.rank),
                segment: access.segment,
                start: access.offset,
                end: access.offset + access.bytes,
                writes: access.writes,
            };
            let _ = self.shared.1.pause(Pause::Own(bytes, What::Own));
        }
    }

    fn claim(&self, segment: SegmentId, start: u64, end: u64) {
        let _ = self.with_machine(|machine| machine.claim(segment, start, end));
    }
}

impl<E: Engine> Probe for OwnMemory<E> {
    fn event(&self, event: ProbeEvent<'_>) -> Option<u64> {
        match event {
            ProbeEvent::Own(access) => self.own(access),
            ProbeEvent::Poll(ticket) => self.poll(ticket),
            ProbeEvent::Lent { what, place } => {
                let _ = self.with_machine(|machine| machine.lent(what, place));
            }
            ProbeEvent::Program { segment, .. } => self.claim(segment, 0, u64::MAX),
            ProbeEvent::Words { segment, offset, bytes, is_program: true } => {
                self.claim(segment, offset, offset + bytes);
            }
            ProbeEvent::LastOperation => {
                let last = |machine: &mut E| u64::from(machine.store().last_serial(self.rank));
                return self.with_machine(last);
            }
            ProbeEvent::CarriedOut(all) => all.append(&mut self.carried_out()),
            _ => {}
        }
        None
    }
}
