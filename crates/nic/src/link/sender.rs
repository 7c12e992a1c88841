//! The initiator's end of a connection: send records, retransmission, and the window.
//!
//! Paper:   \[NIC02 section III-A\]: a send record with a time stamp for each packet, kept until it
//!          is acknowledged; \[NIC02 section III-B\]: a limit on unacknowledged operations.
//! Differs: the time-out follows the measured round trip, as in TCP; a packet that three later ones
//!          have overtaken is sent again at once; the window shrinks with losses. What a stream
//!          carries is repeated when the stream has broken.

#[cfg(test)]
mod state;
#[cfg(test)]
mod streamed;
mod timing;

use std::collections::VecDeque;
use std::marker::PhantomData;

use crate::link::buffer::Loan;
use crate::link::variant::{Right, Variant};
use crate::transport::Carrier;

use self::timing::{DOUBLINGS_MAX, STREAM_TIMEOUT_MAX_NS, TIMEOUT_MAX_NS, Timeouts, Timing};

/// The time-out is doubled after so many sends of one request.
const SENDS_PER_DOUBLING: u32 = 3;
/// The number of requests that may be under way at first.
const ALLOWED_FIRST: u64 = 16;

/// Numbers requests and keeps a send record of each until it is closed.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Sender<V = Right> {
    next: u64,
    /// All requests up to this number have been executed.
    executed: u64,
    records: VecDeque<Record>,
    /// The number of requests that may be under way now: halved by a loss, grown by successes,
    /// never beyond the window.
    allowed: u64,
    /// The number of requests closed since `allowed` has grown.
    credit: u64,
    /// The time of the last halving: losses of the same moment halve once.
    halved_ns: u64,
    timing: Timing,
    /// The round trips by stream, which include the time in its queues.
    stream_timing: Timing,
    /// The stream to the server, if there is one.
    stream: Carrier,
    /// Requests below this number were under way when one was repeated. Their round trips are not
    /// measured, since they may have waited for that one.
    unclear: u64,
    repeated: u64,
    variant: PhantomData<V>,
}

/// What a reply acknowledges.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Acknowledgement {
    /// The request that it answers; zero for none.
    pub(crate) number: u64,
    /// All requests up to this number have been executed.
    pub(crate) executed: u64,
    /// Bit `i` says that request `executed + 2 + i` has arrived ahead of its turn.
    pub(crate) held: u64,
}

/// A send record: a request that may have to be sent again.
#[cfg_attr(test, derive(Clone))]
struct Record {
    number: u64,
    packet: Vec<u8>,
    /// The end of the packet, while it is lent.
    loan: Option<Loan>,
    /// What has carried it last.
    carrier: Carrier,
    /// Whether it, or its answer, is too long for a datagram of the path.
    is_long: bool,
    wants_answer: bool,
    answered: bool,
    /// It has arrived ahead of its turn.
    held: bool,
    sent_ns: u64,
    sends: u32,
    /// How often its time-out was doubled because those of earlier requests were too short.
    backoff: u32,
    /// The number that was next when it was last sent: requests from that number on were sent after
    /// it.
    next_then: u64,
}

