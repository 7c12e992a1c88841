//! The origin's end of a connection.

#[cfg(test)]
mod state;

use std::collections::VecDeque;
use std::marker::PhantomData;

use crate::link::buffer::Loan;
use crate::link::variant::{Right, Variant};

/// The first guess of how long an answer takes, until one was measured.
const TIMEOUT_FIRST_NS: u64 = 50_000_000;
/// A shorter wait would take every moment that the far agent does not run for a loss.
const TIMEOUT_MIN_NS: u64 = 4_000_000;
const TIMEOUT_MAX_NS: u64 = 500_000_000;
/// After so many sends of one request the wait for an answer is doubled.
const SENDS_PER_DOUBLING: u32 = 3;
/// How many requests may be under way at first.
const ALLOWED_FIRST: u64 = 16;

/// Numbers requests and keeps them until they are closed.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Sender<V = Right> {
    next: u64,
    /// Everything up to this number was executed.
    executed: u64,
    records: VecDeque<Record>,
    /// How many requests may be under way now: halved by a loss, grown by successes, never beyond
    /// the window.
    allowed: u64,
    /// How many were closed since `allowed` has grown.
    credit: u64,
    /// No second halving for losses of the same moment.
    halved_ns: u64,
    timing: Timing,
    /// Requests below this number were under way when one was repeated: how long they took says
    /// nothing, since they may have waited for that one.
    unclear: u64,
    repeated: u64,
    variant: PhantomData<V>,
}

/// A request that may have to be sent again.
#[cfg_attr(test, derive(Clone))]
struct Record {
    number: u64,
    packet: Vec<u8>,
    /// The end of the packet, as long as it is somebody else's.
    loan: Option<Loan>,
    wants_answer: bool,
    answered: bool,
    /// It has arrived, ahead of its turn.
    held: bool,
    sent_ns: u64,
    sends: u32,
    /// The number that was next when it was sent last: what has that number or a higher one was
    /// sent after it.
    next_then: u64,
}

impl<V: Variant> Sender<V> {
    pub(crate) fn new() -> Sender<V> {
        Sender {
            next: 1,
            executed: 0,
            records: VecDeque::new(),
            allowed: ALLOWED_FIRST,
            credit: 0,
            halved_ns: 0,
            timing: Timing::default(),
            unclear: 0,
            repeated: 0,
            variant: PhantomData,
        }
    }

    /// Whether one more request may be sent now.
    pub(crate) fn may_send(&self) -> bool {
        // Those under way have consecutive numbers: as few as this, none is further ahead of the
        // oldest than a server remembers.
        let window = if V::KEEPS_TO_WINDOW { V::WINDOW } else { V::WINDOW + 1 };
        let under_way = if V::COUNTS_FROM_OLDEST {
            self.records.len()
        } else {
            self.records.iter().filter(|record| !record.is_closed::<V>(self.executed)).count()
        };
        (under_way as u64) < self.allowed.min(window)
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.records.is_empty()
    }

    /// How many requests are under way.
    pub(crate) fn under_way(&self) -> usize {
        self.records.len()
    }

    /// The number of the oldest request that may still have to be repeated.
    fn oldest_open(&self) -> u64 {
        self.records.front().map_or(self.next, |record| record.number)
    }

    /// The number that the next request will have.
    pub(crate) fn next_number(&self) -> u64 {
        self.next
    }

    /// Up to which number everything was executed.
    pub(crate) fn executed(&self) -> u64 {
        self.executed
    }

    /// Whether the answer to a request is still wanted.
    pub(crate) fn awaits(&self, number: u64) -> bool {
        let at =
            number.checked_sub(self.oldest_open()).and_then(|at| self.records.get(at as usize));
        at.is_some_and(|record| record.wants_answer && !record.answered)
    }

