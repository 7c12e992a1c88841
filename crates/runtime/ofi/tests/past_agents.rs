//! What goes past the agents keeps the promises of the fabric: sleepers are woken, landings
//! counted, transfers go on while their caller computes. Each with atomics of the agent, of the
//! provider, and of the provider alone.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use farside_fabric::{
    Atomic, Condition, Connection, Event, Hint, Mapped, Node, OldValue, Rank, Region, Reply,
    SegmentId, Shape, Started, Topology, Wait, Wake, Width, Word,
};
use farside_nic::{Address, Key, NodeServer};
use farside_ofi::{Endpoint, Ofi};

const PROVIDERS: [&str; 3] =
    ["tcp;ofi_rxm/atomics=agent", "tcp;ofi_rxm/atomics=native", "tcp;ofi_rxm/atomics=apart"];
const ROUNDS: u64 = 10;
const DEADLINE: Duration = Duration::from_secs(60);
/// Longer than what may be under way at a time.
const HUGE: usize = 10 << 20;

/// Two nodes of two ranks each, one processor for all: a rank that waits sleeps soon.
struct Job {
    servers: Vec<NodeServer>,
}

impl Job {
    fn new(provider: &str) -> Job {
        let topology = Topology::parse("node:2", 4).expect("four ranks on two nodes");
        let (key, here) = (Key::random().expect("numbers"), IpAddr::V4(Ipv4Addr::LOCALHOST));
        let server = |node: u32| {
            let mut config = farside_shm::Config::new(topology.clone(), 4096);
            (config.arena_bytes, config.cores) = (64 << 20, 1);
            let network =
                Ofi::open(&provider.parse().expect("settings"), here).expect("libfabric is here");
            let settings = farside_nic::Settings::default();
            NodeServer::create_over(config, Node(node), key.clone(), settings, Arc::new(network))
                .expect("a node")
        };
        let servers: Vec<NodeServer> = (0..2).map(server).collect();
        let addresses: Vec<Address> = servers.iter().map(NodeServer::address).collect();
        servers.iter().for_each(|server| server.open(&addresses).expect("the nodes meet"));
        Job { servers }
    }

    fn join(&self, rank: u32) -> Endpoint {
        Endpoint::join(self.servers[rank as usize / 2].job().clone(), Rank(rank)).expect("a place")
    }
}

/// Runs a test for each provider, and ends the process if it hangs.
fn each(name: &'static str, test: fn(&Job)) {
    for provider in PROVIDERS {
        let (sender, receiver) = mpsc::channel();
        let runner = std::thread::spawn(move || {
            let _tells = sender;
            test(&Job::new(provider));
        });
        if receiver.recv_timeout(DEADLINE) == Err::<(), _>(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{name}, {provider}: hangs");
            std::process::abort();
        }
        assert!(runner.join().is_ok(), "{name}, {provider}");
    }
}

fn word(rank: u32, segment: SegmentId, offset: u64) -> Word {
    Word { rank: Rank(rank), segment, offset, width: Width::W64 }
}

fn wait(fabric: &Endpoint, at: Word, memory: &Mapped, until: &dyn Fn(u64) -> bool) {
    let known_departures = fabric.job().failures.departures();
    let event = Event::Words(&[Condition { at, memory, until }]);
    let woken =
        fabric.block(&Wait { event, known_departures, timeout: None, soon: false, lasting: None });
    assert!(matches!(woken, Ok(Wake::Ready { .. })), "{woken:?}");
}

fn finish(fabric: &Endpoint, started: Started) -> Reply {
    let ticket = match started {
        Started::Done(reply) => return reply,
        Started::Pending(ticket) => ticket,
    };
    loop {
        if let Some(reply) = fabric.poll(ticket).expect("the operation succeeds") {
            return reply;
        }
        let wait = Wait {
            event: Event::Done(ticket),
            known_departures: 0,
            timeout: None,
            soon: true,
            lasting: None,
        };
        assert!(matches!(fabric.block(&wait), Ok(Wake::Ready { .. })));
    }
}

/// What changes a word from the round before to this one.
fn changes(round: u64) -> [Atomic; 4] {
    let (old, new) = (u128::from(round - 1), u128::from(round));
    [
        Atomic::Swap(new),
        Atomic::Add(1),
        Atomic::CompareSwap { expected: old, desired: new },
        Atomic::Xor(old ^ new),
    ]
}

