//! The steps that an epoch protocol needs, and that known-wrong variants leave out.

/// The steps without which a protocol is wrong. All of them are taken by [`Right`]; the wrong ones
/// exist for the checker, which must find each of them out. A protocol is compiled from the same
/// lines for every variant.
pub trait Variant: 'static {
    /// Completes the operations of an epoch before it ends.
    const FLUSHES: bool = true;
    /// Takes a free target in one atomic step.
    const TAKES_AT_ONCE: bool = true;
    /// A reader that has counted itself while another origin comes first withdraws.
    const WITHDRAWS: bool = true;
    /// An origin that leaves grants the lock to the first of the queue, if it may have it now.
    const GRANTS: bool = true;
    /// The agent frees a shared target when the last reader has left, and not before.
    const COUNTS: bool = true;
    /// A target grants a lock only to origins that may have it together with its holders.
    const EXCLUDES: bool = true;
    /// Serves the requests of others while it waits for an answer to its own.
    const SERVES: bool = true;
    /// Orders the data of an access epoch before the word that it is over.
    const ORDERS: bool = true;
    /// Begins an access epoch only when its targets have posted theirs.
    const AWAITS_POSTS: bool = true;
    /// Ends an exposure epoch only when its origins have completed theirs.
    const AWAITS_ORIGINS: bool = true;
    /// A fence returns only when all members have come.
    const MEETS: bool = true;
    /// Adds to the count of barriers that a member has come to. The signals of several barriers may
    /// be on their way, and land in any order.
    const ADDS_BARRIERS: bool = true;
}

/// The right one.
pub struct Right;

impl Variant for Right {}

farside_rma::wrong_variants! {
    /// Ends an epoch while its operations are under way.
    WithoutFlush: FLUSHES;
    /// Looks whether the target is free, and then takes it.
    InTwoSteps: TAKES_AT_ONCE;
    /// Stays inside although it was not let in.
    WithoutWithdrawing: WITHDRAWS;
    /// Leaves without a word to the first of the queue.
    WithoutGrant: GRANTS;
    /// Frees a shared target when the first reader leaves.
    WithoutCount: COUNTS;
    /// Grants every lock at once.
    WithoutExclusion: EXCLUDES;
    /// Is deaf while it waits.
    WithoutServing: SERVES;
    /// Says that an access epoch is over before its data has landed.
    WithoutOrder: ORDERS;
    /// Begins an access epoch whenever it likes.
    WithoutAwaitingPosts: AWAITS_POSTS;
    /// Ends an exposure epoch whenever it likes.
    WithoutAwaitingOrigins: AWAITS_ORIGINS;
    /// Returns from a fence before the others have come.
    WithoutMeeting: MEETS;
    /// Writes the number of a barrier, and an older one over a newer one.
    StoresBarriers: ADDS_BARRIERS;
}
