//! What can be promised, apart from who promises it.
//!
//! A property watches ranks of one simulated job: it is made for a run, and told what happens. What it compares must be in memory that the ranks reach
//! through the fabric, at least in part: the exploration tries every order of operations on memory that matters, and knows nothing of Rust variables.

mod mutual_exclusion;

pub use mutual_exclusion::MutualExclusion;
