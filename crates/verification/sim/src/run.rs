//! One run: fibers, a machine, and an oracle that picks what happens next.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use farside_fabric::{Rank, Topology};

use crate::bits::Bits;
use crate::event::{Access, Event, EventId, Unseen, What};
use crate::fiber::{Resume, Stacks};
use crate::fibers::{Fibers, Program};
use crate::late::{note_enabling, note_late};
use crate::machine::{FaultModel, Machine};
use crate::member::{Doing, Member};
use crate::memory::Rooms;
use crate::step::{LateWait, Step};
use crate::store::Store;

/// Chooses what happens next.
pub trait Oracle {
    /// Picks one of `events`, by its index, or ends the run: because nothing new would come of it,
    /// or because something is wrong.
    fn pick(&mut self, events: &[Event]) -> Result<usize, Verdict>;

    /// Is told, ahead of a pick, of words that were not right when a departure ended a wait for
    /// them, as a part of the last step.
    fn looked(&mut self, _words: &[Access]) {}

    /// Returns whether each step is to say what must come before it. That takes time and memory
    /// which grow with the square of the run's length.
    fn wants_order(&self) -> bool {
        false
    }
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every rank has done what it should.
    Passed,
    /// Something was wrong.
    Failed(String),
    /// The oracle saw no point in going on.
    Pruned,
    /// It took more steps than allowed.
    TooLong,
}

/// A run.
#[derive(Debug)]
pub struct Run {
    /// The way in which it ended.
    pub verdict: Verdict,
    /// The steps after the preparations.
    pub steps: Vec<Step>,
    /// The number of steps before the first that used memory of the program's own.
    pub unused: usize,
    /// The memory that ranks used in a way that cannot be followed.
    pub unseen: BTreeSet<Unseen>,
    /// A digest of what memory held in the end, if that is wanted.
    pub state: Option<u64>,
    /// Waits that might have been over sooner.
    pub(crate) late: Vec<LateWait>,
}

/// A simulated job that can be run again and again.
pub struct Simulation {
    topology: Topology,
    root_bytes: u64,
    stacks: Rc<Stacks>,
    rooms: Arc<Rooms>,
    steps_max: usize,
    fault_model: FaultModel,
    processors: Option<u32>,
    refuses_unordered: bool,
    digests: bool,
    digests_first: bool,
}

impl Simulation {
    /// Ranks as `topology` has them, each with a first segment of `root_bytes`.
    pub fn new(topology: Topology, root_bytes: u64) -> Simulation {
        Simulation {
            topology,
            root_bytes,
            stacks: Rc::default(),
            rooms: Arc::default(),
            steps_max: 100_000,
            fault_model: FaultModel::default(),
            processors: None,
            refuses_unordered: false,
            digests: false,
            digests_first: true,
        }
    }

    /// Has each run say what memory held in the end, as a digest: for comparing sets of runs.
    #[must_use]
    pub fn digests(mut self, digests: bool) -> Simulation {
        self.digests = digests;
        self
    }

    /// Leaves the first segments out of these digests: the library's own messages, of which there
    /// is a megabyte for each rank.
    #[must_use]
    pub fn without_first_segments(mut self) -> Simulation {
        self.digests_first = false;
        self
    }

    /// Gives up a run that takes more steps than this.
    #[must_use]
    pub fn steps_max(mut self, steps_max: usize) -> Simulation {
        self.steps_max = steps_max;
        self
    }

    /// Lets up to so many ranks die, each at any step. Operations that a dead rank had posted land
    /// or vanish, as the oracle says; the others hear of the death at once, unless
    /// [`Simulation::slow_news`] says otherwise. Dead ranks do not make a run fail, but a survivor
    /// that waits for ever does, and so does one that returns an error.
    #[must_use]
    pub fn deaths(mut self, deaths: u32) -> Simulation {
        self.fault_model.deaths = deaths;
        self
    }

    /// Lets each node hear of a death at a time of its own, in any order. Until then its ranks go
    /// on as if nothing had happened, also with the memory of the dead.
    #[must_use]
    pub fn slow_news(mut self, slow_news: bool) -> Simulation {
        self.fault_model.slow_news = slow_news;
        self
    }

    /// Lets up to so many waits with a time limit run into it while something else can happen, each
    /// at any step. Otherwise time passes only when nothing else can happen.
    #[must_use]
    pub fn time_outs(mut self, time_outs: u32) -> Simulation {
        self.fault_model.time_outs = time_outs;
        self
    }

    /// Lets a rank that looks at an operation which it has started find it complete, or not, as the
    /// oracle says. Otherwise it has never landed when its rank looks, unless the rank has waited
    /// for something since.
    #[must_use]
    pub fn looks(mut self, looks: bool) -> Simulation {
        self.fault_model.looks = looks;
        self
    }

