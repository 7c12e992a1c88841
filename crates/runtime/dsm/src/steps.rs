//! The steps of shared pages without which they are wrong. Known-wrong variants leave one out, and
//! the explorer must catch each of them. Without the last two shared pages are right as well.

use farside_fabric::Step;

/// Without it, the first notice of each interval is overlooked, and its page stays stale.
pub const HEED_NOTICES: Step = Step("heed every write notice");
/// Without it, the newest diff is applied first, and older words overtake newer ones.
pub const ORDER_DIFFS: Step = Step("apply diffs in the order in which they happened");
/// Without it, a page is compared with the twin of an earlier interval.
pub const RENEW_TWINS: Step = Step("make a new twin for each interval");
/// Without it, diffs are thrown away while others still need them.
pub const AWAIT_KEEPERS: Step = Step("throw diffs away when all ranks have what they need of them");
/// Without it, a subtree is sent what its sibling lacks.
pub const TELL_SUBTREES_APART: Step = Step("send each subtree what that subtree lacks");
/// Without it, a rank passes on its own notices only.
pub const PASS_ON: Step = Step("send with a lock what others have told its last holder");
/// Without it, ranks that ask for a lock do not hear what was told in barriers of some ranks.
pub const KEEP_WHAT_SOME_TELL: Step = Step("keep what is heard in a barrier of some ranks");
/// Without it, a rank takes back the place in which its successor is about to ask.
pub const ALTERNATE_PLACES: Step = Step("use two places for the requests of a lock in turn");
/// Without it, a page is fetched whole with words that change back, and that no diff corrects.
pub const TAKE_TWINS: Step = Step("take the twin of a page that is written where it comes from");
/// Without it, a page that was reclaimed is fetched as it was before.
pub const NOTE_ANEW: Step = Step("forget which pages have twins before diffs are thrown away");
/// Without it, an acknowledgement takes back a newer one: several may be on their way, and land in
/// any order.
pub const ADD_TAKEN: Step = Step("add to the count of long messages that were taken");
/// Without it, others wait for a rank that cannot go on.
pub const TELL_OF_FAILURE: Step = Step("tell others that an error keeps this rank from going on");

/// Without it, twins are renewed when an interval ends: what was written before is in no diff.
pub const RENEW_TWINS_LATE: Step = Step("renew a twin when its diff is made, and not before");
/// Without it, a page is forgotten when its diff was made, and what the current interval writes is
/// lost.
pub const COMPARE_AGAIN: Step = Step("look again at a page of which a diff was made");
/// Without it, a chain goes on when another domain has written its page, and older words overtake
/// newer ones.
pub const END_CHAINS: Step = Step("make the diff of a page that another domain has written");
/// Without it, a whole page is written back over a neighbour's store.
pub const MERGE_WORDS: Step = Step("merge the words of other domains one by one into a page");
/// Without it, words of other domains become this one's own.
pub const MERGE_INTO_TWINS: Step = Step("merge the words of other domains into the twin, too");
/// Without it, other ranks of the domain store to a page that was closed.
pub const TELL_OF_CLOSED: Step = Step("tell the other ranks of the domain that a page was closed");
/// Without it, a page that a neighbour can still write is closed at the end of an interval.
pub const HEED_WRITERS: Step = Step("close a page when no rank of its domain can write it");
/// Without it, a diff that was pushed is merged into a page that lacks older ones of others.
pub const PUSH_ALONE: Step = Step("merge what was pushed into a page that lacks nothing else");
/// Without it, a diff that was pushed is merged into a page that lacks one before it.
pub const HEED_GAPS: Step = Step("merge what was pushed into a page that has what came before it");
/// Without it, a diff of all words is taken for all that there is to fetch.
pub const KEEP_LATER_DIFFS: Step = Step("apply the diffs after one of all words");
/// Without it, a diff of all words but one is taken for one of all.
pub const TELL_WHOLE: Step = Step("tell a diff of all words from one that is as long");
/// Without it, nobody hears of stores to pages that were opened ahead of them.
pub const LOOK_AT_OPENED: Step = Step("look whether a page that was opened ahead has changed");

/// Without it, tickets, epochs and orders run over the end of 32 bits soon.
pub const COUNT_FROM_ZERO: Step = Step("count tickets, epochs and orders from zero");
/// Without it, each access to what ranks of a domain share is an operation as well, so that the
/// explorer tries its orders with others.
pub const LEAVE_UNMARKED: Step = Step("leave accesses to what a domain shares unmarked");
