//! Tests of what datagrams carry.

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
    sender.repeat_overdue(
        now_ns,
        |_| {},
        |_, by_stream| {
            count += 1;
            if by_stream { sender_stream } else { Carrier::DATAGRAM }
        },
    );
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
