//! One run: fibers, a machine, and an oracle that picks what happens next.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use farside_fabric::{Condition, Event as Awaited, Rank, Topology, Wait};

use crate::bits::Bits;
use crate::event::{Access, Event, EventId, Unseen};
use crate::fiber::{Resume, Stacks};
use crate::fibers::{Fibers, Program};
use crate::machine::{Doing, FaultModel, Machine};
use crate::store::word_access;

/// Chooses what happens next.
pub trait Oracle {
    /// Picks one of `events`, by its index; `None` ends the run because nothing new would come of
    /// it.
    fn pick(&mut self, events: &[Event]) -> Option<usize>;

    /// Returns whether each step is to say what must come before it. That takes time and memory
    /// which grow with the square of the run's length.
    fn wants_order(&self) -> bool {
        false
    }
}

/// A step of a run.
#[derive(Debug, Clone)]
pub struct Step {
    /// The event.
    pub event: Event,
    /// The steps that must come before it, as far as the order matters; index into the run.
    pub before: Bits,
    /// Of those, the ones that caused it to be possible at all: they cannot come after it.
    pub causes: Bits,
    /// The value that the word held before, if the event was an atomic.
    held: Option<u64>,
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

/// A wait began when its word had been changed, and would have been over with what the word held
/// before.
#[derive(Debug)]
pub(crate) struct LateWait {
    /// The step that changed the word.
    pub(crate) changed: usize,
    /// The number of steps when the wait began.
    pub(crate) began: usize,
}

/// A simulated job that can be run again and again.
pub struct Simulation {
    topology: Topology,
    root_bytes: u64,
    stacks: Rc<Stacks>,
    steps_max: usize,
    fault_model: FaultModel,
    processors: Option<u32>,
    refuses_unordered: bool,
    digests: bool,
}

impl Simulation {
    /// Ranks as `topology` has them, each with a first segment of `root_bytes`.
    pub fn new(topology: Topology, root_bytes: u64) -> Simulation {
        let (stacks, fault_model) = (Rc::default(), FaultModel::default());
        Simulation {
            topology,
            root_bytes,
            stacks,
            steps_max: 100_000,
            fault_model,
            processors: None,
            refuses_unordered: false,
            digests: false,
        }
    }

    /// Has each run say what memory held in the end, as a digest: for comparing sets of runs.
    #[must_use]
    pub fn digests(mut self, digests: bool) -> Simulation {
        self.digests = digests;
        self
    }

    /// Gives up a run that takes more steps than this.
    #[must_use]
    pub fn steps_max(mut self, steps_max: usize) -> Simulation {
        self.steps_max = steps_max;
        self
    }

    /// Lets up to so many ranks die, each at any step. Operations that a dead rank had posted land
    /// or vanish, as the oracle says; the others hear of the death at once. Dead ranks do not make
    /// a run fail, but a survivor that waits for ever does, and so does one that returns an error.
    #[must_use]
    pub fn deaths(mut self, deaths: u32) -> Simulation {
        self.fault_model.deaths = deaths;
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
        let mut machine = Machine::new(self.topology.clone(), self.root_bytes, self.fault_model);
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
        let state = self.digests.then(|| machine.store.digest());
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
            let events = self.machine.borrow().enabled();
            if events.iter().all(|event| event.id.is_optional()) {
                match self.nothing_happens() {
                    None => continue,
                    Some(verdict) => return verdict,
                }
            }
            let index = if self.prepared { oracle.pick(&events) } else { oldest(&events) };
            let Some(index) = index else {
                return Verdict::Pruned;
            };
            self.happen(&events[index]);
        }
    }

    /// Makes the next step of the beginning that is given.
    fn repeat(&mut self) -> Option<Verdict> {
        let id = self.steps[self.at].event.id;
        // Time passes, in the simulation as then, when nothing could happen, also before an event
        // that nothing waits for.
        let machine = self.machine.borrow();
        let may_happen = machine.may_happen(id)
            && !(id.is_optional() && machine.enabled().iter().all(|event| event.id.is_optional()));
        drop(machine);
        if !may_happen {
            return self.nothing_happens();
        }
        let at = self.at;
        self.at += 1;
        self.change(id, Some(at));
        None
    }

    /// No event is possible: the preparations are over, or the run is, or time passes, or the ranks
    /// are in a deadlock.
    fn nothing_happens(&mut self) -> Option<Verdict> {
        let mut machine = self.machine.borrow_mut();
        let is =
            |doing: fn(&Doing) -> bool| machine.members.iter().all(|member| doing(&member.doing));
        if is(|doing| matches!(doing, Doing::Over)) {
            return Some(Verdict::Passed);
        }
        if is(|doing| matches!(doing, Doing::Over | Doing::Prepared)) {
            self.prepared = true;
            for member in
                machine.members.iter_mut().filter(|member| matches!(member.doing, Doing::Prepared))
            {
                member.doing = Doing::Runs(Resume::Go(0, 0));
            }
            return None;
        }
        // The departure of others would wake it, too; but a program may not count on that.
        if machine.has_missed_wakeup() {
            return Some(Verdict::Failed(format!("deadlock: {}", machine.deadlock_report())));
        }
        if machine.publish_departures() {
            return None;
        }
        match machine.time_out() {
            Some(rank) => {
                // All that has happened had to happen for the time to pass.
                if self.ordered {
                    (0..self.at).for_each(|step| self.clocks[rank].insert(step));
                }
                None
            }
            None => Some(Verdict::Failed(format!("deadlock: {}", machine.deadlock_report()))),
        }
    }

