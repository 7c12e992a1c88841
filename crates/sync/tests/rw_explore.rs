//! Every schedule of every reader-writer lock, as far as that ends; random ones beyond.

mod rw_support;

use farside::rw::Kind;
use farside::{Rank, Result, RwLock, World};
use rw_support::{Roles, STYLES, Style, Totals, long, passes, passes_at_random};

/// One writer with two readers, two writers with one reader, and two rounds where that ends.
const SMALL: [Roles; 3] = [&["w", "r", "r"], &["w", "w", "r"], &["ww", "rr"]];

fn of(kind: &Kind) -> impl Fn(&World) -> Result<RwLock> + Clone + 'static {
    let kind = kind.clone();
    move |world: &World| RwLock::of_kind(world, Rank(0), &kind)
}

fn explore(kind: &Kind, topology: &str, roles: &[Roles], style: Style, totals: &Totals) {
    for &roles in roles {
        passes(kind.name(), topology, of(kind), (roles, style), totals);
    }
}

fn explore_at_random(kind: &Kind, totals: &Totals) {
    let runs = if long() { 2000 } else { 30 };
    let roles: Roles = &["wr", "rrwr", "rrr", "rwr"];
    for (ranks, topology) in [(8, "rack:2,node:2,socket:2"), (16, "rack:2,node:2,socket:2"), (16, "node:1")] {
        for style in STYLES {
            passes_at_random(kind.name(), (ranks, topology), of(kind), (roles, style), runs, totals);
        }
    }
    println!("{}: {}", kind.name(), totals.show());
}

mod fompi_rw {
    use super::*;

    #[test]
    fn waiting() {
        let totals = Totals::default();
        explore(&Kind::FompiRw { backoff: false }, "node:1", &SMALL, Style::Wait, &totals);
        explore(&Kind::FompiRw { backoff: true }, "node:1", &SMALL, Style::Wait, &totals);
        totals.reached(&["reads", "writes", "reads_queued", "writes_queued"]);
    }

    #[test]
    fn giving_up() {
        let totals = Totals::default();
        for style in [Style::GiveUp, Style::WalkAway, Style::Try] {
            // Three ranks that ask twice take minutes.
            let small = if long() || style == Style::WalkAway { &SMALL[..] } else { &SMALL[2..] };
            explore(&Kind::FompiRw { backoff: false }, "node:1", small, style, &totals);
        }
        totals.reached(&["given_up"]);
    }

    #[test]
    fn many_ranks() {
        explore_at_random(&Kind::FompiRw { backoff: false }, &Totals::default());
        explore_at_random(&Kind::FompiRw { backoff: true }, &Totals::default());
    }
}