/// A request that is being sent.
pub(crate) struct Sent {
    pub(crate) packet: Vec<u8>,
    /// Its end, if that is lent until [`Sender::take_over`], or until the request is closed.
    pub(crate) loan: Option<Loan>,
    pub(crate) wants_answer: bool,
    /// Whether it, or its answer, is too long for a datagram of the path.
    pub(crate) is_long: bool,
    pub(crate) carrier: Carrier,
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
            stream_timing: Timing::default(),
            stream: Carrier::DATAGRAM,
            unclear: 0,
            repeated: 0,
            variant: PhantomData,
        }
    }

    /// Returns the stream to the server, if there is one.
    pub(crate) fn stream(&self) -> Carrier {
        self.stream
    }

    /// Learns the stream to the server. What another one has carried is lost, unless its reply is
    /// under way.
    pub(crate) fn set_stream(&mut self, stream: Carrier) {
        if stream == self.stream {
            return;
        }
        self.stream = stream;
        for record in &mut self.records {
            if record.carrier.is_stream() && record.carrier != stream {
                (record.carrier, record.sent_ns) = (Carrier::DATAGRAM, 0);
            }
        }
    }

    /// Returns whether one more request may be sent now. How many a stream carries at a time is
    /// limited by the window alone: TCP adapts to the network.
    pub(crate) fn may_send(&self, by_stream: bool) -> bool {
        // Those under way have consecutive numbers, so none is further ahead of the oldest than the
        // server's table is long.
        let window = if V::KEEPS_TO_WINDOW { V::WINDOW } else { V::WINDOW + 1 };
        let under_way = if V::COUNTS_FROM_OLDEST {
            self.records.len()
        } else {
            self.records.iter().filter(|record| !record.is_closed::<V>(self.executed)).count()
        };
        (under_way as u64) < if by_stream { window } else { self.allowed.min(window) }
    }

    /// Returns whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the number of requests under way.
    pub(crate) fn under_way(&self) -> usize {
        self.records.len()
    }

    /// Returns the number of the oldest request that may have to be repeated.
    fn oldest_open(&self) -> u64 {
        self.records.front().map_or(self.next, |record| record.number)
    }

    /// Returns the number of the next request.
    pub(crate) fn next_number(&self) -> u64 {
        self.next
    }

    /// Returns the number up to which all requests have been executed.
    pub(crate) fn executed(&self) -> u64 {
        self.executed
    }

    /// Returns whether the answer to a request is still awaited.
    pub(crate) fn awaits(&self, number: u64) -> bool {
        let at =
            number.checked_sub(self.oldest_open()).and_then(|at| self.records.get(at as usize));
        at.is_some_and(|record| record.wants_answer && !record.answered)
    }

    /// Returns the number of retransmissions.
    pub(crate) fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Makes the send record of a request, whose number is [`Sender::next_number`].
    pub(crate) fn keep(&mut self, sent: Sent, now_ns: u64) {
        let Sent { packet, loan, wants_answer, is_long, carrier } = sent;
        // A stream may have broken while the packet was given to it: then it went as a datagram,
        // and may be one more than the network should carry, but never one more than the window.
        debug_assert!(self.may_send(true));
        let timing = if carrier.is_stream() { &self.stream_timing } else { &self.timing };
        self.records.push_back(Record {
            number: self.next,
            packet,
            loan,
            carrier,
            is_long,
            wants_answer,
            answered: false,
            held: false,
            sent_ns: now_ns,
            sends: 1,
            backoff: timing.backoff(),
            next_then: self.next + 1,
        });
        self.next += 1;
    }

    /// Returns whether anything is still lent for the parts that `whose` selects.
    pub(crate) fn has_loan(&self, whose: impl Fn(Option<u32>) -> bool) -> bool {
        let is_whose =
            |record: &Record| record.loan.as_ref().is_some_and(|loan| whose(loan.part()));
        self.records.iter().any(is_whose)
    }

    /// Copies what is still lent for the parts that `whose` selects, and returns the loans.
    pub(crate) fn take_over(&mut self, mut whose: impl FnMut(Option<u32>) -> bool) {
        for record in &mut self.records {
            if let Some(loan) = record.loan.take_if(|loan| whose(loan.part())) {
                record.packet.extend_from_slice(loan.bytes());
            }
        }
    }

    /// Takes in a reply. `done` gets back each packet that has been closed, with its loan. Returns
    /// whether the reply said anything new: a copy of an earlier one does not.
    pub(crate) fn acknowledge(
        &mut self,
        reply: Acknowledgement,
        now_ns: u64,
        mut done: impl FnMut(Vec<u8>, Option<Loan>),
    ) -> bool {
        let Acknowledgement { number, executed, held } = reply;
        // Whatever the reply says, nothing has been executed that was not sent.
        let claimed = executed.min(self.next - 1);
        // Later replies may have overtaken this one. It is still true if `held` is counted from its
        // own `executed`.
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
            // A record is measured once, although it stays while an older one is open. One that was
            // taken for lost has no time stamp.
            let is_clear =
                record.sends == 1 && record.sent_ns != 0 && record.number >= self.unclear;
            let by_stream = record.carrier.is_stream();
            if !was_closed && record.is_closed::<V>(executed) && is_clear {
                let timing = if by_stream { &mut self.stream_timing } else { &mut self.timing };
                timing.measured(now_ns.saturating_sub(record.sent_ns));
            }
            // Enough later requests have arrived, or been answered: this one, or its answer, is
            // lost and not overtaken. A stream loses nothing, but datagrams overtake it.
            let seen = if record.number > executed { highest_held } else { number };
            if record.is_open::<V>(executed)
                && !record.held
                && !by_stream
                && record.next_then + (V::OVERTAKEN_BY - 1) <= seen
            {
                record.sent_ns = 0;
            }
        }
        while self.records.front().is_some_and(|record| record.is_closed::<V>(executed)) {
            if let Some(record) = self.records.pop_front() {
                self.credit += u64::from(!record.carrier.is_stream());
                done(record.packet, record.loan);
            }
        }
        if self.credit >= self.allowed {
            self.credit = 0;
            self.allowed = (self.allowed + 4).min(V::WINDOW);
        }
        is_news
    }

    /// Calls `send` with every request that is overdue, its end if that is lent, and whether it
    /// goes by stream; `send` returns what carries it.
    pub(crate) fn repeat_overdue(
        &mut self,
        now_ns: u64,
        mut send: impl FnMut(&[u8], &[u8], bool) -> Carrier,
    ) {
        let timeouts = self.timeouts();
        let (stream, unclear, mut lost) = (self.stream, self.unclear, false);
        for record in &mut self.records {
            if !record.is_open::<V>(self.executed) || now_ns < record.due_ns(timeouts) {
                continue;
            }
            let by_stream = record.carrier.is_stream();
            lost |= !by_stream;
            // Requests of one moment double the time-out once, and those that are given up for lost
            // do not.
            if record.sent_ns != 0 && record.number >= unclear && self.unclear == unclear {
                let timing = if by_stream { &mut self.stream_timing } else { &mut self.timing };
                timing.timed_out();
            }
            record.sent_ns = now_ns;
            record.sends = record.sends.saturating_add(1);
            record.next_then = self.next;
            self.unclear = self.next;
            self.repeated += 1;
            let lent = record.loan.as_ref().map_or(&[][..], Loan::bytes);
            record.carrier = send(&record.packet, lent, record.is_long && stream.is_stream());
        }
        if lost && now_ns.saturating_sub(self.halved_ns) > timeouts.datagram_ns {
            self.halved_ns = now_ns;
            self.allowed = (self.allowed / 2).max(2);
            self.credit = 0;
        }
    }

    /// Returns the time for the next [`Sender::repeat_overdue`]; `None` if nothing is under way.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        let timeouts = self.timeouts();
        let open = self.records.iter().filter(|record| record.is_open::<V>(self.executed));
        open.map(|record| record.due_ns(timeouts)).min()
    }

    fn timeouts(&self) -> Timeouts {
        Timeouts {
            datagram_ns: self.timing.timeout_ns(),
            stream_ns: self.stream_timing.stream_timeout_ns(),
        }
    }

    /// Drops all records: the server is lost.
    pub(crate) fn abandon(&mut self) {
        self.records.clear();
        self.executed = self.next - 1;
    }
}

