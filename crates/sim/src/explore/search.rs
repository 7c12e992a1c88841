//! The exhaustive search.

use super::{Progress, Reduction, Report, failure_of};
use crate::crew::Program;
use crate::event::{Event, EventId};
use crate::run::{Oracle, Simulation, Step, conflict};

/// Tries every schedule, unless `go_on` says that it is enough.
pub(super) fn exhaust(
    simulation: &Simulation,
    program: &Program,
    reduction: Reduction,
    go_on: &mut dyn FnMut(&Progress) -> bool,
) -> Report {
    let mut search = Search { nodes: Vec::new(), depth: 0, reduction, picks: Vec::new() };
    let mut progress = Progress::default();
    loop {
        search.depth = 0;
        search.picks.clear();
        let run = simulation.run(program, &mut search);
        progress.count(&run);
        if let Some(failure) = failure_of(&run, &search.picks) {
            return progress.report(false, Some(failure));
        }
        if reduction == Reduction::Sources {
            search.add_races(&run.steps);
        }
        if !search.next() {
            return progress.report(true, None);
        }
        if !go_on(&progress) {
            return progress.report(false, None);
        }
    }
}

/// The depth-first search: one node for each step of the current run.
struct Search {
    nodes: Vec<SearchNode>,
    depth: usize,
    reduction: Reduction,
    picks: Vec<usize>,
}

struct SearchNode {
    /// What could happen here.
    enabled: Vec<Event>,
    /// Which of them happens in the current run.
    chosen: EventId,
    /// Which of them have to be tried.
    wanted: Vec<EventId>,
    /// Which were tried before the current one.
    done: Vec<EventId>,
    /// Which need not be tried, because what comes of it was seen elsewhere.
    asleep: Vec<EventId>,
}

impl SearchNode {
    fn event(&self, id: EventId) -> Option<&Event> {
        self.enabled.iter().find(|event| event.id == id)
    }
}

impl Oracle for Search {
    fn wants_order(&self) -> bool {
        self.reduction == Reduction::Sources
    }

    fn pick(&mut self, events: &[Event]) -> Option<usize> {
        if self.depth == self.nodes.len() {
            let asleep = self.asleep_after_last();
            let first = events.iter().find(|event| !asleep.contains(&event.id))?.id;
            let wanted = match self.reduction {
                Reduction::Sources => vec![first],
                Reduction::None => events.iter().map(|event| event.id).collect(),
            };
            let node = SearchNode { enabled: events.to_vec(), chosen: first, wanted, done: Vec::new(), asleep };
            self.nodes.push(node);
        }
        let chosen = self.nodes[self.depth].chosen;
        self.depth += 1;
        let index = events.iter().position(|event| event.id == chosen)?;
        self.picks.push(index);
        Some(index)
    }
}

impl Search {
    /// What was tried before at the last node stays asleep after its event, unless the event is in conflict with it.
    fn asleep_after_last(&self) -> Vec<EventId> {
        let (Some(node), Reduction::Sources) = (self.nodes.last(), self.reduction) else {
            return Vec::new();
        };
        let Some(chosen) = node.event(node.chosen) else {
            return Vec::new();
        };
        let independent = |&&id: &&EventId| {
            let accesses = node.event(id).map(|event| event.accesses.as_deref());
            accesses.is_some_and(|accesses| !conflict(accesses, chosen.accesses.as_deref()))
        };
        node.asleep.iter().chain(&node.done).filter(independent).copied().collect()
    }

    /// For every two events of a run that were in conflict and next to each other in the order that matters: makes sure that the other
    /// order is tried, too.
    fn add_races(&mut self, steps: &[Step]) {
        for (later, step) in steps.iter().enumerate() {
            for earlier in 0..later {
                if is_race(steps, earlier, later) {
                    self.reverse(steps, earlier, later);
                }
            }
            debug_assert!(!step.before.contains(later));
        }
    }

    fn reverse(&mut self, steps: &[Step], earlier: usize, later: usize) {
        // What happened in between without needing the earlier event, and then the later one.
        let mut sequence: Vec<usize> =
            (earlier + 1..later).filter(|&between| !steps[between].before.contains(earlier)).collect();
        sequence.push(later);
        let comes_first = |&step: &usize| {
            let before = &steps[step].before;
            sequence.iter().take_while(|&&other| other != step).all(|&other| !before.contains(other))
        };
        let Some(node) = self.nodes.get_mut(earlier) else {
            return;
        };
        let initials: Vec<EventId> =
            sequence.iter().filter(|step| comes_first(step)).map(|&step| steps[step].event.id).collect();
        let known = |id: &EventId| node.wanted.contains(id) || node.asleep.contains(id);
        if initials.iter().any(known) {
            return;
        }
        // One that could not happen here, a wait whose word was not yet right, cannot be tried.
        if let Some(id) = initials.into_iter().rev().find(|&id| node.event(id).is_some()) {
            node.wanted.push(id);
        }
    }

    /// Goes on to the next schedule; false when there is none.
    fn next(&mut self) -> bool {
        while let Some(node) = self.nodes.last_mut() {
            node.done.push(node.chosen);
            let next = node.wanted.iter().find(|id| !node.done.contains(id) && !node.asleep.contains(id));
            if let Some(&next) = next {
                node.chosen = next;
                return true;
            }
            self.nodes.pop();
        }
        false
    }
}

/// Whether two steps are in conflict, the earlier is no cause of the later, and nothing stands between them in the order that matters.
fn is_race(steps: &[Step], earlier: usize, later: usize) -> bool {
    let step = &steps[later];
    step.before.contains(earlier)
        && !step.causes.contains(earlier)
        && !(earlier + 1..later).any(|between| step.before.contains(between) && steps[between].before.contains(earlier))
}
