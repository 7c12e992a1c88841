//! Reader-writer locks whose fields are so narrow that they run over in every run.

use farside::lock::frame::Variant;
use farside::rw::mutants::{self as variants, Base, GivesUpOnReaders, Narrow, RunsOver};
use farside::{Rank, Result, RwLock, World};

use super::{Roles, visits};
use crate::check::{Check, Setup};
use crate::family::asking::Style;
use crate::property::Promise;

fn of<V: Variant>(base: Base) -> impl Fn(&World) -> Result<RwLock> + Clone + 'static {
    move |world: &World| variants::lock::<V>(world, Rank(0), base)
}

fn narrow<V: Variant>(name: &'static str, about: &'static str, base: Base, roles: Roles) -> Check {
    let subject = visits(of::<V>(base), (roles, Style::Wait), &[]);
    Check::new(name, about, subject).setup(Setup::new(roles.len() as u32))
}

const TRIES: &str = "failed attempts to write, then a write, while others read";
const LIMITS: &str = "writes with time limits, then a write, while others read";
const READS: &str = "more reads than a counter can count";

/// One counter for all ranks of a node, two writers in a row, T_R = 2.
const SHARED: Base = Base::RmaRwOf(None, &[2], 2);

/// A writer that tries twice before it waits, and a reader.
const TRY: Roles = &["ttw", "r"];
const TRY_TWICE: Roles = &["tt", "rr"];
const TWO_READERS: Roles = &["tw", "r", "r"];
const TRY_ONCE: Roles = &["tw", "r"];
const LIMITED: Roles = &["llw", "r"];
const LIMITED_ONCE: Roles = &["lw", "r"];
const MANY_READS: Roles = &["rrrrrr", "w"];
const MANY_READERS: Roles = &["rrr", "rrr"];

/// The writer waits for a reader that does not know that it was let in.
const DEADLOCK: &str = "deadlock: rank 0 waits";

/// All checks with narrow fields.
pub(super) fn checks() -> Vec<Check> {
    vec![
        narrow::<Narrow>("rw/rma-rw-narrow-tries", TRIES, Base::RmaRw, TRY),
        narrow::<Narrow>("rw/rma-rw-narrow-tries-twice", TRIES, SHARED, TRY_TWICE),
        narrow::<Narrow>("rw/rma-rw-narrow-readers", TRIES, SHARED, TWO_READERS),
        narrow::<Narrow>("rw/rma-rw-narrow-limits", LIMITS, SHARED, LIMITED),
        narrow::<Narrow>("rw/rma-rw-narrow-reads", READS, SHARED, MANY_READS),
        narrow::<Narrow>("rw/rma-rw-narrow-many", READS, SHARED, MANY_READERS),
        narrow::<Narrow>("rw/default-rw-narrow-tries", TRIES, Base::Slots, TRY),
        narrow::<Narrow>("rw/default-rw-narrow-insists", TRIES, Base::SharedSlots, TRY_ONCE),
        narrow::<Narrow>("rw/default-rw-narrow-limits", LIMITS, Base::SharedSlots, LIMITED_ONCE),
        narrow::<Narrow>("rw/default-rw-narrow-reads", READS, Base::Slots, MANY_READS),
        narrow::<GivesUpOnReaders>("rw/rma-rw-gives-up-on-readers", TRIES, SHARED, TRY)
            .mutant(Promise::Progress, DEADLOCK),
        narrow::<GivesUpOnReaders>(
            "rw/default-rw-gives-up-on-readers",
            TRIES,
            Base::SharedSlots,
            TRY,
        )
        .mutant(Promise::Progress, DEADLOCK),
        narrow::<RunsOver>("rw/rma-rw-runs-over", READS, SHARED, MANY_READERS)
            .mutant(Promise::Progress, DEADLOCK),
        narrow::<RunsOver>("rw/default-rw-runs-over", READS, Base::Slots, MANY_READS)
            .mutant(Promise::Progress, "had left"),
    ]
}
