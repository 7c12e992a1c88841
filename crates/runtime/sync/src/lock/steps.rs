//! The steps of exclusive locks without which they are wrong. Known-wrong variants leave one out,
//! and the explorer must catch each of them.

use farside_fabric::Step;

/// Without it, the next holder does not see what was written under the lock.
pub const FLUSH: Step = Step("flush before the lock is passed on");
/// Without it, two ranks take the same lock, or the same ticket.
pub const TAKE_AT_ONCE: Step = Step("take a lock or a ticket in one atomic step");
/// Without it, a successor that has swapped the tail links itself when nobody looks any more.
pub const LOOK_AGAIN: Step = Step("wait for a successor that is about to link itself");
/// Without it, a waiter gives up a place to which the lock is passed at that moment.
pub const GIVE_UP_AT_ONCE: Step = Step("give up a place in one atomic step");
/// Without it, the lock is passed to a rank that has gone away.
pub const SKIP: Step = Step("skip a place that was given up");
/// Without it, the next of an element enters the wider queue while its element still stands there.
pub const CLIMB_LAST: Step = Step("release the wider queue before the next goes there");
/// Without it, the lock stays inside an element for as long as any rank there wants it.
pub const KEEP_T_L: Step = Step("leave an element when T_L ranks of it had the lock in a row");
/// Without it, writers follow each other for as long as there are any.
pub const KEEP_T_W: Step = Step("let readers in when T_W writers had the lock in a row");
/// Without it, a link that comes at the same time as a grant is lost.
pub const KEEP_LINK: Step = Step("take a grant without writing the link beside it");
/// Without it, a rank writes the node that still says at the tail that the lock is free.
pub const ALTERNATE: Step = Step("use two nodes in turn");
/// Without it, a tail that is as it was is taken for one that did not change.
pub const NUMBER_PLACES: Step = Step("number the places of a queue");
/// Without it, the lock is left free without a word to the parked head of the queue.
pub const WAKE: Step = Step("wake the head of the queue when the lock becomes free");
/// Without it, running ranks are ahead of the head of the queue for ever.
pub const BOUND_BYPASS: Step = Step("hand the lock to a head that was bypassed often enough");
/// Without it, a rank enters when its ticket is the next, whoever is inside.
pub const AWAIT_PERMIT: Step = Step("enter only with a permit");
/// Without it, a rank enters when a permit is left, whoever has waited longer.
pub const AWAIT_TURN: Step = Step("enter in the order of the tickets");
/// Without it, what the lost had under way may land in a lock that was recovered.
pub const TAKE_NEW_WORDS: Step = Step("recover a lock in new words");