/// Rank 0 sleeps for a word until a rank of the other node, and then a neighbour, changes it, by
/// atomics and by signals. The rank that changes it makes no other call until rank 0 has seen
/// it.
#[test]
fn sleepers_are_woken() {
    each("sleepers_are_woken", |job| {
        let (sleeper, far, near) = (job.join(0), job.join(2), job.join(1));
        let at = word(0, SegmentId::ROOT, 0);
        let memory = memory_of(&sleeper, at.segment);
        let (seen, sees) = mpsc::channel();
        let sleeping = std::thread::spawn(move || {
            let memory = memory_of(&sleeper, at.segment);
            for round in 1..=4 * ROUNDS {
                wait(&sleeper, at, &memory, &|value| value == round);
                seen.send(round).expect("the test listens");
            }
            sleeper.job().state.effort()
        });
        let mut round = 0;
        for (waker, posts) in [(&far, false), (&far, true), (&near, false), (&near, true)] {
            for _ in 0..ROUNDS {
                round += 1;
                // It has announced that it sleeps: nothing but a bell, or its own impatience, ends
                // that.
                while !memory.is_watched(at.offset, at.width) {
                    std::thread::yield_now();
                }
                let op = changes(round)[round as usize % 4];
                if posts {
                    let _ = waker.atomic(at, op, OldValue::Ignored).expect("a signal");
                } else {
                    let held = waker.atomic(at, op, OldValue::Wanted).expect("an atomic");
                    assert_eq!(finish(waker, held), Reply::Word(u128::from(round - 1)));
                }
                assert_eq!(sees.recv(), Ok(round));
            }
        }
        let effort = sleeping.join().expect("the sleeper was woken");
        assert!(effort.parks > 0, "{effort:?}");
        assert_eq!(effort.naps, 0, "a rank has looked by itself: {effort:?}");
        drop((far, near));
    });
}

#[test]
fn landings_are_counted() {
    each("landings_are_counted", count_landings);
}

fn memory_of(fabric: &Endpoint, segment: SegmentId) -> Mapped {
    let rank = fabric.job().rank;
    fabric.map(rank, segment).expect("a segment").expect("own memory is near")
}

fn count_landings(job: &Job) {
    let segment = SegmentId::named_by(Rank(2), 1);
    let (from, to) = (job.join(0), job.join(2));
    to.register(segment, HUGE as u64).expect("memory");
    let landings = to.landings().expect("ofi counts what lands").begin().expect("a word");
    let at = |offset: u64, bytes: usize| Region::block(Rank(2), segment, offset, bytes as u64);
    let data = vec![7u8; HUGE];
    let mut posted = 0;
    for bytes in [8, 100 << 10, 1 << 20] {
        from.put(&at(0, bytes), &data[..bytes]).expect("a put");
        posted += 1;
    }
    // SAFETY: the bytes stay as they are until the put is over.
    let started =
        unsafe { from.put_nb(&at(0, HUGE - 64), data.as_ptr(), Hint::Awaited) }.expect("a put");
    posted += 1;
    let _ = from
        .atomic(word(2, segment, HUGE as u64 - 8), Atomic::Add(1), OldValue::Ignored)
        .expect("a signal");
    posted += 1;
    for bytes in [64, 300 << 10] {
        let flag = word(2, segment, HUGE as u64 - 16);
        from.put_signal(&at(0, bytes), &data[..bytes], flag, Atomic::Add(1))
            .expect("a put with a signal");
        posted += 2;
    }
    // Fetching atomics, and what goes to memory that is not counted, are no landings.
    let atomic = from
        .atomic(word(2, segment, HUGE as u64 - 24), Atomic::Add(1), OldValue::Wanted)
        .expect("an atomic");
    finish(&from, atomic);
    let _ = from
        .atomic(word(2, SegmentId::ROOT, 0), Atomic::Add(1), OldValue::Ignored)
        .expect("a signal");
    finish(&from, started);
    let own = memory_of(&to, landings.segment);
    let waiter = std::thread::spawn(move || {
        wait(&to, landings, &own, &|count| count >= posted);
        // What has landed is there when it is counted.
        let mut seen = vec![0u8; HUGE - 64];
        assert!(memory_of(&to, segment).get(0, &mut seen));
        assert!(seen.iter().all(|&byte| byte == 7));
        (to, own)
    });
    from.flush(Rank(2)).expect("it lands");
    let (to, own) = waiter.join().expect("all is counted");
    // Nothing is counted twice: what is told of after this put comes after all of it.
    from.put(&at(0, 8), &data[..8]).expect("a put");
    from.flush(Rank(2)).expect("it lands");
    assert_eq!(own.atomic(landings.offset, Width::W64, Atomic::Load), Some(u128::from(posted) + 1));
    drop((from, to));
}