    /// Lets puts and gets of more than 8 bytes land, and read, word by word, in any order: as much
    /// tearing as the memory model allows, except inside of words.
    #[must_use]
    pub fn torn(mut self, torn: bool) -> Simulation {
        self.fault_model.torn = torn;
        self
    }

    /// Lets only so many ranks of a node run at the same time, as far as protocols ask.
    #[must_use]
    pub fn processors(mut self, processors: u32) -> Simulation {
        self.processors = Some(processors);
        self
    }

    /// Lets a run fail in which a rank posts a store, or any other operation that does not commute,
    /// to bytes while an earlier one of its own to them may still be on its way, without a fence
    /// between: which of the two stays is then not known.
    #[must_use]
    pub fn refuse_unordered_stores(mut self, refuses: bool) -> Simulation {
        self.refuses_unordered = refuses;
        self
    }

    /// Runs a program once.
    pub fn run(&self, program: &Program, oracle: &mut dyn Oracle) -> Run {
        self.run_on(program, oracle, Vec::new())
    }

    /// Runs a program once, with the same beginning as an earlier run, which is not asked for.
    pub(crate) fn run_on(
        &self,
        program: &Program,
        oracle: &mut dyn Oracle,
        beginning: Vec<Step>,
    ) -> Run {
        let store = Store::new(self.topology.clone(), self.root_bytes, &self.rooms);
        let mut machine = Machine::new(store, self.fault_model);
        machine.refuses_unordered = self.refuses_unordered;
        machine.store.processors = self.processors.unwrap_or(self.topology.ranks());
        let machine = Rc::new(RefCell::new(machine));
        let fibers =
            match Fibers::new(&self.topology, self.root_bytes, &self.stacks, program, &machine) {
                Ok(fibers) => fibers,
                Err(problem) => {
                    return Run {
                        verdict: Verdict::Failed(problem),
                        steps: Vec::new(),
                        unused: 0,
                        unseen: BTreeSet::new(),
                        state: None,
                        late: Vec::new(),
                    };
                }
            };
        let mut driver = Driver {
            machine,
            fibers,
            at: 0,
            given: beginning.len(),
            steps: beginning,
            clocks: vec![Bits::default(); self.topology.ranks() as usize],
            late: Vec::new(),
            prepared: false,
            ordered: oracle.wants_order(),
        };
        let verdict = driver.drive(oracle, self.steps_max);
        driver.steps.truncate(driver.at);
        let mut machine = driver.machine.borrow_mut();
        let unseen = std::mem::take(&mut machine.unseen);
        let uses = |step: &Step| machine.is_program(&step.event);
        let unused = driver.steps.iter().position(uses).unwrap_or(0);
        let state = self.digests.then(|| machine.store.digest(self.digests_first));
        drop(machine);
        Run { verdict, steps: driver.steps, unused, unseen, state, late: driver.late }
    }
}

/// The number of times that fibers may run before an event happens. A rank that goes on polling
/// regardless of what it finds does not wait.
const RESUMES_MAX: usize = 100_000;

struct Driver {
    machine: Rc<RefCell<Machine>>,
    fibers: Fibers,
    /// The steps so far, and while the beginning is repeated, those to come.
    steps: Vec<Step>,
    /// The number of steps so far.
    at: usize,
    /// The number of steps that are the same as in an earlier run.
    given: usize,
    /// For each rank, the steps that it knows of.
    clocks: Vec<Bits>,
    late: Vec<LateWait>,
    prepared: bool,
    /// True if steps say what must come before them.
    ordered: bool,
}

impl Driver {
    fn drive(&mut self, oracle: &mut dyn Oracle, steps_max: usize) -> Verdict {
        loop {
            if !self.run_fibers() {
                return Verdict::TooLong;
            }
            self.note_looked();
            let refusal = self.machine.borrow_mut().refusal.take();
            if let Some(problem) = refusal.or_else(|| self.fibers.failure()) {
                return Verdict::Failed(problem);
            }
            if self.prepared && self.at < self.given {
                if let Some(verdict) = self.repeat() {
                    return verdict;
                }
                continue;
            }
            if self.at >= steps_max {
                return Verdict::TooLong;
            }
            // Nobody picks in the preparations, which are the larger part of most runs.
            let first = if self.prepared { None } else { self.machine.borrow().oldest() };
            if let Some(first) = first {
                self.machine.borrow_mut().happen(first, None);
                continue;
            }
            let events = self.machine.borrow().enabled();
            if events.iter().all(|event| event.id.is_optional() || event.id.is_quiet()) {
                if self.begin() {
                    continue;
                }
                if let Some(verdict) = self.end(&events) {
                    return verdict;
                }
            }
            if let Some(last) = self.at.checked_sub(1) {
                oracle.looked(&self.steps[last].looked);
            }
            let index = if self.prepared { oracle.pick(&events) } else { oldest(&events) };
            match index {
                Ok(index) => self.happen(&events[index]),
                Err(verdict) => return verdict,
            }
        }
    }

