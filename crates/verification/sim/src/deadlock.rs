//! The report of a deadlock.

use farside_fabric::{Condition, Event as Awaited, Wait, Word};

use crate::event::{number, place_name};
use crate::machine::Machine;
use crate::member::{Doing, Member};

impl Machine {
    pub(crate) fn deadlock_report(&self) -> String {
        let line = |(rank, member): (usize, &Member)| {
            let what = match member.doing {
                Doing::Waits { wait, .. } => {
                    let waiting = waiting(rank, wait.get());
                    let why = if member.is_asleep() {
                        " and sleeps: a plain put wakes no rank"
                    } else {
                        ""
                    };
                    return format!("{waiting}{why}");
                }
                Doing::Flushes(target) => format!("waits for operations it posted to {target}"),
                Doing::Polls { .. } => "tests whether an operation is complete".to_owned(),
                Doing::Accesses { .. } => "is about to use its own memory".to_owned(),
                Doing::Relaxes { .. } => "polls memory that no rank will change".to_owned(),
                Doing::Runs(_) => "runs".to_owned(),
                Doing::Prepared => "is prepared".to_owned(),
                Doing::Over => "has ended".to_owned(),
            };
            format!("rank {rank} {what}")
        };
        self.members.iter().enumerate().map(line).collect::<Vec<_>>().join("; ")
    }
}

pub(crate) fn waiting(rank: usize, wait: &Wait<'_>) -> String {
    let word = |condition: &Condition<'_>| {
        let held = condition.memory.look(condition.at.offset, condition.at.width);
        let held = number(held.map_or(0, |word| word.load()).into());
        let Word { segment, offset, width, .. } = condition.at;
        format!("{} (holds {held})", place_name(segment, offset, width.bytes()))
    };
    let called = wait.lasting.map(|lasting| format!(" in {}", lasting.activity()));
    let called = called.unwrap_or_default();
    match wait.event {
        Awaited::Done(_) => format!("rank {rank} waits for a reply{called}"),
        Awaited::Words([]) => format!("rank {rank} waits for time to pass{called}"),
        Awaited::Words(conditions) => {
            let words = conditions.iter().map(word).collect::<Vec<_>>().join(" or ");
            format!("rank {rank} waits for {words}{called}")
        }
    }
}