#[test]
fn a_put_without_waiting_does_not_wait() {
    each("a_put_without_waiting_does_not_wait", |job| {
        let segment = SegmentId::named_by(Rank(2), 1);
        let (from, to) = (job.join(0), job.join(2));
        to.register(segment, 2 * HUGE as u64).expect("memory");
        let own = memory_of(&to, segment);
        let block = Region::block(Rank(2), segment, 0, HUGE as u64);
        // One piece goes past the agent, several to it: neither is all under way when the call
        // returns.
        let (counts, strides) = ([(HUGE / 1024) as u64], [2048]);
        let shape = Shape::Strided { offset: 0, unit: 1024, counts: &counts, strides: &strides };
        let strided = Region { rank: Rank(2), segment, shape };
        for (value, region, last) in
            [(1, &block, HUGE as u64 - 1), (2, &strided, (2 * HUGE) as u64 - 1025)]
        {
            let mut data = vec![value; HUGE];
            // SAFETY: the bytes stay as they are until the put is over.
            let started =
                unsafe { from.put_nb(region, data.as_ptr(), Hint::Overlapped) }.expect("a put");
            assert!(matches!(started, Started::Pending(_)), "a long put has waited");
            // It goes on while this thread does not call the fabric at all.
            let mut seen = [0];
            while seen != [value] {
                assert!(own.get(last, &mut seen));
                std::thread::yield_now();
            }
            finish(&from, started);
            data.fill(0);
            from.flush(Rank(2)).expect("it lands");
            assert!(
                own.get(last, &mut seen) && seen == [value],
                "the put had not copied its bytes"
            );
        }
        // One that is given up gives the bytes back, and lands all the same.
        let mut data = vec![3; HUGE];
        // SAFETY: the bytes stay as they are until the put is given up.
        let started = unsafe { from.put_nb(&block, data.as_ptr(), Hint::Awaited) }.expect("a put");
        let Started::Pending(ticket) = started else { panic!("a long put has waited") };
        from.cancel(ticket);
        data.fill(0);
        from.flush(Rank(2)).expect("it lands");
        let mut all = vec![0; HUGE];
        assert!(own.get(0, &mut all) && all.iter().all(|&byte| byte == 3));
    });
}

#[test]
fn a_long_get_does_not_wait() {
    each("a_long_get_does_not_wait", |job| {
        let segment = SegmentId::named_by(Rank(2), 1);
        let (from, to) = (job.join(0), job.join(2));
        to.register(segment, HUGE as u64).expect("memory");
        assert!(memory_of(&to, segment).put(0, &vec![9; HUGE]));
        let mut data = vec![0; HUGE];
        // SAFETY: nothing accesses the buffer until the get is over.
        let started = unsafe {
            from.get(
                &Region::block(Rank(2), segment, 0, HUGE as u64),
                data.as_mut_ptr(),
                Hint::Awaited,
            )
        };
        let started = started.expect("a get");
        assert!(matches!(started, Started::Pending(_)));
        finish(&from, started);
        assert!(data.iter().all(|&byte| byte == 9));
    });
}

#[test]
fn names_of_freed_segments_are_forgotten() {
    each("names_of_freed_segments_are_forgotten", |job| {
        const SEGMENTS: u32 = 50;
        let meeting = Barrier::new(2);
        let (from, to) = (job.join(0), job.join(2));
        let (other, meeting) = (from.another().expect("a context"), &meeting);
        let most = std::cell::Cell::new(0);
        let each_segment = |act: &dyn Fn(&Endpoint, SegmentId), fabric: &Endpoint| {
            for count in 1..=SEGMENTS {
                let segment = SegmentId::named_by(Rank(0), count);
                fabric.register(segment, 64 << 10).expect("memory");
                meeting.wait();
                act(fabric, segment);
                meeting.wait();
                fabric.deregister(segment).expect("it was there");
            }
        };
        std::thread::scope(|scope| {
            let each_segment = &each_segment;
            scope.spawn(move || each_segment(&|_, _| (), &to));
            let use_it = |fabric: &Endpoint, segment: SegmentId| {
                for fabric in [fabric, &other] {
                    fabric
                        .put(&Region::block(Rank(2), segment, 0, 64 << 10), &[1; 64 << 10])
                        .expect("a put");
                    fabric.flush(Rank(2)).expect("it lands");
                }
                // All threads of a rank share what it knows.
                most.set(most.get().max(fabric.remote_keys()).max(other.remote_keys()));
            };
            each_segment(&use_it, &from);
        });
        assert_eq!((most.get(), from.remote_keys(), other.remote_keys()), (1, 0, 0));
    });
}