    /// How many requests were sent again.
    pub(crate) fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Keeps a request that is being sent now, under the number that [`Sender::next_number`] gave.
    /// Its end may be lent: until [`Sender::take_over`], or until it is closed.
    pub(crate) fn keep(
        &mut self,
        packet: Vec<u8>,
        loan: Option<Loan>,
        wants_answer: bool,
        now_ns: u64,
    ) {
        debug_assert!(self.may_send());
        self.records.push_back(Record {
            number: self.next,
            packet,
            loan,
            wants_answer,
            answered: false,
            held: false,
            sent_ns: now_ns,
            sends: 1,
            next_then: self.next + 1,
        });
        self.next += 1;
    }

    /// Copies what is still lent for the parts that `whose` says, and gives it back.
    pub(crate) fn take_over(&mut self, mut whose: impl FnMut(Option<u32>) -> bool) {
        for record in &mut self.records {
            if let Some(loan) = record.loan.take_if(|loan| whose(loan.part())) {
                record.packet.extend_from_slice(loan.bytes());
            }
        }
    }

    /// A reply has come, which answers `number` (zero: none), says that all up to `executed` were
    /// executed, and which of the later ones are `held`. Gives back the packets that are not needed
    /// any more, and what was lent for them. Says whether it was news: a reply that was sent to us
    /// a second time is none.
    pub(crate) fn acknowledge(
        &mut self,
        number: u64,
        executed: u64,
        held: u64,
        now_ns: u64,
        mut done: impl FnMut(Vec<u8>, Option<Loan>),
    ) -> bool {
        // Whatever it says, nothing was executed that was not sent.
        let claimed = executed.min(self.next - 1);
        // It may have been overtaken by later replies. What it says is still true, if it is read as
        // it was written: `held` counts from its own `executed`.
        let executed = if V::NEVER_GOES_BACK { claimed.max(self.executed) } else { claimed };
        let first_held = 2 + if V::READS_AS_WRITTEN { claimed } else { executed };
        let highest_held =
            if held == 0 { 0 } else { first_held + u64::from(63 - held.leading_zeros()) };
        let closed_before = self.executed;
        self.executed = executed;
        let mut is_news = executed > closed_before;
        for record in &mut self.records {
            let was_closed = record.is_closed::<V>(closed_before);
            is_news |= record.number == number && !record.answered;
            record.answered |= record.number == number;
            let bit = record.number.checked_sub(first_held).filter(|&bit| bit < 64);
            record.held |= bit.is_some_and(|bit| held >> bit & 1 == 1);
            // Once only: it may have to stay here for the sake of an older one. What was taken for
            // lost has no time stamp any more.
            let is_clear =
                record.sends == 1 && record.sent_ns != 0 && record.number >= self.unclear;
            if !was_closed && record.is_closed::<V>(executed) && is_clear {
                self.timing.measured(now_ns.saturating_sub(record.sent_ns));
            }
            // What was sent later has arrived, or was answered: this one was lost, or its answer,
            // and not overtaken.
            let seen = if record.number > executed { highest_held } else { number };
            if record.is_open::<V>(executed)
                && !record.held
                && record.next_then + (V::OVERTAKEN_BY - 1) <= seen
            {
                record.sent_ns = 0;
            }
        }
        while self.records.front().is_some_and(|record| record.is_closed::<V>(executed)) {
            if let Some(record) = self.records.pop_front() {
                done(record.packet, record.loan);
                self.credit += 1;
            }
        }
        if self.credit >= self.allowed {
            self.credit = 0;
            self.allowed = (self.allowed + 4).min(V::WINDOW);
        }
        is_news
    }

