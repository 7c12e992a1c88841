//! The steps of epochs without which they are wrong. Known-wrong variants leave one out, and the
//! explorer must catch each of them.

use farside_fabric::Step;

/// Without it, an epoch ends while its operations are under way.
pub const FLUSH: Step = Step("complete the operations of an epoch before it ends");
/// Without it, another origin takes a target between the look at it and the store.
pub const TAKE_AT_ONCE: Step = Step("take a free target in one atomic step");
/// Without it, a reader stays inside although it was not let in.
pub const WITHDRAW: Step = Step("withdraw a reader that another origin was ahead of");
/// Without it, a queue waits although its target is free.
pub const GRANT: Step = Step("grant the lock to those in the queue that may have it now");
/// Without it, the agent frees a shared target when the first reader leaves.
pub const COUNT: Step = Step("free a shared target when the last reader has left");
/// Without it, a target grants every lock at once.
pub const EXCLUDE: Step = Step("grant a lock to origins that may share it with its holders");
/// Without it, ranks that wait for each other wait for ever.
pub const SERVE: Step = Step("serve the requests of others while waiting");
/// Without it, an access epoch is said to be over before its data has landed.
pub const ORDER: Step = Step("order the data of an access epoch ahead of the word that ends it");
/// Without it, an access epoch begins before its targets have posted theirs.
pub const AWAIT_POSTS: Step = Step("begin an access epoch when its targets have posted theirs");
/// Without it, an exposure epoch ends before its origins have completed theirs.
pub const AWAIT_ORIGINS: Step =
    Step("end an exposure epoch when its origins have completed theirs");
/// Without it, a rank returns from a fence before the others have come.
pub const MEET: Step = Step("meet all members in a fence");
/// Without it, the signal of an old barrier lands on that of a newer one.
pub const ADD_BARRIERS: Step = Step("add to the count of barriers that a member has come to");
