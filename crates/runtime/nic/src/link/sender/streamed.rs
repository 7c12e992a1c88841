//! Tests of what a stream carries.

use super::tests::{empty, forget, overdue, reply};
use super::timing::{STREAM_TIMEOUT_MIN_NS, TIMEOUT_FIRST_NS, TIMEOUT_MAX_NS};
use super::{ALLOWED_FIRST, Sender};
use crate::link::WINDOW;
use crate::transport::Carrier;

fn sender(carriers: &[Carrier]) -> Sender {
    let mut sender = Sender::new();
    sender.set_stream(Carrier::stream(1));
    for &carrier in carriers {
        sender.keep(empty(false, carrier), 1);
    }
    sender
}

#[test]
fn the_window_alone_limits_what_a_stream_carries() {
    let mut sender = sender(&[Carrier::stream(1); ALLOWED_FIRST as usize]);
    assert!(!sender.may_send(false) && sender.may_send(true));
    for _ in ALLOWED_FIRST..WINDOW {
        sender.keep(empty(false, Carrier::stream(1)), 2);
    }
    assert!(!sender.may_send(true), "the server's table holds no more");
}

#[test]
fn datagrams_that_overtake_a_stream_make_it_repeat_nothing() {
    let mut sender = sender(&[Carrier::stream(1); 1]);
    for _ in 2..=5 {
        sender.keep(empty(false, Carrier::DATAGRAM), 1);
    }
    // 2 to 5 have arrived, and 1 is still on its way.
    sender.acknowledge(reply(0, 0, 0b1111), 10, forget);
    assert_eq!(overdue(&mut sender, TIMEOUT_FIRST_NS + TIMEOUT_MAX_NS), 0);
    sender.acknowledge(reply(0, 5, 0), 20, forget);
    assert!(sender.is_idle());
}

#[test]
fn what_a_broken_stream_carried_is_repeated_at_once() {
    let mut sender = sender(&[Carrier::stream(1); 3]);
    sender.acknowledge(reply(0, 1, 0), 10, forget);
    sender.set_stream(Carrier::stream(1));
    assert_eq!(overdue(&mut sender, 11), 0, "it is the same stream");
    sender.set_stream(Carrier::DATAGRAM);
    assert_eq!(overdue(&mut sender, 12), 2);
    assert_eq!(overdue(&mut sender, 13), 0, "as datagrams, they have their time");
    sender.set_stream(Carrier::stream(2));
    assert_eq!(overdue(&mut sender, 14), 0, "a stream that was opened has lost nothing");
}

#[test]
fn a_new_stream_repeats_what_the_last_one_carried() {
    let mut sender = sender(&[Carrier::stream(1); 2]);
    sender.set_stream(Carrier::stream(2));
    let mut by_stream = Vec::new();
    sender.repeat_overdue(
        10,
        |_| {},
        |_, is_by_stream| {
            by_stream.push(is_by_stream);
            Carrier::stream(2)
        },
    );
    assert_eq!(by_stream, [true; 2]);
}

#[test]
fn a_reply_that_never_comes_is_asked_for_by_and_by() {
    let mut sender = sender(&[Carrier::stream(1)]);
    assert_eq!(overdue(&mut sender, STREAM_TIMEOUT_MIN_NS), 0);
    assert_eq!(overdue(&mut sender, 1 + STREAM_TIMEOUT_MIN_NS), 1);
}

#[test]
fn long_requests_wait_for_a_stream_that_is_being_opened() {
    let mut sender = sender(&[Carrier::stream(1); WINDOW as usize]);
    sender.set_stream(Carrier::DATAGRAM);
    assert!(sender.misses_stream(false));
    sender.await_stream(true);
    assert_eq!((overdue(&mut sender, 10), sender.due_ns()), (0, None));
    // It cannot be opened: they go as datagrams, as many as the network should carry.
    sender.await_stream(false);
    assert_eq!(overdue(&mut sender, 11), ALLOWED_FIRST as usize);
    sender.set_stream(Carrier::stream(2));
    assert_eq!(overdue(&mut sender, 12), WINDOW as usize - ALLOWED_FIRST as usize);
}
