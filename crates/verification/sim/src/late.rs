//! Waits and the changes of their words: which made a wait possible, and which came too early.

use farside_fabric::{Condition, Event as Awaited, Wait};

use crate::bits::Bits;
use crate::body::word_access;
use crate::event::Access;
use crate::step::{LateWait, Step};

/// A wait is over: the change that made it so, without which it would not be, cannot come after it.
pub(crate) fn note_enabling(steps: &[Step], wait: &Wait<'_>, causes: &mut Bits) {
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
    let others = conditions.iter().filter(|other| !std::ptr::eq(*other, condition));
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
pub(crate) fn note_late(
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