    /// Runs all ranks that can run, until every one waits; returns false if that is not to be
    /// expected.
    fn run_fibers(&mut self) -> bool {
        for _ in 0..RESUMES_MAX {
            self.machine.borrow_mut().settle();
            let next = {
                let machine = self.machine.borrow();
                machine.members.iter().enumerate().find_map(|(rank, member)| match member.doing {
                    Doing::Runs(resume) => Some((rank, resume)),
                    _ => None,
                })
            };
            let Some((rank, resume)) = next else {
                return true;
            };
            self.learn(rank);
            let pause = self.fibers.resume(rank, resume);
            if let Some(pause) = pause {
                self.machine.borrow_mut().pause(Rank(rank as u32), pause);
            }
            if self.ordered && self.prepared {
                // It may have found a flush complete without having to wait.
                self.learn(rank);
                self.note_issued(rank);
            }
        }
        false
    }

    /// Adds the steps that a rank has learned of, and all that came before them, to its clock.
    fn learn(&mut self, rank: usize) {
        let learned = self.machine.borrow_mut().learned(rank);
        for known in learned.into_iter().filter(|_| self.ordered) {
            if !self.clocks[rank].contains(known) {
                self.clocks[rank].extend(&self.steps[known].before);
                self.clocks[rank].insert(known);
            }
        }
    }

    /// Events that a rank has brought about know what the rank knew.
    fn note_issued(&mut self, rank: usize) {
        let mut machine = self.machine.borrow_mut();
        for flight in machine.flights.iter_mut().rev().take_while(|flight| flight.known.is_none()) {
            flight.known = Some(self.clocks[rank].clone());
        }
        let member = &mut machine.members[rank];
        if let Doing::Waits { .. } | Doing::Accesses { .. } | Doing::Polls { .. } = member.doing {
            member.known.clone_from(&self.clocks[rank]);
        }
        if let Doing::Waits { wait, .. } = member.doing
            && self.at > self.given
        {
            // A departure that it does not know of ends a wait whose word is not right, and so may
            // a time limit.
            let is_disturbed = machine.store.departures() != wait.get().known_departures
                || machine.may_time_out(wait.get());
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
            before = causes.clone();
            for (earlier, step) in self.steps.iter().enumerate().rev() {
                if !before.contains(earlier) && step.event.conflicts(event) {
                    before.insert(earlier);
                    before.extend(&step.before);
                }
            }
        }
        self.steps.push(Step { event: event.clone(), before, causes, held: None });
        self.at += 1;
        self.change(event.id, Some(at));
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

/// A wait is over: the change that made it so, without which it would not be, cannot come after it.
fn note_enabling(steps: &[Step], wait: &Wait<'_>, causes: &mut Bits) {
    let Awaited::Words(conditions) = wait.event else {
        return;
    };
    // The last change of any of its words; the others are now as they were before it.
    let changes = |step: &Step| conditions.iter().find(|condition| step.changes(condition));
    let last =
        steps.iter().enumerate().rev().find_map(|(at, step)| Some((at, step, changes(step)?)));
    let Some((at, step, condition)) = last else {
        return;
    };
    let others = conditions.iter().filter(|other| other.at != condition.at);
    let value = |other: &Condition<'_>| {
        other.memory.look(other.at.offset, other.at.width).map_or(0, |word| word.load())
    };
    let was_over = step.held_at(condition).is_none_or(|held| (condition.until)(held))
        || others.into_iter().any(|other| step.changes(other) || (other.until)(value(other)));
    if !was_over {
        causes.extend(&step.before);
        causes.insert(at);
    }
}

/// A wait begins: notes the steps before which it would have been over, as far as can be told.
fn note_late(
    steps: &[Step],
    wait: &Wait<'_>,
    clock: &Bits,
    is_disturbed: bool,
    late: &mut Vec<LateWait>,
) {
    let Awaited::Words(conditions) = wait.event else {
        return;
    };
    for condition in conditions {
        for (changed, step) in steps.iter().enumerate().filter(|(_, step)| step.changes(condition))
        {
            let would_be_over =
                is_disturbed || step.held_at(condition).is_none_or(|held| (condition.until)(held));
            if would_be_over && !clock.contains(changed) {
                late.push(LateWait { changed, began: steps.len() });
            }
        }
    }
}

impl Step {
    /// Returns whether it changes the word of a condition.
    fn changes(&self, condition: &Condition<'_>) -> bool {
        let look = word_access(condition.at, false);
        self.event
            .accesses
            .as_deref()
            .is_none_or(|all| all.iter().any(|access| access.conflicts(&look)))
    }

    /// Returns the value that a word held before this step changed it, if that is known.
    fn held_at(&self, condition: &Condition<'_>) -> Option<u64> {
        let look = word_access(condition.at, true);
        let is_only = |all: &[Access]| match all {
            [first, rest @ ..] => {
                *first == look && !rest.iter().any(|other| other.conflicts(&look))
            }
            [] => false,
        };
        self.held.filter(|_| self.event.accesses.as_deref().is_some_and(is_only))
    }
}

fn oldest(events: &[Event]) -> Option<usize> {
    let ages = events.iter().enumerate().filter(|(_, event)| !event.id.is_optional());
    ages.map(|(index, event)| (event.id.serial, event.id.rank, index))
        .min()
        .map(|(_, _, index)| index)
}
