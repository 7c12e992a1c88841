//! The examples come to the same with the reduction as without it. Few of them have so few
//! schedules that all can be tried without it: of the others a part is, in order and at random.

#[path = "../../examples/halo.rs"]
#[allow(dead_code, reason = "its main function is that of the example")]
mod halo;
#[path = "../../examples/ring.rs"]
#[allow(dead_code, reason = "its main function is that of the example")]
mod ring;
#[path = "../../examples/scale.rs"]
#[allow(dead_code, reason = "its main function is that of the example")]
mod scale;
#[path = "../../examples/sick.rs"]
#[allow(
    dead_code,
    reason = "its main function is that of the example, and some programs take time"
)]
mod sick;

use farside::World;
use farside::check::{Check, Outcome};

/// Those of `sick` that compute for no time and ask the system nothing.
const SICK: [&str; 6] = [
    "two-locks",
    "two-epochs",
    "skipped-barrier",
    "different-collectives",
    "missing-signal",
    "wrong-word",
];

/// Explores a program of two ranks by several policies, and holds the verdicts against each other;
/// returns that of the reduction.
fn compare(
    name: &str,
    program: impl Fn(&World) -> farside::Result<()> + Copy + 'static,
) -> Outcome {
    let verdict = |policy: &str, schedules: u64| {
        let check = Check::new(2).policy(policy).schedules(schedules).races(false);
        check.explore(program).unwrap_or_else(|error| panic!("{name}, {policy}: {error}")).outcome
    };
    let found = verdict("exhaustive", 5000);
    let is_good = match found {
        Outcome::Exhaustive | Outcome::Partial => true,
        Outcome::Failed => false,
        other => panic!("{name} is {other:?} with the reduction"),
    };
    let (all, some) = (verdict("unreduced", 2000), verdict("random", 200));
    for (policy, other) in [("unreduced", all), ("random", some)] {
        let is_lost = is_good && other == Outcome::Failed;
        let is_made_up = !is_good && matches!(other, Outcome::Exhaustive | Outcome::Partial);
        assert!(!is_lost && !is_made_up, "{name}: {found:?}, and {other:?} by {policy}");
    }
    found
}

#[test]
fn healthy_examples_pass_with_reduction_and_without() {
    let pass_round = |world: &World| ring::pass_round(world, 2);
    assert_eq!(compare("ring", pass_round), Outcome::Exhaustive);
    // Of the slices the exploration sees nothing.
    let flow = |world: &World| {
        let heat = halo::flow(world, 1, 1)?;
        assert_eq!(heat, 750.0);
        Ok(())
    };
    assert_eq!(compare("halo", flow), Outcome::Partial);
    let pass_lock = |world: &World| {
        let words = world.words(4)?;
        farside::check::begin(world);
        scale::pass_the_lock(world, &words)
    };
    assert_eq!(compare("scale", pass_lock), Outcome::Exhaustive);
}

#[test]
fn sick_examples_fail_with_reduction_and_without() {
    for name in SICK {
        let found = compare(name, move |world| sick::program(world, name));
        assert_eq!(found, Outcome::Failed, "{name}");
    }
}
