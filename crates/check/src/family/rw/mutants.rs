//! Reader-writer locks that are wrong on purpose.

use farside::lock::frame::Variant;
use farside::rw::mutants::{self as wrong, Base};
use farside::{Rank, Result, RwLock, World};

use super::{Roles, visits};
use crate::check::{Check, Setup};
use crate::family::asking::Style;
use crate::property::Promise;

fn of<V: Variant>(base: Base) -> impl Fn(&World) -> Result<RwLock> + Clone + 'static {
    move |world: &World| wrong::lock::<V>(world, Rank(0), base)
}

fn waiting<V: Variant>(name: &'static str, about: &'static str, base: Base, roles: Roles) -> Check {
    let subject = visits(of::<V>(base), (roles, Style::Wait), &[]);
    Check::new(name, about, subject).setup(Setup::new(roles.len() as u32))
}

const PAIR: Roles = &["w", "r"];
const TWICE: Roles = &["w", "rr"];
const FLUSH: &str = "passes the lock on before what was written under it has landed";
const WAKE: &str = "departs without a word to the writer that waits for it";

/// All wrong variants.
pub(super) fn checks() -> Vec<Check> {
    vec![
        waiting::<wrong::WithoutFlush>("rw/fompi-rw-without-flush", FLUSH, Base::FompiRw, PAIR)
            .mutant(Promise::Visibility, "was written"),
        waiting::<wrong::WithoutFlush>("rw/rma-rw-without-flush", FLUSH, Base::RmaRw, PAIR)
            .mutant(Promise::Visibility, "was written"),
        waiting::<wrong::WithoutFlush>("rw/default-rw-without-flush", FLUSH, Base::Slots, PAIR)
            .mutant(Promise::Visibility, "was written"),
        waiting::<wrong::InTwoSteps>(
            "rw/fompi-rw-in-two-steps",
            "looks, and then \
            writes",
            Base::FompiRw,
            PAIR,
        )
        .mutant(Promise::Exclusion, "meets"),
        waiting::<wrong::InTwoSteps>(
            "rw/default-rw-in-two-steps",
            "begins to linger in two \
            steps",
            Base::Slots,
            PAIR,
        )
        .mutant(Promise::Progress, "had left"),
        waiting::<wrong::WithoutWaking>("rw/rma-rw-without-waking", WAKE, Base::RmaRw, PAIR)
            .mutant(Promise::Progress, "had left"),
        waiting::<wrong::WithoutWaking>("rw/default-rw-without-waking", WAKE, Base::Slots, PAIR)
            .mutant(Promise::Progress, "had left"),
        waiting::<wrong::WithoutDrain>(
            "rw/default-rw-without-drain",
            "goes in with readers \
            inside",
            Base::Slots,
            PAIR,
        )
        .mutant(Promise::Exclusion, "meets"),
        waiting::<wrong::WithoutDrain>(
            "rw/rma-rw-without-drain",
            "as printed in [RMALOCK16] listing 6: a reader and a writer are inside together",
            Base::RmaRw,
            PAIR,
        )
        .mutant(Promise::Exclusion, "meets"),
        waiting::<wrong::WithoutAskingAgain>(
            "rw/rma-rw-without-asking-again",
            "as printed in [RMALOCK16] listing 9: after T_R readers, one waits for a writer that \
             has left",
            Base::RmaRw,
            TWICE,
        )
        .mutant(Promise::Progress, "had left"),
        waiting::<wrong::ResetsInSteps>(
            "rw/rma-rw-resets-in-steps",
            "as printed in [RMALOCK16] listing 6: a reset takes a writer's mark away",
            Base::RmaRw,
            TWICE,
        )
        .mutant(Promise::Progress, "had left"),
        waiting::<wrong::ClimbsTooEarly>(
            "rw/rma-rw-climbs-too-early",
            "lets the next of its element go up before the wider queue is left",
            Base::RmaRw,
            &["ww", "w", ""],
        )
        .setup(Setup::new(3).topology("node:2"))
        .mutant(Promise::Progress, "had left"),
    ]
}
