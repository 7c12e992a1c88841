//! One run: fibers, a machine, and an oracle that picks what happens next.

use std::cell::RefCell;
use std::rc::Rc;

use farside_fabric::{Rank, Topology};

use crate::crew::{Crew, Program};
use crate::event::{Access, Event, EventId};
use crate::fiber::{Resume, Stacks};
use crate::machine::{Doing, Machine};

/// Chooses what happens next.
pub trait Oracle {
    /// Picks one of `events`, by its index; `None` ends the run because nothing new would come of it.
    fn pick(&mut self, events: &[Event]) -> Option<usize>;

    /// Whether each step is to say what must come before it, which takes time and memory that grow with the square of the run's length.
    fn wants_order(&self) -> bool {
        false
    }
}

/// A step of a run.
#[derive(Debug, Clone)]
pub struct Step {
    /// What happened.
    pub event: Event,
    /// The steps that must come before it, as far as the order matters; index into the run.
    pub before: Bits,
    /// Of those, the ones that caused it to be possible at all: they cannot come after it.
    pub causes: Bits,
}

/// How a run ended.
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
    /// How it ended.
    pub verdict: Verdict,
    /// What happened, after the preparations.
    pub steps: Vec<Step>,
}

/// A set of steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bits(Vec<u64>);

impl Bits {
    /// Whether a step is in the set.
    pub fn contains(&self, step: usize) -> bool {
        self.0.get(step / 64).is_some_and(|word| word & (1 << (step % 64)) != 0)
    }

    fn insert(&mut self, step: usize) {
        if self.0.len() <= step / 64 {
            self.0.resize(step / 64 + 1, 0);
        }
        self.0[step / 64] |= 1 << (step % 64);
    }

    fn extend(&mut self, other: &Bits) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine |= theirs);
    }
}

/// A simulated job that can be run again and again.
pub struct Simulation {
    topology: Topology,
    root_bytes: u64,
    stacks: Rc<Stacks>,
    steps_max: usize,
}

impl Simulation {
    /// Ranks as `topology` has them, each with a first segment of `root_bytes`.
    pub fn new(topology: Topology, root_bytes: u64) -> Simulation {
        Simulation { topology, root_bytes, stacks: Rc::default(), steps_max: 100_000 }
    }

    /// Gives up a run that takes more steps than this.
    #[must_use]
    pub fn steps_max(mut self, steps_max: usize) -> Simulation {
        self.steps_max = steps_max;
        self
    }

    /// Runs a program once.
    pub fn run(&self, program: &Program, oracle: &mut dyn Oracle) -> Run {
        let machine = Rc::new(RefCell::new(Machine::new(self.topology.clone(), self.root_bytes)));
        let crew = match Crew::new(&self.topology, self.root_bytes, &self.stacks, program, machine.clone()) {
            Ok(crew) => crew,
            Err(problem) => return Run { verdict: Verdict::Failed(problem), steps: Vec::new() },
        };
        let mut driver = Driver {
            machine,
            crew,
            steps: Vec::new(),
            clocks: vec![Bits::default(); self.topology.ranks() as usize],
            issued: std::collections::HashMap::new(),
            prepared: false,
            ordered: oracle.wants_order(),
        };
        let verdict = driver.drive(oracle, self.steps_max);
        Run { verdict, steps: driver.steps }
    }
}

struct Driver {
    machine: Rc<RefCell<Machine>>,
    crew: Crew,
    steps: Vec<Step>,
    /// For each rank, the steps that it knows of.
    clocks: Vec<Bits>,
    /// For each event that is possible or may become so: what its rank knew when it came about.
    issued: std::collections::HashMap<EventId, Bits>,
    prepared: bool,
    /// Whether steps say what must come before them.
    ordered: bool,
}

impl Driver {
    fn drive(&mut self, oracle: &mut dyn Oracle, steps_max: usize) -> Verdict {
        loop {
            self.run_fibers();
            if let Some(problem) = self.crew.failure() {
                return Verdict::Failed(problem);
            }
            if self.steps.len() >= steps_max {
                return Verdict::TooLong;
            }
            let events = self.machine.borrow().enabled();
            if events.is_empty() {
                match self.nothing_happens() {
                    None => continue,
                    Some(verdict) => return verdict,
                }
            }
            let index = if self.prepared { oracle.pick(&events) } else { Some(oldest(&events)) };
            let Some(index) = index else {
                return Verdict::Pruned;
            };
            self.happen(&events[index]);
        }
    }

