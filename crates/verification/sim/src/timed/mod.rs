//! Measuring: a program runs once, in virtual time, on a machine as a [`Profile`] describes it.

mod contention;
mod event_engine;
mod flight;
mod links;
mod member;
mod network;
mod prefetch;
mod queue;
mod record;
mod response;
mod waiting;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use farside_fabric::tracing::Slice;
use farside_fabric::{Result, Topology};

use self::contention::Contention;
pub use self::contention::Resent;
use self::event_engine::{EventEngine, Next};
use self::network::Network;
use self::response::Responses;
use crate::fiber::Stacks;
use crate::fibers::{Fibers, Program};
use crate::maps;
use crate::profile::Profile;
use crate::store::Store;

/// A job that runs in virtual time. The same seed gives the same run, to the last event.
pub struct Timed {
    profile: Profile,
    topology: Topology,
    root_bytes: u64,
    seed: u64,
    traced: bool,
    limit_ns: u64,
}

/// The result of a run in virtual time, without the preparations.
#[derive(Debug, Clone)]
pub struct Timing {
    /// The virtual time that it took.
    pub virtual_ns: u64,
    /// The number of operations.
    pub operations: u64,
    /// The number of times that a rank had to wait: for a word, for a reply, or for its posted
    /// operations.
    pub waits: u64,
    /// The real time that the simulation took.
    pub real: Duration,
    /// The number of bytes that the operations moved.
    pub bytes: u64,
    /// A number that is the same if, and as good as only if, the same operations were carried out
    /// at the same times.
    pub hash: u64,
    /// The operations that had to be sent again, because they or their replies were lost.
    pub resent: Vec<Resent>,
    /// The operations and waits of every rank, if a trace was asked for.
    pub slices: Vec<Slice>,
}

/// Refuses a profile without a number that a run needs.
pub(crate) fn check(profile: &Profile) -> Result<()> {
    Network::new(profile, &profile.topology(1)?, 0)?;
    Contention::new(profile, 0).map(drop)
}

impl Timed {
    /// Ranks as `topology` has them on a machine as `profile` has it, each with a first segment of
    /// `root_bytes`.
    pub fn new(profile: &Profile, topology: Topology, root_bytes: u64, seed: u64) -> Timed {
        /// A virtual hour: longer than anything that is worth simulating.
        const LIMIT_NS: u64 = 3_600_000_000_000;
        Timed {
            profile: profile.clone(),
            topology,
            root_bytes,
            seed,
            traced: false,
            limit_ns: LIMIT_NS,
        }
    }

    /// Writes down every operation.
    #[must_use]
    pub fn traced(mut self) -> Timed {
        self.traced = true;
        self
    }

    /// Gives up when so much virtual time has passed.
    #[must_use]
    pub fn limit_ns(mut self, limit_ns: u64) -> Timed {
        self.limit_ns = limit_ns;
        self
    }

    /// Runs a program. Fails with the message of the first rank that failed, or with a report of
    /// the waiting ranks if nothing can happen any more.
    pub fn run(&self, program: &Program) -> Result<std::result::Result<Timing, String>> {
        if let Err(problem) = maps::check(self.topology.ranks(), self.root_bytes) {
            return Ok(Err(problem));
        }
        let store = Store::new(self.topology.clone(), self.root_bytes, &Arc::default());
        let network = Network::new(&self.profile, &self.topology, self.seed)?;
        let contention = Contention::new(&self.profile, self.seed)?;
        let responses = Responses::new(&self.profile, self.topology.ranks())?;
        let engine = EventEngine::new(store, network, contention, responses, self.traced);
        let machine = Rc::new(RefCell::new(engine));
        let stacks: Rc<Stacks> = Rc::default();
        let outcome = Fibers::new(&self.topology, self.root_bytes, &stacks, program, &machine)
            .and_then(|mut fibers| self.drive(&machine, &mut fibers));
        Ok(outcome)
    }

    fn drive(
        &self,
        machine: &RefCell<EventEngine>,
        fibers: &mut Fibers,
    ) -> std::result::Result<Timing, String> {
        let (mut begin_ns, mut began) = (0, Instant::now());
        loop {
            let next = machine.borrow_mut().next(fibers);
            match next {
                Next::Run(rank, resume) => {
                    let pause = fibers.resume(rank, resume);
                    if let Some(pause) = pause {
                        machine.borrow_mut().pause(rank, pause);
                    } else if let Some(problem) = fibers.failure() {
                        return Err(problem);
                    }
                }
                Next::Nothing => {
                    let mut machine = machine.borrow_mut();
                    if machine.is_over() {
                        break;
                    }
                    begin_ns = machine
                        .begin()
                        .ok_or_else(|| format!("deadlock: {}", machine.deadlock_report()))?;
                    began = Instant::now();
                }
            }
            if machine.borrow().now_ns() > self.limit_ns {
                let report = machine.borrow().deadlock_report();
                return Err(format!(
                    "no end after {} s of virtual time: {report}",
                    self.limit_ns / 1_000_000_000
                ));
            }
        }
        let mut machine = machine.borrow_mut();
        let counted = machine.counted;
        Ok(Timing {
            virtual_ns: machine.ended_ns().saturating_sub(begin_ns),
            operations: counted.operations,
            waits: counted.waits,
            real: began.elapsed(),
            bytes: counted.bytes,
            hash: counted.hash,
            resent: machine.contention.resent(),
            slices: machine.slices.take().unwrap_or_default(),
        })
    }
}
