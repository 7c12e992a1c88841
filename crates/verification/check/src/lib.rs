//! Checks: programs that explore whether a protocol keeps what it promises.
//!
//! - [`Check`]: a protocol, what is expected of it, and how it is explored by default;
//! - [`checks`]: all that there are, one list for each family of protocols ([`family`]);
//! - [`property`]: what can be promised, each in a file of its own, apart from the protocols.
//!
//! A family is added by a module with a function `checks() -> Vec<Check>`, and its name in the list
//! in [`family`]. A wrong variant of a protocol is a check as well: one that must be caught.
//! `docs/checking.md` tells the rest.
//!
//! ```
//! use farside_check::{Outcome, checks};
//!
//! let check = checks().into_iter().find(|check| check.name == "example/ticket").unwrap();
//! let setup = check.setup.clone().ranks(2).rounds(1);
//! let finding = check.run(&setup, check.policy, 0, &check.budget(), &mut |_| ())?;
//! assert_eq!(finding.outcome, Outcome::Exhaustive);
//! # Ok::<(), farside::Error>(())
//! ```

#![forbid(unsafe_code)]

mod check;
mod describe;
pub mod family;
pub mod generated;
pub mod property;
mod select;

pub use check::{Budget, Check, Expectation, Finding, Outcome, Setup, Subject};
pub use family::checks;
pub use farside::check::describe_trace;
pub use select::{Unknown, select};
