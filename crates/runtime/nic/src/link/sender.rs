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
#[cfg(test)]
mod tests;
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
    stream: Carrier,
    /// Whether there has been one: then requests are under way, or queued, that are long.
    had_stream: bool,
    /// Whether another stream to the server is being opened.
    awaits_stream: bool,
    /// Requests below this number were under way when one was repeated. Their round trips are not
    /// measured, since they may have waited for that one.
    unclear: u64,
    repeated: u64,
    variant: PhantomData<V>,
}

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
    /// Whether the packet has a copy of what is lent.
    is_copied: bool,
    /// Whether the tag of the packet may not be that of the copy: the lender may have changed the
    /// bytes since they were sent, although it must not. No repetition would be accepted then.
    needs_seal: bool,
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

pub(crate) struct Sent {
    pub(crate) packet: Vec<u8>,
    /// Its end, if that is lent until [`Sender::take_over`], or until the request is closed.
    pub(crate) loan: Option<Loan>,
    pub(crate) wants_answer: bool,
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
            had_stream: false,
            awaits_stream: false,
            unclear: 0,
            repeated: 0,
            variant: PhantomData,
        }
    }

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
        self.had_stream |= stream.is_stream();
        for record in &mut self.records {
            if record.carrier.is_stream() && record.carrier != stream {
                (record.carrier, record.sent_ns) = (Carrier::DATAGRAM, 0);
            }
        }
    }

    /// Learns whether another stream to the server is being opened: long requests wait for it.
    pub(crate) fn await_stream(&mut self, is_coming: bool) {
        self.awaits_stream = is_coming;
    }

    pub(crate) fn awaits_stream(&self) -> bool {
        self.awaits_stream && !self.stream.is_stream()
    }

    /// Returns whether the stream has broken, and a request needs another: one under way, or the
    /// next if that is long.
    pub(crate) fn misses_stream(&self, next_is_long: bool) -> bool {
        let is_long = |record: &Record| record.is_long && record.is_open::<V>(self.executed);
        self.had_stream
            && !self.stream.is_stream()
            && (next_is_long || self.records.iter().any(is_long))
    }

    /// Returns whether a record that is due must wait. A long one that no stream carries is a
    /// datagram of many fragments: it waits for a stream that is being opened, and only as many as
    /// the network should carry are repeated at a time.
    fn is_held_back(&self, at: usize) -> bool {
        let record = &self.records[at];
        record.is_long
            && !self.stream.is_stream()
            && (self.awaits_stream() || at as u64 >= self.allowed)
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

    pub(crate) fn is_idle(&self) -> bool {
        self.records.is_empty()
    }

    pub(crate) fn under_way(&self) -> usize {
        self.records.len()
    }

    /// Returns the number of the oldest request that may have to be repeated.
    fn oldest_open(&self) -> u64 {
        self.records.front().map_or(self.next, |record| record.number)
    }

    /// Returns the number up to which all requests are closed: none of them is repeated.
    pub(crate) fn closed(&self) -> u64 {
        if V::KEEPS_LONG_ENOUGH { self.oldest_open() - 1 } else { self.next - 1 }
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.next
    }

    pub(crate) fn executed(&self) -> u64 {
        self.executed
    }

    pub(crate) fn awaits(&self, number: u64) -> bool {
        let at =
            number.checked_sub(self.oldest_open()).and_then(|at| self.records.get(at as usize));
        at.is_some_and(|record| record.wants_answer && !record.answered)
    }

    /// Returns the measured round trip of datagrams; zero if none was measured.
    pub(crate) fn round_trip_ns(&self) -> u64 {
        self.timing.smooth_ns
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
            is_copied: false,
            needs_seal: false,
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
            if record.loan.as_ref().is_some_and(|loan| whose(loan.part())) {
                record.copy_loan();
                record.loan = None;
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

    /// Calls `send` with every request that is overdue, and whether it goes by stream; `send`
    /// returns what carries it. What was lent is copied, and `seal` is called with the copy.
    pub(crate) fn repeat_overdue(
        &mut self,
        now_ns: u64,
        seal: impl Fn(&mut [u8]),
        mut send: impl FnMut(&[u8], bool) -> Carrier,
    ) {
        let timeouts = self.timeouts();
        let (stream, unclear, mut lost) = (self.stream, self.unclear, false);
        for at in 0..self.records.len() {
            if self.is_held_back(at) {
                continue;
            }
            let record = &mut self.records[at];
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
            record.copy_loan();
            if std::mem::take(&mut record.needs_seal) {
                seal(&mut record.packet);
            }
            record.carrier = send(&record.packet, record.is_long && stream.is_stream());
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
        let open =
            self.records.iter().enumerate().filter(|(at, record)| {
                record.is_open::<V>(self.executed) && !self.is_held_back(*at)
            });
        open.map(|(_, record)| record.due_ns(timeouts)).min()
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
    fn copy_loan(&mut self) {
        if let Some(loan) = self.loan.as_ref().filter(|_| !self.is_copied) {
            self.packet.extend_from_slice(loan.bytes());
            (self.is_copied, self.needs_seal) = (true, true);
        }
    }

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
