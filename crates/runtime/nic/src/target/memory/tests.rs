//! An interface that takes its time to register memory.

use std::sync::Mutex;

use super::*;
use crate::torture::real_job;
use crate::transport::RemoteKey;
use crate::transport::seal::Key;
use crate::wire::request;
use farside_fabric::lock::lock;

const RANK: Rank = Rank(0);

/// Registers memory when it is told to.
#[derive(Clone, Default)]
struct Slow(Arc<Mutex<Option<Registration>>>);

impl MemoryRegistration for Slow {
    fn register(&mut self, _: Rank, _: SegmentId, _: Mapped) -> Option<Registration> {
        *lock(&self.0)
    }

    fn is_registering(&mut self, _: Rank, _: SegmentId) -> bool {
        lock(&self.0).is_none()
    }

    fn deregister(&mut self, _: Rank, _: SegmentId) {}
}

fn body(request: &Request<'_>) -> Vec<u8> {
    let mut body = Vec::new();
    request::encode(request, &mut body);
    body
}

fn asks(about: About) -> Vec<u8> {
    body(&Request::Segment { tag: 1, rank: RANK, segment: SegmentId::ROOT, about })
}

#[test]
fn a_registration_that_takes_long_holds_up_those_alone_who_ask_for_it() {
    let (_job, mut memory) = real_job(Node(0), &Key::from_bytes([1; 16]));
    let slow = Slow::default();
    memory.registration = Some(Box::new(slow.clone()));
    assert!(!memory.lock(&asks(About::Key)) && !memory.lock(&asks(About::End)));
    for other in [asks(About::Length), body(&Request::Ping)] {
        assert!(memory.lock(&other));
        memory.unlock();
    }
    let key = RemoteKey { base: 5, key: 6, bytes: 0 };
    for done in [Registration::Key(key), Registration::Refused] {
        *lock(&slow.0) = Some(done);
        assert!(memory.lock(&asks(About::Key)) && memory.lock(&asks(About::End)));
        let answer = memory.segment(RANK, SegmentId::ROOT, About::Key, false);
        assert_eq!(answer.map(|word| Registration::from_word(word, 0)), Ok(done));
    }
}
