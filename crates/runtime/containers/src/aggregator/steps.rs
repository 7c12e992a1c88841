//! The steps of aggregators without which they are wrong. Known-wrong variants leave one out, and
//! the explorer must catch each of them.

use farside_fabric::Step;

/// Without it, packets are written over that were not read.
pub const AWAIT_ROOM: Step = Step("send a packet where its receiver has taken out what was there");
/// Without it, items are handled that nobody has counted.
pub const COUNT_FIRST: Step = Step("say how many items were pushed before any of them leaves");
/// Without it, items count when their packets are closed: until then they are nobody's.
pub const COUNT_PUSHED: Step = Step("count an item when it is pushed");
/// Without it, reports of different times are believed.
pub const ASK_ALL: Step = Step("ask all ranks when their reports suggest the end");
/// Without it, a run ends while others still produce.
pub const AWAIT_ALL: Step = Step("end a run when no rank will push more by itself");
/// Without it, an old acknowledgement lands on a newer one.
pub const ADD_TAKEN: Step = Step("add to the count of packets that were taken");
/// Without it, numbers of packets soon begin again, which is right, too.
pub const WIDEN_NUMBERS: Step = Step("number packets with 32 bits instead of two");
