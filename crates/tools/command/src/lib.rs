//! What the programs of the `farside` command have in common.
//!
//! `farside` starts jobs and looks at them. What else it knows, such as `farside check`, is a
//! program beside it, `farside-check`, which it runs: those who start jobs need not build it.

mod beside;
mod end;
mod manual;
mod words;

pub use beside::Beside;
pub use end::{Misuse, complain, conclude, is_misuse};
pub use manual::{complete, pages, write_pages};
pub use words::{DESCRIBE, PAGES, answer};