    /// A departure has ended waits whose words were not right: after the last step, so that it
    /// depends on what changes these words.
    fn note_looked(&mut self) {
        let looked = std::mem::take(&mut self.machine.borrow_mut().looked);
        if let Some(step) = self.at.checked_sub(1).and_then(|last| self.steps.get_mut(last)) {
            step.looked = looked;
            if let Some(before) = self.ordered.then(|| self.before_looked()) {
                self.steps[self.at - 1].before.extend(&before);
            }
        }
    }

    /// Returns the steps before the last that have changed words which it looked at.
    fn before_looked(&self) -> Bits {
        let mut before = Bits::default();
        let last = &self.steps[self.at - 1];
        for (earlier, step) in self.steps[..self.at - 1].iter().enumerate().rev() {
            if !before.contains(earlier) && step.event.touches(&last.looked) {
                before.insert(earlier);
                before.extend(&step.before);
            }
        }
        before
    }

    /// Makes the next step of the beginning that is given.
    fn repeat(&mut self) -> Option<Verdict> {
        let at = self.at;
        let event = &self.steps[at].event;
        if !self.machine.borrow().may_happen(event) {
            let events = self.machine.borrow().enabled();
            let now = events.iter().find(|now| now.id == event.id);
            return Some(Verdict::Failed(differs(at, Some(event), now)));
        }
        let id = event.id;
        self.at += 1;
        self.change(id, Some(at));
        None
    }

    /// Nothing can happen: ends the preparations, if that is what they are at.
    fn begin(&mut self) -> bool {
        let mut machine = self.machine.borrow_mut();
        let is_ready = |member: &Member| matches!(member.doing, Doing::Over | Doing::Prepared);
        if self.prepared || !machine.members.iter().all(is_ready) {
            return false;
        }
        self.prepared = true;
        let prepared = |member: &&mut Member| matches!(member.doing, Doing::Prepared);
        for member in machine.members.iter_mut().filter(prepared) {
            member.doing = Doing::Runs(Resume::Go(0, 0));
        }
        true
    }

    /// Nothing can happen, except for those events that are possible then: tells whether the run is
    /// over, or the ranks are in a deadlock.
    fn end(&self, events: &[Event]) -> Option<Verdict> {
        let machine = self.machine.borrow();
        if machine.members.iter().all(|member| matches!(member.doing, Doing::Over)) {
            return Some(Verdict::Passed);
        }
        // The departure of others would wake one that sleeps, too; but a program may not count on
        // that.
        let goes_on = |event: &Event| match event.what {
            What::Leaving => !machine.has_missed_wakeup(),
            _ => event.id.is_quiet() || event.id.is_time_out(),
        };
        let is_stuck = !events.iter().any(goes_on);
        is_stuck.then(|| Verdict::Failed(format!("deadlock: {}", machine.deadlock_report())))
    }

    /// Runs all ranks that can run, until every one waits; returns false if that is not to be
    /// expected.
    fn run_fibers(&mut self) -> bool {
        self.machine.borrow_mut().settle();
        let mut from = Rank(0);
        for _ in 0..RESUMES_MAX {
            let next = self.machine.borrow().next_running(from);
            let Some((rank, resume)) = next else {
                return true;
            };
            self.learn(rank.index());
            let pause = self.fibers.resume(rank.index(), resume);
            if let Some(pause) = pause {
                self.machine.borrow_mut().pause(rank, pause);
            }
            if self.ordered && self.prepared {
                self.note_issued(rank.index());
            }
            from = self.machine.borrow_mut().settle_after(rank);
        }
        false
    }

    fn learn(&mut self, rank: usize) {
        let learned = self.machine.borrow_mut().learned(rank);
        if self.ordered {
            learn(&mut self.clocks[rank], &self.steps, &learned);
        }
    }