    /// Nobody can do anything: the preparations are over, or the run is, or time passes, or all is stuck.
    fn nothing_happens(&mut self) -> Option<Verdict> {
        let mut machine = self.machine.borrow_mut();
        let is = |doing: fn(&Doing) -> bool| machine.members.iter().all(|member| doing(&member.doing));
        if is(|doing| matches!(doing, Doing::Over)) {
            return Some(Verdict::Passed);
        }
        if is(|doing| matches!(doing, Doing::Over | Doing::Prepared)) {
            self.prepared = true;
            for member in machine.members.iter_mut().filter(|member| matches!(member.doing, Doing::Prepared)) {
                member.doing = Doing::Runs(Resume::Go(0, 0));
            }
            return None;
        }
        if machine.time_out() {
            return None;
        }
        Some(Verdict::Failed(format!("deadlock: {}", machine.stuck())))
    }

    /// Runs all that can run, until everybody waits.
    fn run_fibers(&mut self) {
        loop {
            self.machine.borrow_mut().settle();
            let next = {
                let machine = self.machine.borrow();
                machine.members.iter().enumerate().find_map(|(rank, member)| match member.doing {
                    Doing::Runs(resume) => Some((rank, resume)),
                    _ => None,
                })
            };
            let Some((rank, resume)) = next else {
                return;
            };
            // Whoever goes on because of something knows of it, and of all that came before it.
            let learned = self.machine.borrow_mut().learned(rank);
            for known in learned.into_iter().filter(|_| self.ordered) {
                self.clocks[rank].extend(&self.steps[known].before);
                self.clocks[rank].insert(known);
            }
            let pause = self.crew.resume(rank, resume);
            if let Some(pause) = pause {
                self.machine.borrow_mut().pause(Rank(rank as u32), pause);
            }
            if self.ordered {
                self.note_issued(rank);
            }
        }
    }

    /// Events that a rank has brought about know what the rank knew.
    fn note_issued(&mut self, rank: usize) {
        let machine = self.machine.borrow();
        let waits = match machine.members[rank].doing {
            Doing::Waits { id, .. } => Some(id),
            _ => None,
        };
        let own = machine.flights.iter().filter(|flight| !flight.by_agent && flight.id.rank.index() == rank);
        for id in own.map(|flight| flight.id).chain(waits) {
            self.issued.entry(id).or_insert_with(|| self.clocks[rank].clone());
        }
    }

    fn happen(&mut self, event: &Event) {
        let at = self.steps.len();
        if self.prepared && !self.ordered {
            self.steps.push(Step { event: event.clone(), before: Bits::default(), causes: Bits::default() });
        } else if self.prepared {
            let mut causes = self.issued.get(&event.id).cloned().unwrap_or_default();
            // What a fence or a signal held back until something else had landed cannot come before it.
            for step in self.machine.borrow().held_back_by(event.id) {
                causes.insert(step);
                let earlier = self.steps[step].before.clone();
                causes.extend(&earlier);
            }
            let mut before = causes.clone();
            for (earlier, step) in self.steps.iter().enumerate().rev() {
                if !before.contains(earlier) && conflict(step.event.accesses.as_deref(), event.accesses.as_deref()) {
                    before.insert(earlier);
                    before.extend(&step.before);
                }
            }
            self.steps.push(Step { event: event.clone(), before, causes });
        }
        let at = (self.prepared && self.ordered).then_some(at);
        self.machine.borrow_mut().happen(event.id, at);
        if let Some(at) = at {
            self.note_posted_by_handler(at);
        }
    }

    /// What a handler has posted knows of the call that it was run for, and of no more.
    fn note_posted_by_handler(&mut self, at: usize) {
        let machine = self.machine.borrow();
        for flight in machine.flights.iter().filter(|flight| flight.by_agent) {
            self.issued.entry(flight.id).or_insert_with(|| {
                let mut known = self.steps[at].before.clone();
                known.insert(at);
                known
            });
        }
    }
}

fn oldest(events: &[Event]) -> usize {
    let ages = events.iter().enumerate().map(|(index, event)| (event.id.serial, event.id.rank, index));
    ages.min().map_or(0, |(_, _, index)| index)
}

/// Whether the order of two events matters.
pub(crate) fn conflict(a: Option<&[Access]>, b: Option<&[Access]>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.iter().any(|a| b.iter().any(|b| a.conflicts(b))),
        _ => true,
    }
}
