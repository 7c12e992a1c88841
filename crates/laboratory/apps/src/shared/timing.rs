//! What is timed of a program: its steps, and the same steps of its base, by one function.
//!
//! The base is the best program that one rank can run: the same method in plain Rust, in memory of
//! its own, without shared pages. Neither side has allocations, first touches of memory or the
//! reading of results in its time, and both run in turns.

use farside::Result;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// What was timed of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Timed {
    /// How long the steps took.
    pub ns: u64,
    /// How many there were.
    pub steps: u64,
    /// How many operations on numbers they have done.
    pub operations: u64,
}

/// Times the steps of a program, each of which says how many operations it has done. Whoever calls
/// this has prepared everything that a step needs.
pub(super) fn timed(
    now_ns: &dyn Fn() -> u64,
    steps: usize,
    mut step: impl FnMut(usize) -> Result<usize>,
) -> Result<Timed> {
    let mut operations = 0;
    let begin_ns = now_ns();
    for at in 0..steps {
        operations += step(at)? as u64;
    }
    Ok(Timed { ns: now_ns() - begin_ns, steps: steps as u64, operations })
}

pub(super) fn median<T>(mut runs: Vec<T>, ns: impl Fn(&T) -> u64) -> Option<T> {
    runs.sort_by_key(ns);
    let middle = runs.len() / 2;
    runs.into_iter().nth(middle)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;
    use crate::shared::{Machine, Options, Program};

    /// Programs with arrays of many pages, and how many their arrays have at least.
    fn large() -> [(Options, u64); 3] {
        let of = |program, size: &[usize]| Options {
            size: size.to_vec(),
            iterations: 3,
            ..Options::new(program)
        };
        [
            (of(Program::Sor, &[512, 1024]), 512),
            (of(Program::Jacobi, &[512, 1024]), 512),
            (of(Program::Fft3d, &[32, 64, 32]), 768),
        ]
    }

    fn small() -> [Options; 6] {
        Program::ALL.map(|program| {
            let size = match program {
                Program::Fft3d => vec![8, 16, 8],
                Program::Barnes | Program::BarnesZones => vec![150],
                Program::Sor | Program::Jacobi => vec![50, 70],
                Program::Tsp => vec![8],
            };
            Options { size, iterations: 3, ..Options::new(program) }
        })
    }

    /// Runs a program on one rank, on shared pages and as its base, both by the same clock.
    fn both(options: &Options, now_ns: impl Fn() -> u64 + Sync) -> [Timed; 2] {
        let outcome = farside::local(1, |world| {
            let kernel = options.kernel()?;
            let mut dsm = farside::dsm::Dsm::new(world, options.config(world, kernel.bytes()))?;
            let mut machine = Machine::new(&mut dsm, 0.0);
            let mut run = kernel.prepare(&mut machine)?;
            let mut base = kernel.base();
            // All that the first step needs is there.
            assert!(run.result(machine.dsm)? == base.result(), "{options:?}");
            let shared = timed(&now_ns, kernel.steps(), |step| {
                run.step(&mut machine, step)?;
                Ok(machine.take_operations())
            })?;
            let alone = timed(&now_ns, kernel.steps(), |step| Ok(base.step(step)))?;
            assert!(run.result(machine.dsm)? == base.result(), "{options:?}");
            dsm.close()?;
            Ok([shared, alone])
        });
        outcome.unwrap().remove(0)
    }

    #[test]
    fn nothing_but_the_steps_is_timed() {
        let told = RefCell::new(Vec::new());
        let now = Cell::new(0);
        let clock = || {
            told.borrow_mut().push("clock");
            now.get()
        };
        let one = timed(&clock, 2, |_| {
            told.borrow_mut().push("step");
            now.set(now.get() + 5);
            Ok(7)
        });
        assert_eq!(one.unwrap(), Timed { ns: 10, steps: 2, operations: 14 });
        assert_eq!(told.into_inner(), ["clock", "step", "step", "clock"]);
    }

    #[test]
    fn one_rank_does_in_its_time_what_the_base_does_in_its_own() {
        for options in small() {
            let [shared, alone] = both(&options, || 0);
            assert!(shared.steps >= 3 && shared.operations > 0, "{options:?}");
            assert_eq!(shared, alone, "{options:?}");
        }
    }

    /// By a clock that counts the faults of the calling thread instead of nanoseconds.
    #[test]
    fn neither_side_touches_fresh_memory_in_its_time() {
        let faults = || {
            let line = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let after_name = line.rsplit(") ").next().unwrap();
            after_name.split(' ').nth(7).unwrap().parse().unwrap()
        };
        for (options, pages) in large() {
            for timed in both(&options, faults) {
                assert!(timed.ns < pages / 4, "{} faults: {options:?}", timed.ns);
            }
        }
    }

    #[test]
    fn the_one_in_the_middle_counts() {
        assert_eq!(median(vec![5, 1, 9], |&ns| ns), Some(5));
        assert_eq!(median(Vec::<u64>::new(), |&ns| ns), None);
    }
}
