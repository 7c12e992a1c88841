//! The exhaustive search: depth first, with dynamic partial-order reduction.
//!
//! Paper:   Abdulla, Aronsson, Jonsson, Sagonas: *Optimal dynamic partial order reduction*, 2014:
//!          source sets (section 5) and sleep sets, without wakeup trees.
//! Differs: every operation in flight, every look of a waiter at its word, and every access of a
//!          rank to its own memory is a process with one event. Events that become impossible,
//!          late waits and deaths: `README.md`.
//! Checked: `reduction_loses_no_outcome`: random programs, explored with and without reduction.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::{Progress, Reduction, Report, failure_of};
use crate::bits::Bits;
use crate::event::{Access, Event, EventId};
use crate::fibers::Program;
use crate::run::{Oracle, Run, Simulation, Verdict, differs};
use crate::step::{LateWait, Step};

/// Tries every schedule, unless `go_on` says that it is enough, or `stops` and one fails; `each` is
/// told of every run.
pub(super) fn exhaust(
    simulation: &Simulation,
    program: &Program,
    reduction: Reduction,
    stops: bool,
    each: &mut dyn FnMut(&Run),
    go_on: &mut dyn FnMut(&Progress) -> bool,
) -> Report {
    let (nodes, looked) = (Vec::new(), Vec::new());
    let mut search = Search { nodes, depth: 0, looked, reduction };
    let (mut progress, mut unseen) = (Progress::default(), BTreeSet::new());
    let mut beginning = Vec::new();
    loop {
        search.depth = beginning.len();
        let given = beginning.len();
        let run = simulation.run_on(program, &mut search, beginning);
        progress.count(&run);
        each(&run);
        unseen.extend(run.unseen.iter().copied());
        let failure = failure_of(&run, &search.picks(run.steps.len()));
        if failure.is_some() && stops {
            return progress.report(false, failure, unseen);
        }
        if reduction == Reduction::Sources {
            search.note_looked(&run, given);
            if run.verdict != Verdict::Pruned {
                search.want_what_is_over(&[]);
            }
            search.add_races(&run, given);
        }
        if !search.next() {
            return progress.report(true, None, unseen);
        }
        if !go_on(&progress) {
            return progress.report(false, None, unseen);
        }
        beginning = run.steps;
        beginning.truncate(search.nodes.len() - 1);
    }
}

/// The depth-first search: one node for each step of the current run.
struct Search {
    nodes: Vec<Node>,
    depth: usize,
    /// The words that the last step has looked at besides its event.
    looked: Vec<Access>,
    reduction: Reduction,
}

struct Node {
    enabled: Vec<Event>,
    chosen: EventId,
    /// The words that ranks have looked at because of it, besides its own, once that is known.
    looked: Rc<[Access]>,
    /// The events that have to be tried.
    wanted: Vec<EventId>,
    /// The events that were tried before the current one.
    done: Vec<Tried>,
    /// The events that need not be tried, because their consequences were seen elsewhere.
    asleep: Vec<Tried>,
}

/// An event that was tried, and the words that ranks then looked at because of it.
#[derive(Clone)]
struct Tried {
    id: EventId,
    looked: Rc<[Access]>,
}

fn has(tried: &[Tried], id: EventId) -> bool {
    tried.iter().any(|tried| tried.id == id)
}

impl Node {
    fn event(&self, id: EventId) -> Option<&Event> {
        self.enabled.iter().find(|event| event.id == id)
    }

    fn is_known(&self, id: EventId) -> bool {
        self.wanted.contains(&id) || has(&self.asleep, id)
    }

    fn want(&mut self, id: EventId) {
        if !self.is_known(id) {
            self.wanted.push(id);
        }
    }
}

impl Oracle for Search {
    fn wants_order(&self) -> bool {
        self.reduction == Reduction::Sources
    }

    fn looked(&mut self, words: &[Access]) {
        self.looked = words.to_vec();
    }

    fn pick(&mut self, events: &[Event]) -> Result<usize, Verdict> {
        if self.depth == self.nodes.len() {
            self.want_what_is_over(events);
            let asleep = self.asleep_after_last(events);
            let first = events.iter().find(|event| !has(&asleep, event.id));
            let first = first.ok_or(Verdict::Pruned)?.id;
            let wanted = match self.reduction {
                Reduction::Sources => {
                    let optional = events
                        .iter()
                        .map(|event| event.id)
                        .filter(|id| id.is_optional() && *id != first);
                    std::iter::once(first).chain(optional).collect()
                }
                Reduction::None => events.iter().map(|event| event.id).collect(),
            };
            self.nodes.push(Node {
                enabled: events.to_vec(),
                chosen: first,
                looked: Rc::from([]),
                wanted,
                done: Vec::new(),
                asleep,
            });
        }
        let node = &self.nodes[self.depth];
        if node.enabled != events {
            let then = node.enabled.iter().find(|event| !events.contains(event));
            let now = events.iter().find(|event| !node.enabled.contains(event));
            return Err(Verdict::Failed(differs(self.depth, then, now)));
        }
        self.depth += 1;
        events.iter().position(|event| event.id == node.chosen).ok_or(Verdict::Pruned)
    }
}

