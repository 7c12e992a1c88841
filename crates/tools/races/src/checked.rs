//! A connection whose operations are checked for races.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use farside_fabric::{
    Accumulate, Agent, Atomic, Caps, Condition, Connection, Error, Event, Handler, HandlerId, Hint,
    JobView, Landings, Mapped, Node, OldValue, Probe, Rank, Region, Reply, Result, SegmentId,
    Started, Ticket, Wait, Wake, Word, forward,
};

use crate::Checker;
use crate::access::{Class, kind};
use crate::agent::Served;
use crate::calls::Call;
use crate::clocks::Released;
use crate::cure::{HeldPut, Means};
use crate::hand::Hand;
use crate::layout::{CONTEXT_LANES, CONTEXTS};
use crate::seen::{Asked, Seen, SeenAtomic, first_byte};
use crate::state::locked;
use crate::told::{RUST, RankState, Told, clock_of_agent, with_pieces};

/// A put of at most so many bytes may be what a wait ends on.
const WAITABLE_BYTES: u64 = 64;

/// With how much less than its value a wait would have ended is looked at up to this.
const SLACK_MAX: u64 = 64;

pub(crate) struct Checked {
    inner: Box<dyn Connection>,
    caps: Caps,
    told: Arc<Told>,
    /// What operations under way read.
    tickets: Mutex<HashMap<Ticket, Asked>>,
    /// A put that waits for its signal, while a put with a signal is tried instead.
    held: Mutex<Option<HeldPut>>,
    /// A get under way behind which the lock is given back that is tried.
    locked_get: Mutex<Option<Ticket>>,
}

impl Checked {
    pub(crate) fn new(inner: Box<dyn Connection>, checker: Arc<Checker>) -> Result<Checked> {
        let job = inner.job();
        let ranks = job.topology.ranks();
        if ranks != checker.layout().ranks {
            return Err(Error::Join(format!(
                "the race checker was made for {} ranks, and the job has {ranks}",
                checker.layout().ranks
            )));
        }
        let state = RankState {
            checker,
            rank: job.rank.index(),
            program: Mutex::default(),
            words: Mutex::default(),
            places: Mutex::default(),
            lanes: Mutex::default(),
            holds_lock: AtomicBool::new(false),
            thread: OnceLock::new(),
            attempts: AtomicU32::new(1),
        };
        state.checker.run(&[Call::Joined]);
        state.checker.trial.prepare(&*inner)?;
        let checked = Checked::beside(inner, Arc::new(state));
        if checked.checker().trial.is_for_runs() {
            // SAFETY: it is in a box, which is dropped with this, behind the end of the loan.
            unsafe { checked.told.hand.lend(&*checked.inner) };
        }
        Ok(checked)
    }

    fn beside(inner: Box<dyn Connection>, state: Arc<RankState>) -> Checked {
        let caps = Caps { direct: false, ..inner.job().caps.clone() };
        let lane = {
            let mut lanes = locked(&state.lanes);
            let is_first = lanes.iter().all(|&contexts| contexts == 0);
            let least = (0..CONTEXTS).min_by_key(|&lane| lanes[lane]).unwrap_or(0);
            // The world's own context shares its lane last: what is posted there is told apart.
            lanes[least] += if is_first { u32::MAX / 2 } else { 1 };
            CONTEXT_LANES * least
        };
        let told = Arc::new(Told {
            below: inner.probe(),
            state,
            lane,
            place: AtomicU64::new(0),
            foreign: AtomicU64::new(RUST),
            last_program: AtomicU64::new(u64::MAX),
            is_aside: AtomicBool::new(false),
            found: AtomicU32::new(0),
            source: Mutex::default(),
            hand: Hand::default(),
            prepared: Mutex::default(),
        });
        let (tickets, held, locked_get) = (Mutex::default(), Mutex::default(), Mutex::default());
        Checked { inner, caps, told, tickets, held, locked_get }
    }

    fn checker(&self) -> &Arc<Checker> {
        &self.told.state.checker
    }

    /// Looks at an operation on a region; fails if it is a race and races are errors.
    fn see(&self, region: &Region<'_>, place: Option<u32>, seen: &Seen) -> Result<()> {
        match place {
            Some(_) => self.see_and(region, place, seen, &[]),
            None => self.checker().check(),
        }
    }

