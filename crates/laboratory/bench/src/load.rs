//! What a machine does beside a measurement: how much of it other programs use, and how much its
//! host takes away.

use std::fs::read_to_string;

/// The part of the machine from which on others disturb what is measured: a twentieth.
const DISTURBING: f64 = 0.05;

/// The time that the processors of this machine have spent so far, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    all: u64,
    busy: u64,
    stolen: u64,
    /// Of it, by this process and the children that it has waited for.
    own: u64,
    processors: u32,
}

/// How much of a machine others have used, in processors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Beside {
    /// How many processors there are.
    pub processors: u32,
    /// Used by other programs.
    pub used: f64,
    /// Taken away by the host of a virtual machine.
    pub stolen: f64,
}

impl Spent {
    /// Reads what was spent until now; nothing where the system does not say.
    pub fn now() -> Option<Spent> {
        Spent::parse(&read_to_string("/proc/stat").ok()?, &read_to_string("/proc/self/stat").ok()?)
    }

    /// From `/proc/stat` and `/proc/self/stat`.
    fn parse(machine: &str, own: &str) -> Option<Spent> {
        let times = machine.lines().next()?.strip_prefix("cpu ")?;
        let times: Vec<u64> = times.split_whitespace().map_while(|it| it.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, stolen, ..] = times[..] else {
            return None;
        };
        let busy = user + nice + system + irq + softirq;
        // The name of a process may hold spaces; the times of itself and of its children stand 11
        // fields behind it.
        let own = own.rsplit_once(')')?.1.split_whitespace().skip(11).take(4);
        let own = own.filter_map(|it| it.parse::<u64>().ok()).sum();
        let is_one = |line: &&str| {
            line.strip_prefix("cpu")
                .is_some_and(|rest| rest.starts_with(|it: char| it.is_numeric()))
        };
        let processors = machine.lines().filter(is_one).count() as u32;
        Some(Spent { all: busy + idle + iowait + stolen, busy, stolen, own, processors })
    }

    /// Returns what others have used from then until now.
    pub fn since(self, then: Spent) -> Beside {
        let all = self.all.saturating_sub(then.all).max(1) as f64;
        let processors = |ticks: u64| ticks as f64 / all * f64::from(self.processors);
        let busy = self.busy.saturating_sub(then.busy);
        let own = self.own.saturating_sub(then.own);
        Beside {
            processors: self.processors,
            used: processors(busy.saturating_sub(own)),
            stolen: processors(self.stolen.saturating_sub(then.stolen)),
        }
    }
}

impl Beside {
    /// Returns what is to be said of figures that were measured meanwhile, if others had so much of
    /// the machine that the figures are theirs, too.
    pub fn warning(&self) -> Option<String> {
        let least = DISTURBING * f64::from(self.processors);
        let parts = [(self.used, "other programs used"), (self.stolen, "its host took away")];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|&(much, _)| much >= least)
            .map(|(much, who)| format!("{who} {much:.1}"))
            .collect();
        (!parts.is_empty()).then(|| {
            let (parts, processors) = (parts.join(", "), self.processors);
            format!(
                "the machine was busy, these figures mean little: of {processors} processors \
                 {parts}"
            )
        })
    }
}

/// Returns what is to be said before something is measured, by `/proc/loadavg` and the number of
/// processors: that others are at work already.
pub fn busy_before(loadavg: &str, processors: u32) -> Option<String> {
    let load: f64 = loadavg.split_whitespace().next()?.parse().ok()?;
    let is_busy = load >= f64::from(processors) / 2.0;
    is_busy.then(|| {
        format!(
            "the machine is busy (load {load} on {processors} processors): figures that are \
             measured now may mean little"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "77 (a ) b) S 1 77 77 0 -1 0 0 0 0 0 10 20 30 40 20 0 1 0 5";

    fn machine(user: u64, idle: u64, stolen: u64) -> String {
        format!("cpu  {user} 0 0 {idle} 0 0 0 {stolen} 0 0\ncpu0 1 2\ncpu1 1 2\nintr 5\n")
    }

    #[test]
    fn what_is_ours_does_not_count_as_that_of_others() {
        let then = Spent::parse(&machine(1000, 1000, 0), "1 (p) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20");
        let now = Spent::parse(&machine(1200, 1100, 100), OWN).unwrap();
        let beside = now.since(then.unwrap());
        assert_eq!(beside, Beside { processors: 2, used: 0.5, stolen: 0.5 });
        let said = beside.warning().unwrap();
        assert!(said.ends_with("other programs used 0.5, its host took away 0.5"), "{said}");
        assert!(said.contains("mean little"), "{said}");
    }

    #[test]
    fn a_machine_of_our_own_is_nothing_to_speak_of() {
        let then = Spent::parse(&machine(0, 0, 0), "1 (p) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20");
        let now = Spent::parse(&machine(102, 100, 1), OWN).unwrap();
        assert_eq!(now.since(then.unwrap()).warning(), None);
        assert_eq!(Spent::parse("", ""), None);
    }

    #[test]
    fn a_load_of_half_the_processors_is_told_of_before() {
        assert_eq!(busy_before("0.40 3.10 2.00 1/200 77", 2), None);
        let said = busy_before("4.02 0.10 0.00 5/200 77", 2).unwrap();
        assert!(said.contains("load 4.02 on 2 processors"), "{said}");
        assert_eq!(busy_before("", 2), None);
    }
}