impl Search {
    /// The choices of the current run, by index.
    fn picks(&self, steps: usize) -> Vec<usize> {
        let pick = |node: &Node| node.enabled.iter().position(|event| event.id == node.chosen);
        self.nodes[..steps.min(self.nodes.len())].iter().filter_map(pick).collect()
    }

    /// Wants every event that was possible at the last node, did not happen, and is not possible
    /// any more: it has to be tried there.
    fn want_what_is_over(&mut self, events: &[Event]) {
        let Some(node) = self.nodes.last_mut().filter(|_| self.reduction == Reduction::Sources)
        else {
            return;
        };
        let is_over = |id: EventId| id != node.chosen && !events.iter().any(|event| event.id == id);
        // A rank that has ended cannot die any more, and need not: its death was wanted before.
        let over: Vec<EventId> = node
            .enabled
            .iter()
            .map(|event| event.id)
            .filter(|&id| is_over(id) && !id.is_death())
            .collect();
        over.into_iter().for_each(|id| node.want(id));
    }

    fn note_looked(&mut self, run: &Run, given: usize) {
        for (node, step) in self.nodes.iter_mut().zip(&run.steps).skip(given) {
            node.looked = step.looked.as_slice().into();
        }
    }

    /// Returns the events that stay asleep: those tried before at the last node, unless its event
    /// conflicts with them.
    fn asleep_after_last(&self, events: &[Event]) -> Vec<Tried> {
        let (Some(node), Reduction::Sources) = (self.nodes.last(), self.reduction) else {
            return Vec::new();
        };
        let Some(chosen) = node.event(node.chosen) else {
            return Vec::new();
        };
        let independent = |tried: &&Tried| {
            let event = node.event(tried.id);
            event.is_some_and(|event| !event.conflicts(chosen) && !event.touches(&self.looked))
                && !chosen.touches(&tried.looked)
                && events.iter().any(|event| event.id == tried.id)
        };
        node.asleep.iter().chain(&node.done).filter(independent).cloned().collect()
    }

    /// For every two events of a run that were in conflict and next to each other in the order that
    /// matters: makes sure that the other order is tried, too. For the given beginning, that was
    /// done when it was new.
    fn add_races(&mut self, run: &Run, given: usize) {
        let steps = &run.steps;
        for later in given..steps.len() {
            let step = &steps[later];
            let mut covered = Bits::default();
            for earlier in (0..later).rev() {
                if step.before.contains(earlier) && !covered.contains(earlier) {
                    covered.extend(&steps[earlier].before);
                    if !step.causes.contains(earlier) {
                        self.reverse(steps, earlier, later..later + 1);
                    }
                }
            }
        }
        for &LateWait { changed, began } in &run.late {
            self.reverse(steps, changed, began..began);
        }
    }

    /// Makes sure that what happened after `earlier` without needing it, up to the beginning of
    /// `later`, and then `later`, is tried first.
    fn reverse(&mut self, steps: &[Step], earlier: usize, later: std::ops::Range<usize>) {
        let Some(node) = self.nodes.get_mut(earlier) else {
            return;
        };
        let between =
            (earlier + 1..later.start).filter(|&step| !steps[step].before.contains(earlier));
        let mut sequence = Bits::default();
        let mut first = None;
        for step in between.chain(later) {
            // One that needs another of these does not come first.
            if !steps[step].before.meets(&sequence) {
                let id = steps[step].event.id;
                // A put that wakes no waiter was an ordinary one before the wait began.
                let id =
                    if node.event(id).is_some() { id } else { id.as_unnoticed().unwrap_or(id) };
                if node.is_known(id) {
                    return;
                }
                // An event that could not happen here, such as a look at a word that was not yet
                // right, cannot be tried.
                if node.event(id).is_some() {
                    first = Some(id);
                }
            }
            sequence.insert(step);
        }
        node.wanted.extend(first);
    }

    /// Goes on to the next schedule; false when there is none.
    fn next(&mut self) -> bool {
        while let Some(node) = self.nodes.last_mut() {
            node.done.push(Tried { id: node.chosen, looked: node.looked.clone() });
            let next =
                node.wanted.iter().find(|&&id| !has(&node.done, id) && !has(&node.asleep, id));
            if let Some(&next) = next {
                node.chosen = next;
                return true;
            }
            self.nodes.pop();
        }
        false
    }
}
