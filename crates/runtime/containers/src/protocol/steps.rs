//! The steps of hash tables without which they are wrong. Known-wrong variants leave one out, and
//! the explorer must catch each of them. One more is left out where tests let a table be full.

use farside_fabric::Step;

/// Without it, what was read during a write is believed.
pub const VALIDATE: Step = Step("look whether a bucket has changed after reading it");
/// Without it, an entry is visible before it has landed.
pub const ORDER: Step = Step("order what an entry says ahead of the word that makes it visible");
/// Without it, a key is looked for in a bucket that was split.
pub const LOOK_AT_DEPTH: Step = Step("look whether a bucket was split since its shape was learned");
/// Without it, a rank goes back where a lost rank had split a bucket by half. Under a lock the new
/// depth is the mark.
pub const MARK_SPLIT: Step = Step("mark a bucket whose other half is complete");
/// Without it, cells are used that a lost rank may still write to.
pub const ABANDON: Step = Step("abandon the cells of a bucket that a lost rank has held");
/// Without it, a key is there twice that two ranks insert at once.
pub const LOOK_AGAIN: Step = Step("look for the key among the elements that came meanwhile");
/// Without it, a later entry of a key is sent ahead of an earlier one.
pub const LOOK_ONCE: Step = Step("believe the first look at a bucket for all keys of a batch");
/// Without it, survivors find the locks of their volumes poisoned.
pub const RECOVER_LOCKS: Step = Step("recover the locks that a lost rank may have held");
/// Without it, cells are taken away from under a reader.
pub const SHOW_SWEEP: Step = Step("change the version of a bucket that cells are taken from");
/// Without it, a volume is full: tests leave it out once.
pub const FIND_CELLS: Step = Step("find cells that nothing leads to");
