//! Exclusive locks whose fields are so narrow that they run over in every run.

use farside::lock::mutants::{self as variants, Base};
use farside::rw::mutants::Narrow;
use farside::{Rank, World};

use super::exclusive;
use crate::check::{Check, Setup};
use crate::family::asking::Style;

fn narrow(name: &'static str, about: &'static str, base: Base, style: Style) -> Check {
    let make = move |world: &World| variants::lock::<Narrow>(world, Rank(0), base);
    Check::new(name, about, exclusive(make, style))
}

const REQUESTS: &str = "requests to an agent are numbered with two bits";
const PLACES: &str = "places in the queue are numbered with two bits";

/// All checks with narrow fields.
pub(super) fn checks() -> Vec<Check> {
    let far = || Setup::new(2).topology("node:1").rounds(3);
    vec![
        narrow("lock/hybrid-narrow", REQUESTS, Base::Hybrid, Style::Wait).setup(far()),
        narrow("lock/hybrid-narrow-gives-up", REQUESTS, Base::Hybrid, Style::GiveUp)
            .setup(far().rounds(2)),
        narrow("lock/d-mcs-token-narrow", PLACES, Base::Token, Style::Wait)
            .setup(Setup::new(2).rounds(5)),
    ]
}