    /// Calls `send` with every request that is overdue, and with its end if that is lent.
    pub(crate) fn repeat_overdue(&mut self, now_ns: u64, mut send: impl FnMut(&[u8], &[u8])) {
        let timeout = self.timing.timeout_ns();
        let mut lost = false;
        for record in &mut self.records {
            if !record.is_open::<V>(self.executed) || now_ns < record.due_ns(timeout) {
                continue;
            }
            lost = true;
            record.sent_ns = now_ns;
            record.sends = record.sends.saturating_add(1);
            record.next_then = self.next;
            self.unclear = self.next;
            self.repeated += 1;
            send(&record.packet, record.loan.as_ref().map_or(&[], Loan::bytes));
        }
        if lost && now_ns.saturating_sub(self.halved_ns) > timeout {
            self.halved_ns = now_ns;
            self.allowed = (self.allowed / 2).max(2);
            self.credit = 0;
        }
    }

    /// When [`Sender::repeat_overdue`] is to be called next; `None` if nothing is under way.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        let timeout = self.timing.timeout_ns();
        let open = self.records.iter().filter(|record| record.is_open::<V>(self.executed));
        open.map(|record| record.due_ns(timeout)).min()
    }

    /// Forgets everything: the other end is gone.
    pub(crate) fn abandon(&mut self) {
        self.records.clear();
        self.executed = self.next - 1;
    }
}

impl Record {
    /// Whether nothing more is to come of it.
    fn is_closed<V: Variant>(&self, executed: u64) -> bool {
        self.number <= executed && (self.answered || !self.wants_answer || !V::AWAITS_ANSWERS)
    }

    /// Whether repeating it can help: it has not arrived, or its answer has not. Of those that have
    /// arrived ahead of their turn, the one whose turn it is was executed by now: what is missing
    /// is the acknowledgement, and nothing else would bring it.
    fn is_open<V: Variant>(&self, executed: u64) -> bool {
        if self.number <= executed {
            self.wants_answer && !self.answered
        } else {
            !self.held || (V::REPEATS_HELD && self.number == executed + 1)
        }
    }

    fn due_ns(&self, timeout_ns: u64) -> u64 {
        if self.sent_ns == 0 {
            return 0;
        }
        // Fewer may be under way after each loss, which is what a crowded network needs. Waiting
        // longer helps where nobody answers at all.
        let doublings = ((self.sends - 1) / SENDS_PER_DOUBLING).min(6);
        self.sent_ns.saturating_add(timeout_ns.saturating_mul(1 << doublings).min(TIMEOUT_MAX_NS))
    }
}

/// How long an answer takes: a moving average and its deviation, as TCP keeps them.
#[derive(Default)]
#[cfg_attr(test, derive(Clone))]
struct Timing {
    smooth_ns: u64,
    deviation_ns: u64,
}

impl Timing {
    fn measured(&mut self, sample_ns: u64) {
        let sample = sample_ns.max(1);
        if self.smooth_ns == 0 {
            (self.smooth_ns, self.deviation_ns) = (sample, sample / 2);
            return;
        }
        let off = self.smooth_ns.abs_diff(sample);
        self.deviation_ns = self.deviation_ns - self.deviation_ns / 4 + off / 4;
        self.smooth_ns = (self.smooth_ns - self.smooth_ns / 8 + sample / 8).max(1);
    }

