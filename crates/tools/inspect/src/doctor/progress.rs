//! Which ranks can still go on.

use crate::snapshot::{ActivityView, ContextView, Kind, RankState, RankView, Snapshot};

use super::LONG_NS;

/// A rank that polls has looked this recently; otherwise it has gone on to something else.
const POLLED_NS: u64 = 500_000_000;

/// The beginnings of two waits that differ by less are one: the clocks of hosts are compared by
/// messages, which take their time.
const SINCE_NS: u64 = 20_000_000;

#[derive(Debug, Clone, Copy)]
pub(super) enum Doing<'a> {
    /// It has not joined.
    Starting,
    /// It has left, was lost, or its process is gone.
    Gone,
    /// It is on another machine.
    Elsewhere,
    Stopped,
    /// It does not wait, or waits for something else than before.
    Runs,
    /// It waits, since the first snapshot at least.
    Waits(&'a ContextView, &'a ActivityView),
}

pub(super) struct Progress<'a> {
    pub(super) after: &'a Snapshot,
    pub(super) doing: Vec<Doing<'a>>,
    can_go_on: Vec<bool>,
}

impl<'a> Progress<'a> {
    pub(super) fn new(before: &'a Snapshot, after: &'a Snapshot) -> Progress<'a> {
        let doing = after
            .ranks
            .iter()
            .map(|rank| doing(before.ranks.get(rank.rank as usize), rank, after.taken_ns))
            .collect();
        let can_go_on = vec![false; after.ranks.len()];
        let mut progress = Progress { after, doing, can_go_on };
        progress.settle();
        progress
    }

    /// Finds all ranks that can go on, beginning with those that run.
    fn settle(&mut self) {
        loop {
            let next: Vec<bool> = (0..self.doing.len()).map(|at| self.goes_on(at)).collect();
            if next == self.can_go_on {
                return;
            }
            self.can_go_on = next;
        }
    }

    fn goes_on(&self, at: usize) -> bool {
        match self.doing[at] {
            Doing::Starting | Doing::Elsewhere | Doing::Runs => true,
            Doing::Gone | Doing::Stopped => false,
            Doing::Waits(_, activity) => {
                let rank = self.after.ranks[at].rank;
                // What is under way to a silent node may end any wait: it answers again, or it
                // counts as lost after a while, and waits for it end with an error.
                let is_cut = !self.after.silences.is_empty();
                activity.has_limit || is_cut || self.wait_ends(rank, activity)
            }
        }
    }

    fn wait_ends(&self, rank: u32, activity: &ActivityView) -> bool {
        let any_other = || {
            let mut others = self.peers(activity).into_iter().filter(|&peer| peer != rank);
            others.any(|peer| self.can(peer))
        };
        match activity.kind {
            Kind::Pause => true,
            Kind::Lock => {
                let holders = self.after.holders(activity.segment, activity.number);
                // Its turn has come, and it has not noticed yet.
                has_changed(activity)
                    || match holders.is_empty() {
                        true => any_other(),
                        false => holders.iter().all(|&(holder, _)| self.can(holder)),
                    }
            }
            Kind::Collective => {
                let missing = missing(activity);
                has_changed(activity) || missing.iter().all(|&member| self.can(member))
            }
            // Whoever sleeps through a change is not woken by what others may do in time.
            Kind::Word => !is_unnoticed(activity) && any_other(),
            Kind::Epoch | Kind::Poll => has_changed(activity) || any_other(),
            // The peer's node answers, whatever the peer does, as long as it is there.
            Kind::Transfer | Kind::Flush | Kind::Call => self.peers(activity).iter().any(|&peer| {
                !matches!(self.doing_of(peer), Some(Doing::Stopped | Doing::Gone) | None)
            }),
        }
    }

    /// The ranks that can end a wait.
    pub(super) fn peers(&self, activity: &ActivityView) -> Vec<u32> {
        let all = || self.after.ranks.iter().map(|rank| rank.rank).collect();
        activity.peers.clone().unwrap_or_else(all)
    }

    pub(super) fn doing_of(&self, rank: u32) -> Option<Doing<'a>> {
        self.doing.get(rank as usize).copied()
    }

    pub(super) fn can(&self, rank: u32) -> bool {
        self.can_go_on.get(rank as usize).copied().unwrap_or(false)
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = (u32, &'a ContextView, &'a ActivityView)> {
        self.doing.iter().enumerate().filter_map(|(at, doing)| match doing {
            Doing::Waits(context, activity) => Some((at as u32, *context, *activity)),
            _ => None,
        })
    }

    pub(super) fn stuck(&self) -> Vec<u32> {
        self.waiting().map(|(rank, ..)| rank).filter(|&rank| !self.can(rank)).collect()
    }

    pub(super) fn longest_wait_ns(&self) -> u64 {
        let is_wait = |activity: &ActivityView| activity.kind != Kind::Pause;
        let waits = self.waiting().filter(|(_, _, activity)| is_wait(activity));
        waits.map(|(_, context, _)| self.waited_ns(context)).max().unwrap_or(0)
    }

    pub(super) fn waited_ns(&self, context: &ContextView) -> u64 {
        self.after.taken_ns.saturating_sub(context.since_ns)
    }

    /// The ranks that a rank waits for, as far as its wait names them.
    pub(super) fn awaited(&self, rank: u32) -> Vec<u32> {
        let Some(Doing::Waits(_, activity)) = self.doing_of(rank) else { return Vec::new() };
        let mut awaited = match activity.kind {
            Kind::Lock => {
                let holders = self.after.holders(activity.segment, activity.number);
                holders.into_iter().map(|(holder, _)| holder).collect()
            }
            Kind::Collective => missing(activity),
            Kind::Transfer | Kind::Flush | Kind::Call | Kind::Epoch => self.peers(activity),
            Kind::Word | Kind::Pause | Kind::Poll => Vec::new(),
        };
        awaited.retain(|&other| other != rank);
        awaited
    }
}