    /// Likewise, and does something more in the same transaction, whose answers are numbers of
    /// races, too.
    fn see_and(
        &self,
        region: &Region<'_>,
        place: Option<u32>,
        seen: &Seen,
        more: &[Call<'_>],
    ) -> Result<()> {
        match self.told.access(self.told.actor(), region, place, seen) {
            Some(access) => {
                with_pieces(region.shape, |pieces| self.told.see_and(&access, pieces, more));
            }
            None if more.is_empty() => {}
            None => self.told.note_found(self.told.run(more)),
        }
        self.complain()
    }

    fn complain(&self) -> Result<()> {
        self.checker().check()?;
        if self.told.found.load(Ordering::Relaxed) != 0 && self.checker().fails() {
            return Err(Error::Program("a race was found, and --races=fail ends the job".into()));
        }
        Ok(())
    }

    fn cure(&self, place: Option<u32>, to: Rank) -> Result<()> {
        match self.checker().trial.after(place) {
            None | Some(Means::PutSignal | Means::Wait) => Ok(()),
            Some(Means::Fence) => {
                self.inner.fence()?;
                self.told.run(&[Call::Fence { actor: self.told.actor(), is_program: true }]);
                Ok(())
            }
            Some(Means::Flush) => {
                self.inner.flush(to)?;
                self.told.run(&[Call::Flush { actor: self.told.actor(), target: to.index() }]);
                Ok(())
            }
            Some(Means::Lock | Means::LockAcross) => {
                self.inner.flush(to)?;
                self.told.run(&[Call::Flush { actor: self.told.actor(), target: to.index() }]);
                self.told.unlock()
            }
        }
    }

    /// Gives the lock back that is tried when a get inside of it is complete.
    fn cure_get(&self, place: Option<u32>, started: &Started) -> Result<()> {
        if self.checker().trial.after(place) == Some(Means::Lock) {
            match started {
                Started::Done(_) => return self.told.unlock(),
                Started::Pending(ticket) => *locked(&self.locked_get) = Some(*ticket),
            }
        }
        Ok(())
    }

    fn note_transfer(&self, region: &Region<'_>, place: Option<u32>, puts: bool) {
        let trial = &self.checker().trial;
        if let Some(place) = place
            && trial.is_for_runs()
            && self.told.is_program(region.segment, first_byte(region))
        {
            trial.note_transfer(self.told.state.rank, region, place, puts);
        }
    }

    /// Holds a put back whose signal is to come with it. What was held before goes on its way.
    fn hold(&self, to: &Region<'_>, bytes: &[u8], place: Option<u32>) -> Result<bool> {
        self.let_go()?;
        if self.checker().trial.after(place) != Some(Means::PutSignal) {
            return Ok(false);
        }
        let held = HeldPut::new(to, bytes, place);
        let is_held = held.is_some();
        *locked(&self.held) = held;
        Ok(is_held)
    }

    /// Lets a put go that was held back: its signal did not come next.
    fn let_go(&self) -> Result<()> {
        if !self.checker().trial.holds_puts() {
            return Ok(());
        }
        let held = locked(&self.held).take();
        held.map_or(Ok(()), |held| {
            self.see_put(held.to(), held.place)?;
            self.inner.put(held.to(), &held.bytes)
        })
    }

    /// Takes the put that a signal could be put together with.
    fn held_for(&self, at: Word, op: Atomic, old: OldValue) -> Option<HeldPut> {
        if !self.checker().trial.holds_puts() {
            return None;
        }
        locked(&self.held).take_if(|held| held.is_signalled_by(at, op, old))
    }

    fn put_and_signal(
        &self,
        to: &Region<'_>,
        bytes: &[u8],
        place: Option<u32>,
        (at, op): (Word, Atomic),
    ) -> Result<()> {
        let (class, name) = (Class::Plain, "put_signal");
        let (is_posted, is_signal, kind) = (true, true, 0);
        let seen = Seen { class, writes: true, name, is_posted, is_signal, kind };
        let atomic = SeenAtomic {
            at,
            op,
            is_posted: true,
            signalled: true,
            kind: kind::SIGNAL,
            attempt: self.told.attempt(op),
        };
        let source = locked(&self.told.source).take();
        // All of it is one operation: what tells of the signal tells of the rest.
        self.told.with_word(self.told.actor(), atomic, place, |word| match source {
            None => self.see_and(to, place, &seen, word),
            Some((mut access, piece)) => {
                access.actor.lane += 1;
                let read = Call::Access { access, pieces: &[piece] };
                self.see_and(to, place, &seen, &[&[read], word].concat())
            }
        })?;
        self.inner.put_signal(to, bytes, at, op)?;
        self.told.has_started();
        Ok(())
    }

    fn see_put(&self, to: &Region<'_>, place: Option<u32>) -> Result<()> {
        let is_foreign = self.told.is_foreign_put();
        let bytes = to.shape.bytes().unwrap_or(0);
        let is_waitable = is_foreign && bytes <= WAITABLE_BYTES;
        let class = if is_waitable { Class::WaitablePut } else { Class::Plain };
        let name = "put";
        let (is_posted, is_signal, kind) = (true, false, 0);
        let seen = Seen { class, writes: true, name, is_posted, is_signal, kind };
        if !is_waitable {
            return self.see(to, place, &seen);
        }
        let (owner, segment, actor) = (to.rank.index(), to.segment, self.told.actor());
        with_pieces(to.shape, |pieces| {
            let more = Call::ReleaseWords { actor, owner, segment, pieces };
            self.see_and(to, place, &seen, &[more])
        })
    }

    /// Looks at an atomic, and passes on what its rank knows if it changes the word.
    fn see_word(&self, atomic: SeenAtomic, place: Option<u32>) -> Result<()> {
        self.told.with_word(self.told.actor(), atomic, place, |calls| {
            if !calls.is_empty() {
                self.told.note_found(self.told.run(calls));
            }
            self.complain()
        })
    }

    fn started(&self, started: Started, asked: Asked) -> Started {
        match &started {
            Started::Done(reply) => self.told.replied(self.told.actor(), &asked, reply),
            Started::Pending(ticket) => {
                locked(&self.tickets).insert(*ticket, asked);
            }
        }
        started
    }
}

/// With how much less than a value a condition would hold as well, of what is worth a look.
fn slack(condition: &Condition<'_>, value: u64) -> u64 {
    let holds = |less: &u64| value.checked_sub(*less).is_some_and(|value| (condition.until)(value));
    (1..=SLACK_MAX).take_while(holds).last().unwrap_or(0)
}

impl Drop for Checked {
    fn drop(&mut self) {
        self.told.hand.take_back();
        let mut lanes = locked(&self.told.state.lanes);
        let contexts = &mut lanes[self.told.lane / CONTEXT_LANES];
        *contexts = contexts.saturating_sub(1);
    }
}

impl Connection for Checked {
    forward! { to .inner: register deregister cancel relax wake clock }

