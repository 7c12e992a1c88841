//! The programs on shared memory give what one rank gives in its own memory: on any number of ranks
//! and nodes, with every barrier, start and front end.

use farside::Local;
use farside::dsm::{Access, BarrierKind, Copies, Diffs, Start, has_userfault};
use farside_apps::shared::{Options, Outcome, Program, run};

/// A size at which parts of ranks share pages, and some ranks have nothing to do.
fn small(program: Program) -> Options {
    let (size, iterations) = match program {
        Program::Fft3d => (vec![8, 16, 8], 2),
        Program::Barnes | Program::BarnesZones => (vec![150], 3),
        Program::Sor => (vec![50, 70], 3),
        Program::Jacobi => (vec![40, 90], 3),
        Program::Tsp => (vec![8], 2),
    };
    Options { size, iterations, turns: 1, ..Options::new(program) }
}

/// On nodes that are only pretended, or reach each other over UDP.
fn outcome(options: &Options, ranks: u32, nodes: u32, over_udp: bool) -> Outcome {
    let job = Local::new(ranks).unwrap();
    let job = if over_udp { job.nodes(nodes) } else { job.topology(&format!("node:{nodes}")) };
    let outcomes = job.run(|world| run(world, options));
    outcomes
        .unwrap_or_else(|error| panic!("{ranks} ranks, {nodes} nodes, {options:?}: {error}"))
        .remove(0)
}

fn accesses() -> Vec<Access> {
    if !has_userfault() {
        println!("skipped: userfaultfd, which this system does not allow");
    }
    let all = [Access::Userfault, Access::Protect, Access::Explicit];
    all.into_iter().filter(|&access| access != Access::Userfault || has_userfault()).collect()
}

const KINDS: [(Copies, Diffs); 4] = [
    (Copies::Node, Diffs::OnDemand),
    (Copies::Rank, Diffs::Eager),
    (Copies::Rank, Diffs::OnDemand),
    (Copies::Node, Diffs::Eager),
];

fn gives_the_sequential_answer(program: Program) {
    let is_long = std::env::var_os("FARSIDE_LONG").is_some();
    let (mut turn, mut runs) = (0, 0);
    for ranks in [1, 2, 3, 4, 5, 8, 16] {
        for nodes in [1, 2, 4].into_iter().filter(|&nodes| nodes <= ranks) {
            for &barrier in BarrierKind::ALL {
                for &start in Start::ALL {
                    for access in accesses() {
                        turn += 1;
                        // Every seventh, so that all choices come in turn with all others.
                        if !is_long && turn % 7 != 0 {
                            continue;
                        }
                        let (copies, diffs) = KINDS[runs % KINDS.len()];
                        let usual = small(program);
                        let access = Some(access);
                        let options = Options { barrier, start, access, copies, diffs, ..usual };
                        for over_udp in
                            [false, true].into_iter().filter(|&over_udp| nodes > 1 || !over_udp)
                        {
                            let outcome = outcome(&options, ranks, nodes, over_udp);
                            runs += 1;
                            assert_eq!(outcome.difference, Some(0.0));
                            if start != Start::Original {
                                assert_eq!(outcome.statistics.cold_misses, 0, "{options:?}");
                            }
                        }
                    }
                }
            }
        }
    }
    println!("{}: {runs} runs, each with the sequential answer", program.name());
}

#[test]
fn fft3d() {
    gives_the_sequential_answer(Program::Fft3d);
}

#[test]
fn barnes() {
    gives_the_sequential_answer(Program::Barnes);
}

#[test]
fn barnes_zones() {
    gives_the_sequential_answer(Program::BarnesZones);
}

#[test]
fn sor() {
    gives_the_sequential_answer(Program::Sor);
}

#[test]
fn jacobi() {
    gives_the_sequential_answer(Program::Jacobi);
}

#[test]
fn tsp() {
    gives_the_sequential_answer(Program::Tsp);
}

/// At the sizes of the paper, by explicit accesses, which count the same.
#[test]
fn zeroed_pages_save_what_the_paper_says() {
    for (program, saved) in
        [(Program::Sor, 0.9), (Program::Jacobi, 0.9), (Program::Fft3d, 0.2), (Program::Barnes, 0.1)]
    {
        let of = |start| {
            let options = Options {
                start,
                access: Some(Access::Explicit),
                copies: Copies::Rank,
                diffs: Diffs::Eager,
                verify: false,
                iterations: program.published_iterations(),
                ..Options::new(program)
            };
            outcome(&options, 8, 8, false).statistics
        };
        let (original, zero) = (of(Start::Original), of(Start::Zero));
        let saves = 1.0 - zero.bytes as f64 / original.bytes as f64;
        println!(
            "{}: {} bytes and {} cold misses, from zeroed pages {} and {}: {:.1} % less",
            program.name(),
            original.bytes,
            original.cold_misses,
            zero.bytes,
            zero.cold_misses,
            100.0 * saves
        );
        assert!(saves >= saved, "{}: {saves}", program.name());
        assert_eq!(zero.cold_misses, 0);
        let invalid = of(Start::ZeroInvalid);
        assert_eq!(invalid.cold_misses, 0);
        // A first touch of a page that nobody has written is an exchange of messages either way;
        // of one that was written, it saves fetching the page beside the diffs.
        let first_touches = original.cold_misses;
        assert!(invalid.messages > zero.messages, "{}", program.name());
        assert!(original.messages - invalid.messages <= 2 * first_touches, "{}", program.name());
        if program == Program::Sor {
            assert!(invalid.messages * 100 >= original.messages * 95, "{}", program.name());
        }
    }
}

#[test]
fn a_program_and_its_base_are_run_in_turns_and_both_in_all_of_them() {
    for program in Program::ALL {
        let options = Options { turns: 3, ..small(program) };
        for (ranks, nodes) in [(1, 1), (3, 1), (2, 2)] {
            let outcome = outcome(&options, ranks, nodes, nodes > 1);
            let base = outcome.base.unwrap();
            let name = program.name();
            assert_eq!(outcome.timed.steps, base.steps, "{name}");
            // Several ranks build several trees, and look for trips in another order.
            let is_divided = matches!(program, Program::Sor | Program::Jacobi | Program::Fft3d);
            if ranks == 1 || is_divided {
                assert_eq!(outcome.timed.operations, base.operations, "{name}");
            }
            assert!(outcome.speedup().is_some() && outcome.whole_ns >= outcome.timed.ns, "{name}");
        }
    }
}

#[test]
fn programs_without_races_are_found_to_have_none() {
    for program in Program::ALL {
        for check_loads in [false, true] {
            let options = Options { check_races: true, check_loads, ..small(program) };
            let outcome = outcome(&options, 4, 2, false);
            assert_eq!((outcome.difference, outcome.races), (Some(0.0), 0), "{}", program.name());
        }
    }
}