/// The members that have not come to a collective.
pub(super) fn missing(activity: &ActivityView) -> Vec<u32> {
    // Numbers wrap, and no member is ever half of all numbers ahead of another.
    let has_come = |entered: u64| (entered as u32).wrapping_sub(activity.number as u32) as i32 >= 0;
    let entered = activity.entered.iter();
    entered.filter(|&&(_, entered)| !has_come(entered)).map(|&(rank, _)| rank).collect()
}

/// Whether the awaited word has changed since its waiter last looked.
fn has_changed(activity: &ActivityView) -> bool {
    let changed = |word: &crate::snapshot::WordView| word.now.is_some_and(|now| now != word.seen);
    activity.word.as_ref().is_some_and(changed)
}

/// Whether a word has changed, and its waiter sleeps on.
pub(super) fn is_unnoticed(activity: &ActivityView) -> bool {
    activity.kind == Kind::Word && has_changed(activity)
}

fn doing<'a>(before: Option<&'a RankView>, rank: &'a RankView, now_ns: u64) -> Doing<'a> {
    match &rank.state {
        RankState::Starting => return Doing::Starting,
        RankState::Left | RankState::Lost(_) => return Doing::Gone,
        RankState::Alive => {}
    }
    if !rank.is_read {
        return Doing::Elsewhere;
    }
    match &rank.system {
        None => return Doing::Gone,
        Some(system) if matches!(system.state, 'T' | 't') => return Doing::Stopped,
        Some(_) => {}
    }
    let waits = |(at, context): (usize, &'a ContextView)| {
        let activity = context.activity.as_ref()?;
        let earlier = before?.contexts.get(at)?;
        let same = earlier.since_ns.abs_diff(context.since_ns) < SINCE_NS
            && earlier.activity.as_ref().is_some_and(|earlier| is_same(earlier, activity));
        let is_over =
            activity.kind == Kind::Poll && now_ns.saturating_sub(context.looked_ns) > POLLED_NS;
        // A change that was made since the first look, or seen since, may be noticed in a moment.
        let held =
            |activity: &ActivityView| activity.word.as_ref().map(|word| (word.seen, word.now));
        let has_stood = earlier.looked_ns == context.looked_ns
            && earlier.activity.as_ref().is_some_and(|earlier| held(earlier) == held(activity));
        let is_fresh = is_unnoticed(activity)
            && (!has_stood || now_ns.saturating_sub(context.since_ns) < LONG_NS);
        (same && !is_over && !is_fresh).then_some((context, activity))
    };
    // Another context may belong to a thread that computes, or to one that has nothing to do: it
    // counts as idle if it makes no operation and the process uses hardly any time.
    let is_idle = |(at, context): (usize, &ContextView)| {
        let earlier = before.and_then(|before| before.contexts.get(at));
        earlier.is_some_and(|earlier| earlier.operations == context.operations)
    };
    let there = || rank.contexts.iter().enumerate().filter(|(_, context)| context.is_there);
    let first = there().filter_map(waits).min_by_key(|(context, _)| context.since_ns);
    let others_wait = there().all(|each| waits(each).is_some()) && rank.unrecorded == 0;
    let others_idle = || {
        let main_waits = there().next().is_some_and(|each| waits(each).is_some());
        let idle = there().all(|each| waits(each).is_some() || is_idle(each));
        main_waits && idle && !is_busy(before, rank)
    };
    match first {
        Some((_, activity)) if is_kept_from_running(before, rank, activity) => Doing::Runs,
        Some((context, activity)) if others_wait || others_idle() => {
            Doing::Waits(context, activity)
        }
        _ => Doing::Runs,
    }
}

/// Whether a rank is awake, and others have the processor: it may be about to see that its wait is
/// over. One that polls is awake, too, but it runs.
fn is_kept_from_running(
    before: Option<&RankView>,
    rank: &RankView,
    activity: &ActivityView,
) -> bool {
    let is_awake = |rank: &RankView| rank.system.as_ref().is_some_and(|system| system.state == 'R');
    let was_awake = before.is_some_and(is_awake);
    // The time in which it would have looked at what it waits for.
    const TURN_NS: u64 = 5_000_000;
    is_awake(rank) && (was_awake || has_changed(activity)) && computed_ns(before, rank) < TURN_NS
}

/// Whether some thread of a rank's process has computed for more than moments between two looks.
fn is_busy(before: Option<&RankView>, rank: &RankView) -> bool {
    const MOMENTS_NS: u64 = 50_000_000;
    computed_ns(before, rank) > MOMENTS_NS
}

fn computed_ns(before: Option<&RankView>, rank: &RankView) -> u64 {
    let computed = |rank: &RankView| rank.system.as_ref().map(|system| system.computed_ns);
    let earlier = before.and_then(computed).unwrap_or(0);
    computed(rank).unwrap_or(0).saturating_sub(earlier)
}

fn is_same(before: &ActivityView, after: &ActivityView) -> bool {
    (before.kind, before.segment, before.number) == (after.kind, after.segment, after.number)
        && before.place == after.place
}