    fn job(&self) -> JobView<'_> {
        JobView { caps: &self.caps, ..self.inner.job() }
    }

    fn map(&self, rank: Rank, segment: SegmentId) -> Result<Option<Mapped>> {
        self.inner.map(rank, segment)
    }

    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()> {
        let place = self.told.operation_place();
        if self.hold(to, bytes, place)? {
            return Ok(());
        }
        self.told.before(place)?;
        self.note_transfer(to, place, true);
        self.see_put(to, place)?;
        self.inner.put(to, bytes)?;
        self.cure(place, to.rank)
    }

    unsafe fn put_nb(&self, to: &Region<'_>, from: *const u8, hint: Hint) -> Result<Started> {
        let place = self.told.operation_place();
        self.let_go()?;
        self.told.before(place)?;
        self.note_transfer(to, place, true);
        self.see_put(to, place)?;
        // SAFETY: the caller's promise is passed on.
        let started = unsafe { self.inner.put_nb(to, from, hint)? };
        self.cure(place, to.rank).map(|()| started)
    }

    fn put_signal(&self, to: &Region<'_>, bytes: &[u8], at: Word, op: Atomic) -> Result<()> {
        let place = self.told.operation_place();
        self.let_go()?;
        self.put_and_signal(to, bytes, place, (at, op))
    }

    unsafe fn get(&self, from: &Region<'_>, into: *mut u8, hint: Hint) -> Result<Started> {
        let place = self.told.operation_place();
        self.let_go()?;
        let (class, name, is_posted) = (Class::Plain, "get", self.told.is_nonblocking());
        let (is_signal, kind) = (false, 0);
        let seen = Seen { class, writes: false, name, is_posted, is_signal, kind };
        self.told.before(place)?;
        self.note_transfer(from, place, false);
        self.see(from, place, &seen)?;
        // SAFETY: the caller's promise is passed on.
        let started = unsafe { self.inner.get(from, into, hint)? };
        self.cure_get(place, &started).map(|()| started)
    }

    fn accumulate(
        &self,
        to: &Region<'_>,
        accumulate: &Accumulate,
        bytes: &[u8],
        old: OldValue,
    ) -> Result<Started> {
        let place = self.told.operation_place();
        self.let_go()?;
        let is_posted = old == OldValue::Ignored;
        let (class, name) = (Class::Accumulate, "accumulate");
        let (is_signal, kind) = (false, 0);
        let seen = Seen { class, writes: true, name, is_posted, is_signal, kind };
        // One that is refused has touched nothing.
        let started = self.inner.accumulate(to, accumulate, bytes, old)?;
        self.see(to, place, &seen)?;
        self.cure(place, to.rank).map(|()| started)
    }

