//! What tests of single programs share.

use farside::{Local, Result, World};
use farside_races::{Checker, Report};

pub(crate) fn checked(ranks: u32, program: impl Fn(&World) -> Result<()> + Sync) -> Report {
    let checker = Checker::new(ranks).unwrap();
    let over = checker.clone();
    let local = Local::new(ranks).unwrap().decorate(move |fabric| over.over(fabric).unwrap());
    local.run(|world| program(world)).unwrap();
    checker.report()
}
