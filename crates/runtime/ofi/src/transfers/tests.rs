//! What is owed to agents, without libfabric.

use super::*;
use farside_fabric::{ExitCause, SegmentId, Width};

const NODE: Node = Node(1);

fn atomic(op: Atomic, counts: bool) -> FarAtomic {
    let at = Word { rank: Rank(1), segment: SegmentId::ROOT, offset: 8, width: Width::W64 };
    FarAtomic { node: NODE, at, op, counts }
}

fn far() -> Far {
    let key = RemoteKey { base: 0, key: 0, bytes: 1 << 20 };
    Far { rank: Rank(1), node: NODE, peer: 0, key, offset: 0 }
}

#[test]
fn a_change_is_told_once_it_is_there() {
    let mut transfers = Transfers::default();
    let swap = atomic(Atomic::Swap(5), false);
    let (ticket, tag) = (transfers.begin_fetch(), transfers.tag());
    assert_eq!(transfers.started(tag, Part::Word(ticket, swap), Posted::Yes), Ok(true));
    assert_eq!((transfers.owed(), transfers.has_notices()), (Owed::Wakes, false));
    // The old value is not awaited any more, but a rank may wait for the new one.
    transfers.cancel(ticket);
    transfers.settle(tag, Ok(&4u64.to_le_bytes()));
    assert_eq!(transfers.owed(), Owed::Wakes);
    assert_eq!(transfers.take_notices(), [(NODE, Notice::Changed(swap.at))]);
    assert_eq!(transfers.owed(), Owed::Nothing);
}

#[test]
fn what_changes_nothing_wakes_nobody() {
    let mut transfers = Transfers::default();
    let same = [
        Atomic::Load,
        Atomic::Swap(4),
        Atomic::Add(0),
        Atomic::Or(4),
        Atomic::CompareSwap { expected: 3, desired: 9 },
    ];
    for op in same {
        let (ticket, tag) = (transfers.begin_fetch(), transfers.tag());
        assert_eq!(
            transfers.started(tag, Part::Word(ticket, atomic(op, false)), Posted::Yes),
            Ok(true)
        );
        transfers.settle(tag, Ok(&4u64.to_le_bytes()));
        assert_eq!(transfers.take(ticket), Ok(Some(Reply::Word(4))), "{op:?}");
        assert_eq!((transfers.take_notices(), transfers.owed()), (vec![], Owed::Nothing), "{op:?}");
    }
}

#[test]
fn changes_of_one_word_are_told_together() {
    let mut transfers = Transfers::default();
    for old in 0..5u64 {
        let tag = transfers.tag();
        let add = atomic(Atomic::Add(1), true);
        assert_eq!(transfers.started(tag, Part::Post(add), Posted::Yes), Ok(true));
        assert!(!transfers.has_landed(NODE));
        transfers.settle(tag, Ok(&old.to_le_bytes()));
    }
    let at = atomic(Atomic::Load, false).at;
    assert_eq!(transfers.take_notices(), [(NODE, Notice::Landed(5)), (NODE, Notice::Changed(at))]);
}

#[test]
fn a_put_of_several_parts_lands_once_with_its_last() {
    let mut transfers = Transfers::default();
    let write = transfers.begin_write(far(), true);
    let tags = [transfers.tag(), transfers.tag()];
    for tag in tags {
        assert_eq!(transfers.started(tag, Part::Write(write), Posted::Yes), Ok(true));
    }
    transfers.settle(tags[1], Ok(&[]));
    transfers.end_write(write, true);
    assert_eq!((transfers.owed(), transfers.has_notices()), (Owed::Landings, false));
    transfers.settle(tags[0], Ok(&[]));
    assert!(transfers.has_landed(NODE));
    assert_eq!(transfers.take_notices(), [(NODE, Notice::Landed(1))]);
}

#[test]
fn a_put_that_was_given_up_does_not_count() {
    let mut transfers = Transfers::default();
    let write = transfers.begin_write(far(), true);
    let tag = transfers.tag();
    assert_eq!(transfers.started(tag, Part::Write(write), Posted::Yes), Ok(true));
    transfers.end_write(write, false);
    assert_eq!(transfers.owed(), Owed::Nothing);
    transfers.settle(tag, Ok(&[]));
    assert!(transfers.has_landed(NODE) && !transfers.has_notices());
}

#[test]
fn what_is_lent_goes_part_by_part() {
    let mut transfers = Transfers::default();
    let ticket = transfers.lend(far(), Loan::from(&[1, 2, 3, 4, 5][..]), true);
    let mut wrote: Vec<(u64, Vec<u8>, u64)> = Vec::new();
    let mut answers = vec![Posted::Yes, Posted::Busy, Posted::Yes, Posted::Yes].into_iter();
    for expected in [true, false, true, true, false] {
        assert!(!transfers.has_landed(NODE));
        let started = transfers.start_next(2, &mut Vec::new(), |to, part, tag| {
            let Start::Write(bytes) = part else { panic!("a put reads") };
            let posted = answers.next().unwrap();
            if posted == Posted::Yes {
                wrote.push((to.offset, bytes.to_vec(), tag));
            }
            posted
        });
        assert_eq!(started, expected);
    }
    // All of it is on its way: the lender has its bytes back, but nothing has landed.
    assert_eq!((transfers.take(ticket), transfers.lent_to(ticket)), (Ok(Some(Reply::None)), None));
    assert_eq!((transfers.has_landed(NODE), transfers.has_notices()), (false, false));
    let places: Vec<_> = wrote.iter().map(|(offset, bytes, _)| (*offset, bytes.clone())).collect();
    assert_eq!(places, [(0, vec![1, 2]), (2, vec![3, 4]), (4, vec![5])]);
    for (_, _, tag) in wrote {
        assert!(!transfers.has_landed(NODE));
        transfers.settle(tag, Ok(&[]));
    }
    assert!(transfers.has_landed(NODE));
    assert_eq!(transfers.take_notices(), [(NODE, Notice::Landed(1))]);
}

