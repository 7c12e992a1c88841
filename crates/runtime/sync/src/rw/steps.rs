//! The steps of reader-writer locks without which they are wrong, besides those of the exclusive
//! locks that are part of them. Known-wrong variants leave one out, and the explorer must catch
//! each of them.

use farside_fabric::Step;

/// Without it, the next reader or writer does not see what was written under the lock.
pub const FLUSH: Step = Step("flush before a read or a write ends");
/// Without it, a reader goes in between a writer's look and its mark.
pub const TAKE_AT_ONCE: Step = Step("take the word as a writer in one atomic step");
/// Without it, a reader that says meanwhile that it waits is not heard.
pub const LINGER_AT_ONCE: Step = Step("begin to linger in one atomic step");
/// Without it, a writer that waits for readers is not told that they have departed.
pub const TELL: Step = Step("tell the writer that has closed a counter of a departure");
/// Without it, a reader and a writer are inside together (\[RMALOCK16\] listing 6 as printed).
pub const DRAIN: Step = Step("wait for the readers inside before a writer goes in");
/// Without it, a reader waits at T_R for a writer that has left (\[RMALOCK16\] listing 9 as
/// printed).
pub const ASK_AGAIN: Step = Step("ask again for writers while T_R keeps a reader out");
/// Without it, a reset takes a writer's mark away (\[RMALOCK16\] listing 6 as printed).
pub const RESET_AT_ONCE: Step = Step("count readers anew in one atomic step");
/// Without it, a turn may go round while a reader that was let in has not noticed.
pub const CLOSE_EMPTY: Step = Step("close a counter with a time limit only when it is empty");
/// Without it, readers go in for as long as they come.
pub const KEEP_T_R: Step = Step("keep readers out while a writer waits and T_R have come");
/// Without it, arrivals that run over change the next field.
pub const COUNT_ON_TOP: Step = Step("count arrivals in the topmost field of a counter");
