//! Every schedule of every lock, as far as that ends; random ones beyond.

mod support;

use farside::lock::Kind;
use farside::{Lock, Rank, Result, World};
use support::{Style, counting, long, passes, passes_at_random};

fn of(kind: &Kind) -> impl Fn(&World) -> Result<Lock> + Clone + 'static {
    let kind = kind.clone();
    move |world: &World| Lock::of_kind(world, Rank(0), &kind)
}

/// 2 ranks x 2 rounds and 3 ranks x 1 round. A lock that looks at the topology is explored on one node and on one each; so are all in
/// the long run. Where that takes minutes, it is left to the long run, and 2 ranks do 1 round.
fn explore(kind: &Kind, style: Style, looks_at_topology: bool, is_large: bool) {
    for (ranks, rounds, far) in [(2, 2, "node:2"), (3, 1, "node:3")] {
        if ranks == 3 && is_large && !long() {
            continue;
        }
        let rounds = if is_large && !long() { 1 } else { rounds };
        passes(kind.name(), ranks, "node:1", &counting(of(kind), rounds, style));
        if looks_at_topology || long() {
            passes(kind.name(), ranks, far, &counting(of(kind), rounds, style));
        }
    }
}

fn explore_at_random(kind: &Kind) {
    let runs = if long() { 5000 } else { 25 };
    for (ranks, topology) in [(8, "node:3"), (16, "node:4"), (16, "node:1")] {
        for style in [Style::Wait, Style::GiveUp, Style::WalkAway, Style::Try, Style::Patient] {
            passes_at_random(kind.name(), ranks, topology, &counting(of(kind), 3, style), runs);
        }
    }
}

macro_rules! kinds {
    ($($name:ident: $kind:expr, $looks_at_topology:literal, $is_large:literal, $all_are_large:literal;)*) => { $(mod $name {
        use super::*;
        #[test] fn waiting() { explore(&$kind, Style::Wait, $looks_at_topology, $all_are_large) }
        #[test] fn giving_up() { explore(&$kind, Style::GiveUp, $looks_at_topology, $is_large) }
        #[test] fn walking_away() { explore(&$kind, Style::WalkAway, $looks_at_topology, $is_large) }
        #[test] fn trying() { explore(&$kind, Style::Try, $looks_at_topology, $is_large) }
        #[test] fn many_ranks() { explore_at_random(&$kind) }
    })* };
}

kinds! {
    server: Kind::Server, true, true, true;
    hybrid: Kind::Hybrid, true, true, true;
    asleep: Kind::Bypass { bound: 64, polls: 0 }, true, true, false;
    bound_of_one: Kind::Bypass { bound: 1, polls: 0 }, true, true, false;
    one_look: Kind::Bypass { bound: 1, polls: 1 }, true, true, true;
    ticket: Kind::Ticket, false, false, false;
    mcs: Kind::Mcs, false, false, false;
    token: Kind::Token, false, false, false;
    spin: Kind::Spin { backoff: false }, false, true, false;
    spin_with_backoff: Kind::Spin { backoff: true }, false, true, false;
}

/// The default polls, which has many more schedules.
mod default {
    use super::*;

    #[test]
    fn waiting() {
        let kind = Kind::Default;
        for topology in ["node:1", "node:2"] {
            passes(kind.name(), 2, topology, &counting(of(&kind), 1, Style::Wait));
        }
        if long() {
            explore(&kind, Style::Wait, true, false);
        }
    }

    #[test]
    fn many_ranks() {
        explore_at_random(&Kind::Default);
    }
}

/// Two levels with three ranks, three levels with four.
mod tree {
    use super::*;

    fn with(t_l: u32) -> Kind {
        Kind::Tree { thresholds: vec![t_l] }
    }

    #[test]
    fn waiting() {
        for t_l in [1, 32] {
            passes("rma-mcs", 3, "node:2", &counting(of(&with(t_l)), 1, Style::Wait));
        }
    }

    #[test]
    fn trying() {
        passes("rma-mcs", 3, "node:2", &counting(of(&with(32)), 1, Style::Try));
    }

    #[test]
    fn walking_away() {
        passes("rma-mcs", 3, "node:2", &counting(of(&with(32)), 1, Style::WalkAway));
    }

    #[test]
    fn three_levels() {
        let runs = if long() { 50_000 } else { 150 };
        for t_l in [1, 2, 32] {
            for style in [Style::Wait, Style::GiveUp, Style::WalkAway, Style::Try, Style::Patient] {
                for (ranks, topology) in [(4, "rack:2,node:2"), (8, "rack:2,node:2")] {
                    passes_at_random("rma-mcs", ranks, topology, &counting(of(&with(t_l)), 3, style), runs);
                }
            }
        }
    }

    #[test]
    fn many_ranks() {
        explore_at_random(&with(2));
    }
}
