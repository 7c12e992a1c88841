//! Policies: which schedules of a program are tried.

use crate::crew::Program;
use crate::event::{Event, EventId};
use crate::run::{Oracle, Run, Simulation, Step, Verdict, conflict};

/// What an exploration found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// How many runs were made.
    pub runs: u64,
    /// How many of them were given up because they would have repeated others.
    pub pruned: u64,
    /// How many steps were made, all in all.
    pub steps: u64,
    /// Whether every schedule that differs was tried.
    pub complete: bool,
    /// The first failure.
    pub failure: Option<Failure>,
}

/// A failure, and how to see it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What went wrong.
    pub problem: String,
    /// The schedule: give it to [`replay`].
    pub schedule: String,
    /// What happened, step by step.
    pub trace: Vec<String>,
}

/// Whether to leave out schedules that differ from others in the order of independent events only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// Leave them out: dynamic partial-order reduction with source sets and sleep sets
    /// (Abdulla, Aronsson, Jonsson, Sagonas: *Optimal dynamic partial order reduction*, 2014).
    Sources,
    /// Try them all.
    None,
}

/// Tries every schedule, up to `runs_max` of them.
pub fn exhaustive(simulation: &Simulation, program: &Program, reduction: Reduction, runs_max: u64) -> Report {
    let mut search = Search { nodes: Vec::new(), depth: 0, reduction, picks: Vec::new() };
    let mut report = Report { runs: 0, pruned: 0, steps: 0, complete: false, failure: None };
    loop {
        search.depth = 0;
        search.picks.clear();
        let run = simulation.run(program, &mut search);
        report.runs += 1;
        report.steps += run.steps.len() as u64;
        report.pruned += u64::from(run.verdict == Verdict::Pruned);
        if let Some(failure) = failure_of(&run, &search.picks) {
            report.failure = Some(failure);
            return report;
        }
        if reduction == Reduction::Sources {
            search.add_races(&run.steps);
        }
        if !search.next() {
            report.complete = true;
            return report;
        }
        if report.runs >= runs_max {
            return report;
        }
    }
}

/// Tries `runs` random schedules.
pub fn random(simulation: &Simulation, program: &Program, seed: u64, runs: u64) -> Report {
    let mut report = Report { runs: 0, pruned: 0, steps: 0, complete: false, failure: None };
    for number in 0..runs {
        let state = (seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_mul(0xBF58_476D_1CE4_E5B9) | 1;
        let mut oracle = Random { state, picks: Vec::new() };
        let run = simulation.run(program, &mut oracle);
        report.runs += 1;
        report.steps += run.steps.len() as u64;
        report.failure = failure_of(&run, &oracle.picks);
        if report.failure.is_some() {
            break;
        }
    }
    report
}

/// Runs one schedule again.
pub fn replay(simulation: &Simulation, program: &Program, schedule: &str) -> Result<Run, String> {
    let picks = decode(schedule)?;
    let mut oracle = Replay { picks, at: 0 };
    Ok(simulation.run(program, &mut oracle))
}

fn failure_of(run: &Run, picks: &[usize]) -> Option<Failure> {
    let problem = match &run.verdict {
        Verdict::Failed(problem) => problem.clone(),
        Verdict::TooLong => format!("no end after {} steps", run.steps.len()),
        Verdict::Passed | Verdict::Pruned => return None,
    };
    let trace = run.steps.iter().map(|step| step.event.to_string()).collect();
    Some(Failure { problem, schedule: encode(picks), trace })
}

/// Picks as text: a digit of base 36 each; a run of zeros, which is what most of a schedule is, as its length in angle brackets.
fn encode(picks: &[usize]) -> String {
    let mut text = String::new();
    let mut zeros = 0;
    let flush = |text: &mut String, zeros: &mut usize| {
        match *zeros {
            0..4 => text.push_str(&"0".repeat(*zeros)),
            many => text.push_str(&format!("<{many}>")),
        }
        *zeros = 0;
    };
    for &pick in picks {
        match u32::try_from(pick).ok().and_then(|pick| char::from_digit(pick, 36)) {
            Some('0') => zeros += 1,
            Some(digit) => {
                flush(&mut text, &mut zeros);
                text.push(digit);
            }
            None => {
                flush(&mut text, &mut zeros);
                text.push_str(&format!("({pick})"));
            }
        }
    }
    // What is missing at the end is zeros.
    text
}

fn decode(schedule: &str) -> Result<Vec<usize>, String> {
    let mut picks = Vec::new();
    let mut rest = schedule;
    while let Some(first) = rest.chars().next() {
        let closing = match first {
            '<' => Some('>'),
            '(' => Some(')'),
            _ => None,
        };
        let number = |text: &str| text.parse::<usize>().map_err(|_| format!("{text:?} in the schedule is no number"));
        match closing {
            Some(closing) => {
                let (inside, after) = rest[1..]
                    .split_once(closing)
                    .ok_or_else(|| format!("{first:?} in the schedule is never closed"))?;
                match first {
                    '<' => picks.extend(std::iter::repeat_n(0, number(inside)?.min(1 << 20))),
                    _ => picks.push(number(inside)?),
                }
                rest = after;
            }
            None => {
                let digit = first.to_digit(36).ok_or_else(|| format!("{first:?} has no meaning in a schedule"))?;
                picks.push(digit as usize);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    Ok(picks)
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

struct Random {
    state: u64,
    picks: Vec<usize>,
}

impl Oracle for Random {
    fn pick(&mut self, events: &[Event]) -> Option<usize> {
        // Marsaglia's xorshift: the same numbers for the same seed, for ever.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let index = ((self.state >> 11) % events.len() as u64) as usize;
        self.picks.push(index);
        Some(index)
    }
}

struct Replay {
    picks: Vec<usize>,
    at: usize,
}

impl Oracle for Replay {
    fn pick(&mut self, events: &[Event]) -> Option<usize> {
        let pick = self.picks.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        (pick < events.len()).then_some(pick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_survives_writing_it_down() {
        for picks in
            [vec![], vec![1, 0, 0, 35, 36, 2], vec![0; 50], [vec![0; 9], vec![3], vec![0; 2], vec![1]].concat()]
        {
            let decoded = decode(&encode(&picks)).unwrap();
            let trimmed = |mut picks: Vec<usize>| {
                while picks.last() == Some(&0) {
                    picks.pop();
                }
                picks
            };
            assert_eq!(trimmed(decoded), trimmed(picks));
        }
        for bad in ["<", "<x>", "(", "!", "(a)"] {
            assert!(decode(bad).is_err(), "{bad}");
        }
    }
}