impl Record {
    /// Returns whether the record is not needed any more.
    fn is_closed<V: Variant>(&self, executed: u64) -> bool {
        self.number <= executed && (self.answered || !self.wants_answer || !V::AWAITS_ANSWERS)
    }

    /// Returns whether repeating the request can help: it has not arrived, or its answer has not.
    /// A request that arrived ahead of its turn, and whose turn has come, has been executed: only
    /// its repetition brings the missing acknowledgement.
    fn is_open<V: Variant>(&self, executed: u64) -> bool {
        if self.number <= executed {
            self.wants_answer && !self.answered
        } else {
            !self.held || (V::REPEATS_HELD && self.number == executed + 1)
        }
    }

    fn due_ns(&self, timeouts: Timeouts) -> u64 {
        if self.sent_ns == 0 {
            return 0;
        }
        // A loss halves what may be under way, which relieves a congested network. A longer wait is
        // for servers that do not answer at all.
        let repeats = (self.sends - 1) / SENDS_PER_DOUBLING;
        let (timeout_ns, doublings, max_ns) = if self.carrier.is_stream() {
            (timeouts.stream_ns, self.backoff, STREAM_TIMEOUT_MAX_NS)
        } else {
            (timeouts.datagram_ns, self.backoff.saturating_add(repeats), TIMEOUT_MAX_NS)
        };
        let timeout_ns = timeout_ns.saturating_mul(1 << doublings.min(DOUBLINGS_MAX));
        self.sent_ns.saturating_add(timeout_ns.min(max_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::timing::TIMEOUT_FIRST_NS;
    use super::*;
    use crate::link::WINDOW;

    fn sender(count: u64, wants_answer: bool) -> Sender {
        let mut sender = Sender::new();
        sender.allowed = WINDOW;
        for _ in 0..count {
            sender.keep(empty(wants_answer, Carrier::DATAGRAM), 1);
        }
        sender
    }

    pub(super) fn empty(wants_answer: bool, carrier: Carrier) -> Sent {
        let is_long = carrier.is_stream();
        Sent { packet: Vec::new(), loan: None, wants_answer, is_long, carrier }
    }

    pub(super) fn forget(_: Vec<u8>, _: Option<Loan>) {}

    pub(super) fn reply(number: u64, executed: u64, held: u64) -> Acknowledgement {
        Acknowledgement { number, executed, held }
    }

    pub(super) fn overdue(sender: &mut Sender, now_ns: u64) -> usize {
        let (mut count, sender_stream) = (0, sender.stream());
        sender.repeat_overdue(now_ns, |_, _, by_stream| {
            count += 1;
            if by_stream { sender_stream } else { Carrier::DATAGRAM }
        });
        count
    }

    #[test]
    fn the_window_is_counted_from_the_oldest_open_request() {
        let mut sender = sender(WINDOW, true);
        assert!(!sender.may_send(false));
        // All were executed, but the first answer is missing: its repetition must still be
        // answered.
        for number in 2..=WINDOW {
            sender.acknowledge(reply(number, WINDOW, 0), 2, forget);
        }
        assert!(!sender.may_send(false));
        assert_eq!(sender.executed(), WINDOW);
        sender.acknowledge(reply(1, WINDOW, 0), 3, forget);
        assert!(sender.may_send(false) && sender.is_idle());
    }

    #[test]
    fn what_was_posted_needs_no_answer_of_its_own() {
        let mut sender = sender(10, false);
        let mut closed = 0;
        sender.acknowledge(reply(0, 7, 0), 2, |_, _| closed += 1);
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
        sender.acknowledge(reply(0, 1, 0), 4 * TIMEOUT_FIRST_NS, forget);
        assert_eq!(overdue(&mut sender, 1 + 5 * TIMEOUT_FIRST_NS), 1);
        sender.acknowledge(reply(1, 1, 0), 6 * TIMEOUT_FIRST_NS, forget);
        assert_eq!((sender.due_ns(), sender.repeated()), (None, 4));
    }

    #[test]
    fn a_request_that_others_overtook_is_repeated_at_once() {
        let mut sender = sender(5, false);
        // 1 was executed, 3 and 4 have arrived: 2 may be late.
        sender.acknowledge(reply(0, 1, 0b011), 10, forget);
        assert_eq!(overdue(&mut sender, 11), 0);
        // 5 too: 2 is lost.
        sender.acknowledge(reply(0, 1, 0b111), 12, forget);
        assert_eq!(overdue(&mut sender, 13), 1);
        assert_eq!(overdue(&mut sender, 14), 0);
    }

    #[test]
    fn a_repetition_that_others_overtook_is_repeated_at_once() {
        let mut sender = sender(5, false);
        sender.acknowledge(reply(0, 1, 0b111), 12, forget);
        assert_eq!(overdue(&mut sender, 13), 1, "2 is lost");
        for _ in 6..=8 {
            sender.keep(empty(false, Carrier::DATAGRAM), 14);
        }
        // 6 and 7 were sent after 2 was repeated: it may still be late. With 8 it is not.
        sender.acknowledge(reply(0, 1, 0b1_1111), 15, forget);
        assert_eq!(overdue(&mut sender, 16), 0);
        sender.acknowledge(reply(0, 1, 0b11_1111), 17, forget);
        assert_eq!(overdue(&mut sender, 18), 1);
    }

    #[test]
    fn an_answer_that_others_overtook_is_asked_for_at_once() {
        let mut sender = sender(5, true);
        for number in [2, 3] {
            sender.acknowledge(reply(number, 5, 0), 10, forget);
            assert_eq!(overdue(&mut sender, 11), 0, "the answer to 1 may be late");
        }
        sender.acknowledge(reply(4, 5, 0), 12, forget);
        assert_eq!(overdue(&mut sender, 13), 1);
        assert_eq!(overdue(&mut sender, 14), 0);
    }

    #[test]
    fn what_waited_for_a_repetition_is_no_measure() {
        let mut sender = sender(3, false);
        // 1 is lost. 2 and 3 arrive at once, but are executed only when 1 is.
        sender.acknowledge(reply(0, 0, 0b11), 10, forget);
        assert_eq!(overdue(&mut sender, 1 + TIMEOUT_FIRST_NS), 1);
        sender.acknowledge(reply(0, 3, 0), 2 * TIMEOUT_FIRST_NS, forget);
        assert!(sender.is_idle());
        assert_eq!(sender.timing.smooth_ns, 0);
    }

    #[test]
    fn a_reply_that_was_overtaken_marks_no_later_requests_as_arrived() {
        let mut sender = sender(5, false);
        // Written when 1 was missing and 2 and 3 had arrived, and then held up on its way while all
        // five were executed.
        let late = |sender: &mut Sender| sender.acknowledge(reply(0, 0, 0b011), 20, forget);
        assert!(sender.acknowledge(reply(0, 5, 0), 10, forget));
        for _ in 6..=9 {
            sender.keep(empty(false, Carrier::DATAGRAM), 10);
        }
        assert!(!late(&mut sender), "no news");
        assert_eq!(overdue(&mut sender, 10 + TIMEOUT_MAX_NS), 4, "7 and 8 have not arrived");
    }

    #[test]
    fn how_long_an_answer_took_is_measured_once() {
        let mut sender = sender(2, true);
        sender.acknowledge(reply(2, 2, 0), 1_000, forget);
        let known = sender.timing.smooth_ns;
        // The first is still open, and keeps the second here.
        sender.acknowledge(reply(0, 2, 0), 1_000_000_000, forget);
        assert_eq!(sender.timing.smooth_ns, known);
    }

    #[test]
    fn a_request_that_was_only_late_is_no_measure() {
        let mut sender = sender(5, false);
        sender.acknowledge(reply(0, 1, 0b111), 1_000, forget);
        let known = sender.timing.smooth_ns;
        // 2 was taken for lost, but comes before it is repeated.
        sender.acknowledge(reply(0, 2, 0), 3_600_000_000_000, forget);
        assert_eq!(sender.timing.smooth_ns, known);
    }

    #[test]
    fn a_request_that_came_too_early_is_repeated_when_its_acknowledgement_is_lost() {
        let mut sender = sender(3, false);
        // 1 is missing, 2 and 3 have arrived. Then 1 is executed and acknowledged; what was said of
        // 2 and 3 gets lost.
        sender.acknowledge(reply(0, 0, 0b11), 10, forget);
        assert_eq!(overdue(&mut sender, 1 + TIMEOUT_FIRST_NS), 1);
        sender.acknowledge(reply(0, 1, 0), 2 * TIMEOUT_FIRST_NS, forget);
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
            sender.acknowledge(reply(nothing, nothing, u64::MAX), 10, forget);
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