    fn timeout_ns(&self) -> u64 {
        if self.smooth_ns == 0 {
            return TIMEOUT_FIRST_NS;
        }
        (self.smooth_ns + 4 * self.deviation_ns).clamp(TIMEOUT_MIN_NS, TIMEOUT_MAX_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::WINDOW;

    fn sender(count: u64, wants_answer: bool) -> Sender {
        let mut sender = Sender::new();
        sender.allowed = WINDOW;
        for _ in 0..count {
            sender.keep(Vec::new(), None, wants_answer, 1);
        }
        sender
    }

    fn forget(_: Vec<u8>, _: Option<Loan>) {}

    fn overdue(sender: &mut Sender, now_ns: u64) -> usize {
        let mut count = 0;
        sender.repeat_overdue(now_ns, |_, _| count += 1);
        count
    }

    #[test]
    fn the_window_is_counted_from_the_oldest_open_request() {
        let mut sender = sender(WINDOW, true);
        assert!(!sender.may_send());
        // All were executed, but the first answer is missing: its repetition must still be
        // answered.
        for number in 2..=WINDOW {
            sender.acknowledge(number, WINDOW, 0, 2, forget);
        }
        assert!(!sender.may_send());
        assert_eq!(sender.executed(), WINDOW);
        sender.acknowledge(1, WINDOW, 0, 3, forget);
        assert!(sender.may_send() && sender.is_idle());
    }

    #[test]
    fn what_was_posted_needs_no_answer_of_its_own() {
        let mut sender = sender(10, false);
        let mut closed = 0;
        sender.acknowledge(0, 7, 0, 2, |_, _| closed += 1);
        assert_eq!((closed, sender.executed()), (7, 7));
    }

    #[test]
    fn requests_are_repeated_ever_more_seldom_until_they_are_closed() {
        let mut sender = sender(1, true);
        assert_eq!(overdue(&mut sender, TIMEOUT_FIRST_NS), 0);
        assert_eq!(sender.due_ns(), Some(1 + TIMEOUT_FIRST_NS));
        assert_eq!(overdue(&mut sender, 1 + TIMEOUT_FIRST_NS), 1);
        assert_eq!(sender.due_ns(), Some(1 + 2 * TIMEOUT_FIRST_NS));
        assert_eq!(overdue(&mut sender, 1 + 2 * TIMEOUT_FIRST_NS), 1);
        assert_eq!(overdue(&mut sender, 1 + 3 * TIMEOUT_FIRST_NS), 1);
        assert_eq!(
            sender.due_ns(),
            Some(1 + 5 * TIMEOUT_FIRST_NS),
            "three times in vain: the wait is doubled"
        );
        // Executed, but not answered: still worth a repetition.
        sender.acknowledge(0, 1, 0, 4 * TIMEOUT_FIRST_NS, forget);
        assert_eq!(overdue(&mut sender, 1 + 5 * TIMEOUT_FIRST_NS), 1);
        sender.acknowledge(1, 1, 0, 6 * TIMEOUT_FIRST_NS, forget);
        assert_eq!((sender.due_ns(), sender.repeated()), (None, 4));
    }

    #[test]
    fn a_request_that_others_overtook_is_repeated_at_once() {
        let mut sender = sender(5, false);
        // 1 was executed, 3 and 4 have arrived: 2 may be late.
        sender.acknowledge(0, 1, 0b011, 10, forget);
        assert_eq!(overdue(&mut sender, 11), 0);
        // 5 too: 2 is lost.
        sender.acknowledge(0, 1, 0b111, 12, forget);
        assert_eq!(overdue(&mut sender, 13), 1);
        assert_eq!(overdue(&mut sender, 14), 0);
    }

    #[test]
    fn a_repetition_that_others_overtook_is_repeated_at_once() {
        let mut sender = sender(5, false);
        sender.acknowledge(0, 1, 0b111, 12, forget);
        assert_eq!(overdue(&mut sender, 13), 1, "2 is lost");
        for _ in 6..=8 {
            sender.keep(Vec::new(), None, false, 14);
        }
        // 6 and 7 were sent after 2 was repeated: it may still be late. With 8 it is not.
        sender.acknowledge(0, 1, 0b1_1111, 15, forget);
        assert_eq!(overdue(&mut sender, 16), 0);
        sender.acknowledge(0, 1, 0b11_1111, 17, forget);
        assert_eq!(overdue(&mut sender, 18), 1);
    }

    #[test]
    fn an_answer_that_others_overtook_is_asked_for_at_once() {
        let mut sender = sender(5, true);
        for number in [2, 3] {
            sender.acknowledge(number, 5, 0, 10, forget);
            assert_eq!(overdue(&mut sender, 11), 0, "the answer to 1 may be late");
        }
        sender.acknowledge(4, 5, 0, 12, forget);
        assert_eq!(overdue(&mut sender, 13), 1);
        assert_eq!(overdue(&mut sender, 14), 0);
    }

    #[test]
    fn what_waited_for_a_repetition_is_no_measure() {
        let mut sender = sender(3, false);
        // 1 is lost. 2 and 3 arrive at once, but are executed only when 1 is.
        sender.acknowledge(0, 0, 0b11, 10, forget);
        assert_eq!(overdue(&mut sender, 1 + TIMEOUT_FIRST_NS), 1);
        sender.acknowledge(0, 3, 0, 2 * TIMEOUT_FIRST_NS, forget);
        assert!(sender.is_idle());
        assert_eq!(sender.timing.smooth_ns, 0);
    }

    #[test]
    fn a_reply_that_was_overtaken_marks_no_later_requests_as_arrived() {
        let mut sender = sender(5, false);
        // Written when 1 was missing and 2 and 3 had arrived, and then held up on its way while all
        // five were executed.
        let late = |sender: &mut Sender| sender.acknowledge(0, 0, 0b011, 20, forget);
        assert!(sender.acknowledge(0, 5, 0, 10, forget));
        for _ in 6..=9 {
            sender.keep(Vec::new(), None, false, 10);
        }
        assert!(!late(&mut sender), "no news");
        assert_eq!(overdue(&mut sender, 10 + TIMEOUT_MAX_NS), 4, "7 and 8 have not arrived");
    }

    #[test]
    fn how_long_an_answer_took_is_measured_once() {
        let mut sender = sender(2, true);
        sender.acknowledge(2, 2, 0, 1_000, forget);
        let known = sender.timing.smooth_ns;
        // The first is still open, and keeps the second here.
        sender.acknowledge(0, 2, 0, 1_000_000_000, forget);
        assert_eq!(sender.timing.smooth_ns, known);
    }

    #[test]
    fn a_request_that_was_only_late_is_no_measure() {
        let mut sender = sender(5, false);
        sender.acknowledge(0, 1, 0b111, 1_000, forget);
        let known = sender.timing.smooth_ns;
        // 2 was taken for lost, but comes before it is repeated.
        sender.acknowledge(0, 2, 0, 3_600_000_000_000, forget);
        assert_eq!(sender.timing.smooth_ns, known);
    }

    #[test]
    fn a_request_that_came_too_early_is_repeated_when_its_acknowledgement_is_lost() {
        let mut sender = sender(3, false);
        // 1 is missing, 2 and 3 have arrived. Then 1 is executed and acknowledged; what was said of
        // 2 and 3 gets lost.
        sender.acknowledge(0, 0, 0b11, 10, forget);
        assert_eq!(overdue(&mut sender, 1 + TIMEOUT_FIRST_NS), 1);
        sender.acknowledge(0, 1, 0, 2 * TIMEOUT_FIRST_NS, forget);
        assert_eq!(
            overdue(&mut sender, 3 * TIMEOUT_FIRST_NS),
            1,
            "only 2: its acknowledgement will tell of 3, too"
        );
    }

    #[test]
    fn an_answer_to_nothing_that_was_sent_changes_nothing() {
        for nothing in [99, u64::MAX - 1, u64::MAX] {
            let mut sender = sender(2, true);
            sender.acknowledge(nothing, nothing, u64::MAX, 10, forget);
            assert_eq!(sender.executed(), 2);
            assert!(!sender.is_idle(), "answers are still missing");
        }
    }

    #[test]
    fn a_request_can_be_sent_more_often_than_is_counted() {
        let mut sender = sender(1, true);
        sender.records[0].sends = u32::MAX - 1;
        for round in 1..=3 {
            assert_eq!(overdue(&mut sender, round * 2 * TIMEOUT_MAX_NS), 1);
        }
        assert_eq!(sender.due_ns(), Some(7 * TIMEOUT_MAX_NS), "the wait stays the longest");
    }
}
