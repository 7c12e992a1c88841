//! The steps of barriers, fences and syncs without which they are wrong. Known-wrong variants leave
//! one out, and the explorer must catch each of them.

use farside_fabric::Step;

/// Without it, a request for confirmation may overtake what it is to confirm.
pub const ORDER: Step = Step("order a request for confirmation behind what it confirms");
/// Without it, flags are used again a round too early: a neighbour may be one round ahead.
pub const ALTERNATE: Step = Step("use two sets of flags in turn");
/// Without it, a parent is told before the children have come.
pub const GATHER: Step = Step("wait for every child before telling the parent");
/// Without it, what was posted is counted, and not waited for.
pub const AWAIT_LANDINGS: Step = Step("wait until as much has landed as was posted");
/// Without it, a member goes on when its own memory is complete.
pub const MEET_AGAIN: Step = Step("meet again when all that was posted has landed everywhere");
/// Without it, landings of ranks that are no members are taken for those of members.
pub const COUNT_ALL: Step = Step("count landings only where all ranks of the job are members");
/// Without it, a contribution that was not read yet is overwritten.
pub const AWAIT_PLACE: Step = Step("reuse the place of a collective when its result has come");
/// Without it, a handler is called that another rank does not offer yet.
pub const MEET_TO_SERVE: Step = Step("meet when all have offered a handler");
/// Without it, others free memory that this member's operations are on their way to.
pub const FLUSH_BEFORE_FREE: Step = Step("free memory when all that was posted has landed");