    /// Events that a rank has brought about know what the rank knew. It may have learned something
    /// between two of them: that an operation was complete.
    fn note_issued(&mut self, rank: usize) {
        let mut machine = self.machine.borrow_mut();
        let learned = machine.learned(rank);
        let clock = &mut self.clocks[rank];
        let mut done = 0;
        let old = machine.flights.iter().rposition(|flight| flight.known.is_some());
        for flight in &mut machine.flights[old.map_or(0, |old| old + 1)..] {
            learn(clock, &self.steps, &learned[done..flight.learned]);
            done = flight.learned;
            flight.known = Some(clock.clone());
        }
        learn(clock, &self.steps, &learned[done..]);
        let member = &mut machine.members[rank];
        if let Doing::Waits { .. } | Doing::Accesses { .. } | Doing::Polls { .. } = member.doing {
            member.known.clone_from(&self.clocks[rank]);
        }
        if let Doing::Polls { asked, again: false, .. } = member.doing
            && self.at > self.given
        {
            // It would have found an operation under way that has landed before it looks.
            let landed = member.replied.iter().filter(|(ticket, _)| *ticket == asked);
            let unknown = landed.filter(|(_, step)| !self.clocks[rank].contains(*step));
            let began = self.at;
            self.late.extend(unknown.map(|&(_, changed)| LateWait { changed, began }));
        }
        if let Doing::Waits { wait, .. } = member.doing
            && self.at > self.given
        {
            // A departure that it does not know of ends a wait whose word is not right, and so may
            // a time limit.
            let heard = machine.store.departures_known_to(Rank(rank as u32));
            let is_disturbed =
                heard != wait.get().known_departures || machine.may_time_out(wait.get());
            let (steps, clock) = (&self.steps[..self.at], &self.clocks[rank]);
            note_late(steps, wait.get(), clock, is_disturbed, &mut self.late);
        }
    }

    fn happen(&mut self, event: &Event) {
        if !self.prepared {
            self.machine.borrow_mut().happen(event.id, None);
            return;
        }
        let at = self.at;
        let (mut before, mut causes) = (Bits::default(), Bits::default());
        if self.ordered {
            let known = |step: usize, causes: &mut Bits| causes.extend(&self.steps[step].before);
            causes = self.machine.borrow().causes(event.id, known);
            if let Some(wait) = self.machine.borrow().wait_of(event.id) {
                note_enabling(&self.steps, wait.get(), &mut causes);
            }
            if event.id.is_quiet() {
                // Nothing else could happen, because all of this had.
                (0..at).for_each(|step| causes.insert(step));
            }
            before = causes.clone();
            for (earlier, step) in self.steps.iter().enumerate().rev() {
                let conflicts = step.event.conflicts(event) || event.touches(&step.looked);
                if !before.contains(earlier) && conflicts {
                    before.insert(earlier);
                    before.extend(&step.before);
                }
            }
        }
        let (event, id, looked) = (event.clone(), event.id, Vec::new());
        self.steps.push(Step { event, before, causes, looked, held: None });
        self.at += 1;
        self.change(id, Some(at));
        self.steps[at].held = self.machine.borrow().held;
    }

    fn change(&mut self, id: EventId, at: Option<usize>) {
        let at = at.filter(|_| self.ordered);
        self.machine.borrow_mut().happen(id, at);
        if id.is_death() {
            self.fibers.kill(id.rank.index());
        }
        let Some(at) = at else {
            return;
        };
        // An operation that a handler has posted depends on the call that the handler ran for, and
        // on no more.
        for flight in self
            .machine
            .borrow_mut()
            .flights
            .iter_mut()
            .rev()
            .take_while(|flight| flight.known.is_none())
        {
            let mut known = self.steps[at].before.clone();
            known.insert(at);
            flight.known = Some(known);
        }
    }
}

/// Adds steps, and all that came before them, to what is known.
fn learn(clock: &mut Bits, steps: &[Step], learned: &[usize]) {
    for &known in learned {
        if !clock.contains(known) {
            clock.extend(&steps[known].before);
            clock.insert(known);
        }
    }
}

/// Says that a program does something else in this run than in an earlier one with the same
/// beginning.
pub(crate) fn differs(at: usize, then: Option<&Event>, now: Option<&Event>) -> String {
    let then = then.map_or("something else".to_owned(), Event::to_string);
    let now = match now.map(Event::to_string) {
        Some(now) if now == then => "has other values now".to_owned(),
        Some(now) => format!("now is \"{now}\""),
        None => "is not possible now".to_owned(),
    };
    format!(
        "the program does not do the same in every run: step {} was \"{then}\", and {now}; what \
         outlives a run, clocks and random numbers, such as those of a hash map, make it differ",
        at + 1
    )
}

fn oldest(events: &[Event]) -> Result<usize, Verdict> {
    let ages = events.iter().enumerate().filter(|(_, event)| !event.id.is_optional());
    let oldest = ages.map(|(index, event)| (event.id.serial, event.id.rank, index)).min();
    oldest.map(|(_, _, index)| index).ok_or(Verdict::Pruned)
}