#[test]
fn what_a_lost_node_was_to_get_is_forgotten() {
    let mut transfers = Transfers::default();
    let ticket = transfers.lend(far(), Loan::from(&[0; 8][..]), true);
    let tag = transfers.tag();
    let add = atomic(Atomic::Add(1), true);
    assert_eq!(transfers.started(tag, Part::Post(add), Posted::Yes), Ok(true));
    assert_eq!(transfers.fetching(), 1);
    transfers.abandon(NODE, &lost(Rank(1)));
    assert_eq!((transfers.owed(), transfers.is_quiet()), (Owed::Nothing, true));
    assert_eq!((transfers.fetching(), transfers.take(ticket)), (0, Err(lost(Rank(1)))));
    assert_eq!(transfers.lent_to(ticket), None);
    assert!(
        !transfers.start_next(8, &mut Vec::new(), |_, _, _| panic!("a lost node is written to"))
    );
}

fn lost(rank: Rank) -> Error {
    Error::RankLost { rank, how: ExitCause::Signal(9) }
}

fn elsewhere() -> Far {
    Far { rank: Rank(2), node: Node(2), peer: 7, ..far() }
}

#[test]
fn what_is_under_way_to_a_lost_node_takes_no_room() {
    let mut transfers = Transfers::default();
    let write = transfers.begin_write(far(), false);
    let tags: Vec<u64> = (0..64).map(|_| transfers.tag()).collect();
    for &tag in &tags {
        assert_eq!(transfers.started(tag, Part::Write(write), Posted::Yes), Ok(true));
    }
    assert_eq!(transfers.under_way(), 64);
    transfers.abandon(NODE, &lost(Rank(1)));
    assert_eq!(transfers.under_way(), 0);
    let (write, tag) = (transfers.begin_write(elsewhere(), false), transfers.tag());
    assert_eq!(transfers.started(tag, Part::Write(write), Posted::Yes), Ok(true));
    // Much later the network fails them all.
    tags.iter().for_each(|&tag| transfers.settle(tag, Err(Error::Network("cut".into()))));
    assert_eq!(transfers.under_way(), 1);
    transfers.settle(tag, Ok(&[]));
    assert_eq!(transfers.under_way(), 0);
}

#[test]
fn a_peer_that_takes_nothing_holds_back_no_other() {
    let mut transfers = Transfers::default();
    let first = transfers.lend(far(), Loan::from(&[1; 8][..]), false);
    let second = transfers.lend(elsewhere(), Loan::from(&[2; 8][..]), false);
    let third = transfers.lend(far(), Loan::from(&[3; 8][..]), false);
    let (mut busy, mut taken) = (Vec::new(), Vec::new());
    let mut start = |to: Far, part: Start<'_>, _| match part {
        Start::Write(bytes) if to.peer != far().peer => {
            taken.extend_from_slice(bytes);
            Posted::Yes
        }
        _ => Posted::Busy,
    };
    assert!(transfers.start_next(8, &mut busy, &mut start));
    assert!(!transfers.start_next(8, &mut busy, &mut start));
    assert_eq!((taken, busy), (vec![2; 8], vec![far().peer]));
    assert_eq!([first, second, third].map(|it| transfers.is_done(it)), [false, true, false]);
}

#[test]
fn busy_peers_are_tried_in_turn_a_few_at_a_time() {
    let mut transfers = Transfers::default();
    let peers = 3 * BUSY_MAX as u64;
    for peer in 0..peers {
        transfers.lend(Far { peer, ..far() }, Loan::from(&[1; 8][..]), false);
    }
    let mut tried = Vec::new();
    for look in 1..=3 {
        let started = transfers.start_next(8, &mut Vec::new(), |to, _, _| {
            tried.push(to.peer);
            Posted::Busy
        });
        assert!(!started);
        assert_eq!(tried.len(), look * BUSY_MAX);
    }
    assert!(tried.into_iter().eq(0..peers));
}

#[test]
fn a_failure_is_told_to_whoever_flushes_that_rank() {
    let mut transfers = Transfers::default();
    let (write, tag) = (transfers.begin_write(far(), false), transfers.tag());
    assert_eq!(transfers.started(tag, Part::Write(write), Posted::Yes), Ok(true));
    let error = Error::Network("refused".into());
    transfers.settle(tag, Err(error.clone()));
    assert_eq!(transfers.failure(Rank(0)), None, "another rank of the same node");
    assert_eq!(transfers.failure(Rank(1)), Some(error));
    assert_eq!(transfers.failure(Rank(1)), None, "told once");
}