    fn atomic(&self, at: Word, op: Atomic, old: OldValue) -> Result<Started> {
        let is_posted = old == OldValue::Ignored;
        let place = self.told.operation_place();
        let is_signal = place.is_some() && self.told.is_program(at.segment, at.offset);
        if is_signal && let Some(held) = self.held_for(at, op, old) {
            self.put_and_signal(held.to(), &held.bytes, held.place, (at, op))?;
            return Ok(Started::Done(Reply::None));
        }
        self.let_go()?;
        if is_posted && self.told.is_foreign_put() {
            let word = Region::block(at.rank, at.segment, at.offset, at.width.bytes());
            self.see_put(&word, place)?;
            return self.inner.atomic(at, op, old);
        }
        let (kind, attempt) = (self.told.kind(), self.told.attempt(op));
        let atomic = SeenAtomic {
            at,
            op,
            is_posted: is_posted || self.told.is_nonblocking(),
            signalled: false,
            kind,
            attempt,
        };
        self.see_word(atomic, place)?;
        let started = self.inner.atomic(at, op, old)?;
        self.told.has_started();
        if is_posted {
            return self.cure(place, at.rank).map(|()| started);
        }
        Ok(self.started(started, Asked::Atomic(atomic)))
    }

    fn fence(&self) -> Result<()> {
        self.let_go()?;
        self.inner.fence()?;
        let is_program = self.told.operation_place().is_some();
        self.told.run(&[Call::Fence { actor: self.told.actor(), is_program }]);
        self.checker().check()
    }

    fn flush(&self, peer: Rank) -> Result<()> {
        self.let_go()?;
        self.inner.flush(peer)?;
        if !self.told.is_aside.load(Ordering::Relaxed) {
            self.told.run(&[Call::Flush { actor: self.told.actor(), target: peer.index() }]);
        }
        self.checker().check()
    }

    fn call(&self, node: Node, handler: HandlerId, bytes: &[u8]) -> Result<Started> {
        self.let_go()?;
        let word = clock_of_agent(self.checker(), node);
        let released = Released::nobodys(word);
        self.told.run(&[Call::Release { actor: self.told.actor(), released }]);
        self.checker().check()?;
        let started = self.inner.call(node, handler, bytes)?;
        Ok(self.started(started, Asked::Agent(word)))
    }

    fn serve(&self, handler: HandlerId, mut run: Handler) -> Result<()> {
        let place = self.told.operation_place();
        let topology = self.inner.job().topology.clone();
        let served = Served { told: self.told.clone(), topology, place };
        let seen = move |agent: &dyn Agent, caller: Rank, bytes: &[u8]| {
            served.run(agent, |agent| run(agent, caller, bytes))
        };
        self.inner.serve(handler, Box::new(seen))
    }

    fn poll(&self, ticket: Ticket) -> Result<Option<Reply>> {
        let reply = self.inner.poll(ticket)?;
        if let Some(reply) = &reply
            && let Some(asked) = locked(&self.tickets).remove(&ticket)
        {
            self.told.replied(self.told.actor(), &asked, reply);
        }
        if reply.is_some() && locked(&self.locked_get).take_if(|held| *held == ticket).is_some() {
            self.told.unlock()?;
        }
        Ok(reply)
    }

    fn block(&self, wait: &Wait<'_>) -> Result<Wake> {
        let place = self.told.operation_place();
        self.let_go()?;
        let woken = self.inner.block(wait)?;
        if let (Wake::Ready { which, value }, Event::Words(conditions)) = (woken, wait.event)
            && let Some(condition) = conditions.get(which)
        {
            let at = condition.at;
            self.told.acquire_word(at, Some(value), Some(slack(condition, value)));
            if let Some(place) = place
                && self.told.is_program(at.segment, at.offset)
            {
                self.told.see_wait(at, place);
            }
        }
        self.checker().check()?;
        Ok(woken)
    }

    fn context(&self) -> Result<Box<dyn Connection>> {
        Ok(Box::new(Checked::beside(self.inner.context()?, self.told.state.clone())))
    }

    /// None: a sync that counts what lands has no flush that could be seen.
    fn landings(&self) -> Option<&dyn Landings> {
        None
    }

    fn probe(&self) -> Option<Arc<dyn Probe>> {
        Some(self.told.clone())
    }
}
