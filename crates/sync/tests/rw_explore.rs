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

mod rma_rw {
    use super::*;

    fn with(t_dc: Option<u32>, t_l: &[u32], t_r: u32) -> Kind {
        Kind::RmaRw { t_dc, t_l: t_l.to_vec(), t_r }
    }

    #[test]
    fn waiting_with_one_counter() {
        let totals = Totals::default();
        explore(&with(None, &[2], 1), "node:1", &SMALL, Style::Wait, &totals);
        println!("{}", totals.show());
        totals.reached(&["closed", "drained", "opened", "yielded", "passed_across", "reads_queued", "writes_queued"]);
        totals.reached(&["limit_reached", "limit_kept", "limit_lifted"]);
    }

    #[test]
    fn waiting_with_a_counter_each() {
        let totals = Totals::default();
        explore(&with(Some(1), &[1], 1), "node:1", &SMALL, Style::Wait, &totals);
        println!("{}", totals.show());
        totals.reached(&["closed", "drained", "opened", "reads_queued", "yielded"]);
    }

    #[test]
    fn waiting_in_a_tree() {
        let totals = Totals::default();
        for t_l in [[1, 2], [2, 1]] {
            explore(&with(None, &t_l, 2), "node:2", &[&["w", "w", "r"], &["w", "r", "w"]], Style::Wait, &totals);
        }
        println!("{}", totals.show());
        totals.reached(&["passed_within", "passed_across", "left_for_another", "yielded"]);
        totals.reached(&["passed_near", "passed_far"]);
    }

    #[test]
    fn giving_up() {
        let totals = Totals::default();
        for style in [Style::GiveUp, Style::WalkAway, Style::Try] {
            explore(
                &with(None, &[2], 1),
                "node:1",
                &[&["w", "r"], &["r", "w"], &["ww", "rr"], &["w", "w"]],
                style,
                &totals,
            );
        }
        println!("{}", totals.show());
        totals.reached(&["given_up"]);
    }

    #[test]
    fn walking_away_from_a_tree() {
        let totals = Totals::default();
        let roles: [Roles; 4] = [&["w", "w", "r"], &["w", "w", "w"], &["ww", "w", ""], &["w", "r", "w"]];
        explore(&with(None, &[2, 2], 1), "node:2", &roles, Style::WalkAway, &totals);
        println!("{}", totals.show());
        totals.reached(&["given_up", "passed_within"]);
    }

    #[test]
    fn two_rounds_of_three_ranks() {
        let totals = Totals::default();
        explore(&with(Some(1), &[2], 1), "node:1", &[&["ww", "r", "rr"], &["ww", "w", "r"]], Style::Wait, &totals);
        if long() {
            explore(&with(None, &[2], 1), "node:1", &[&["ww", "w", "rr"]], Style::Wait, &totals);
        }
    }

    #[test]
    fn many_ranks() {
        let totals = Totals::default();
        explore_at_random(&with(Some(1), &[1, 2], 1), &totals);
        explore_at_random(&with(Some(3), &[2], 2), &totals);
        explore_at_random(&Kind::rma_rw(), &totals);
        let all = ["closed", "drained", "opened", "yielded", "passed_within", "passed_across", "left_for_another"];
        totals.reached(&all);
        totals.reached(&["limit_reached", "limit_kept", "limit_lifted", "reads_queued", "writes_queued", "given_up"]);
    }
}

mod slots {
    use super::*;

    fn with(t_dc: Option<u32>, t_w: u32, yields: u32) -> Kind {
        Kind::Slots { t_dc, t_w, yields }
    }

    /// Three ranks, or two rounds of two, take minutes.
    fn explore_each(t_dc: Option<u32>, totals: &Totals) {
        let roles: [Roles; 4] = [&["w", "r"], &["w", "rr"], &["ww", "r"], &["w", "w"]];
        for (t_w, yields) in [(1, 0), (2, 1)] {
            explore(&with(t_dc, t_w, yields), "node:1", &roles, Style::Wait, totals);
            if long() {
                explore(&with(t_dc, t_w, yields), "node:1", &SMALL, Style::Wait, totals);
            }
        }
        println!("{}", totals.show());
    }

    #[test]
    fn waiting() {
        let totals = Totals::default();
        explore_each(None, &totals);
        totals.reached(&["closed", "drained", "opened", "passed_across", "insisted", "reads_queued"]);
        totals.reached(&["lingered", "reads_alone"]);
    }

    #[test]
    fn waiting_at_one_counter() {
        let totals = Totals::default();
        if long() {
            explore_each(Some(4), &totals);
        } else {
            explore(&with(Some(4), 2, 1), "node:1", &[&["w", "r"], &["w", "rr"], &["w", "w"]], Style::Wait, &totals);
            explore(&with(Some(4), 1, 0), "node:1", &[&["w", "r"]], Style::Wait, &totals);
        }
        totals.reached(&["closed", "drained", "opened", "insisted", "reads_queued", "lingered"]);
    }

    #[test]
    fn giving_up() {
        let totals = Totals::default();
        let roles: [Roles; 4] = [&["w", "r"], &["r", "w"], &["w", "w"], &["ww", "rr"]];
        for style in [Style::GiveUp, Style::WalkAway, Style::Try] {
            let roles = if long() { &roles[..] } else { &roles[..3] };
            explore(&with(None, 2, 1), "node:1", roles, style, &totals);
        }
        println!("{}", totals.show());
        totals.reached(&["given_up"]);
    }

    #[test]
    fn many_ranks() {
        let totals = Totals::default();
        explore_at_random(&with(None, 1, 1), &totals);
        explore_at_random(&with(Some(3), 2, 0), &totals);
        explore_at_random(&Kind::Default, &totals);
        let all = ["closed", "drained", "opened", "yielded", "passed_across", "insisted", "reads_queued", "given_up"];
        totals.reached(&all);
        totals.reached(&["lingered", "reads_alone"]);
    }
}
