//! Calls: handlers that the agents run.

use std::cell::Cell;
use std::sync::Mutex;

use farside::epoch::{self, Design, LockAgent, Mode};
use farside::fabric::{Atomic, Region, Width, Word};
use farside::lock::Kind;
use farside::{Error, ExitCause, HandlerId, Lock, Node, PeerState, Rank, Result, Team, World};

use crate::{ensure, ensure_eq};

pub(crate) fn calls_are_answered(world: &World) -> Result<()> {
    let reverse = world.serve(|agent, from, bytes| {
        let mut reply: Vec<u8> = bytes.iter().rev().copied().collect();
        reply.push(from.0 as u8);
        reply.push(agent.node().0 as u8);
        reply
    })?;
    for node in 0..world.topology().nodes() {
        for len in [0, 1, 100, 4000] {
            let argument: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let reply = world.call(Node(node), reverse, &argument)?;
            let mut expected: Vec<u8> = argument.into_iter().rev().collect();
            expected.extend([world.rank().0 as u8, node as u8]);
            ensure(reply == expected, || format!("a call of {len} bytes to node {node}"))?;
        }
    }
    world.barrier()
}

pub(crate) fn calls_from_everybody_are_counted(world: &World) -> Result<()> {
    // The count needs no atomic: an agent runs one handler at a time.
    let counter = counter(world)?;
    let mut last = 0;
    for _ in 0..200 {
        let value = count(world, counter)?;
        ensure(value > last, || "replies of one caller come in order".into())?;
        last = value;
    }
    let mut largest = [last];
    world.all_reduce(&mut largest, u64::max)?;
    ensure_eq(largest[0], 200 * u64::from(world.size()), "calls")
}

pub(crate) fn a_handler_signals_a_waiter(world: &World) -> Result<()> {
    // A lock server in small: who calls is queued, and signalled when the one before says that it
    // is done. It may keep the queue for itself, because nobody leaves before the end.
    let words = world.words(1)?;
    let word = |rank: Rank| words.at(rank, 0).word();
    let grants: Vec<Word> = world.ranks().map(word).collect();
    let state = Mutex::new((None::<Rank>, std::collections::VecDeque::new()));
    let server = world.serve(move |agent, from, bytes| {
        let (holder, queue) = &mut *state.lock().expect("handlers of this test do not panic");
        let asks = bytes == b"lock";
        if asks {
            queue.push_back(from);
        } else {
            *holder = None;
        }
        if holder.is_none()
            && let Some(next) = queue.pop_front()
        {
            *holder = Some(next);
            if agent.post(grants[next.index()], Atomic::Store(1)).is_err() {
                return b"failed".to_vec();
            }
        }
        Vec::new()
    })?;
    let window = world.window::<u64>(1)?;
    let inside = window.at(Rank(0), 0);
    for _ in 0..20 {
        world.call(Node(0), server, b"lock")?;
        world.wait(words.at(world.rank(), 0), |granted| granted == 1)?;
        world.store(words.at(world.rank(), 0), 0)?;
        // Not atomic: the lock must keep the others out.
        let value = world.get_value(inside)?;
        std::thread::yield_now();
        world.put(&[value + 1], inside)?;
        world.flush(Rank(0))?;
        world.call(Node(0), server, b"unlock")?;
    }
    world.sync()?;
    ensure_eq(world.get_value(inside)?, 20 * u64::from(world.size()), "increments under the lock")?;
    world.sync()?;
    window.free(world)?;
    words.free(world)
}

pub(crate) fn a_handler_reads_and_writes(world: &World) -> Result<()> {
    let window = world.window::<u64>(4)?;
    let segment = window.segment();
    let run = world.serve(move |agent, from, _| {
        let word = Word { rank: Rank(0), segment, offset: 8, width: Width::W64 };
        let held = agent.atomic(word, Atomic::Add(from.0.into()));
        let region = block_of(from, segment);
        let put = agent.put(&region, &7u64.to_le_bytes());
        let outside = agent.atomic(Word { offset: 1 << 40, ..word }, Atomic::Load);
        vec![u8::from(held.is_ok()), u8::from(put.is_ok()), u8::from(outside.is_err())]
    })?;
    // The word is on node 0, whose agent may change it.
    let reply = world.call(Node(0), run, &[])?;
    ensure_eq(reply, vec![1, 1, 1], "what the handler could do")?;
    // Nothing says when it lands that a handler has put, only that it does.
    while window.own().get(2)? != 7 {
        world.relax()?;
    }
    world.sync()?;
    let n = u64::from(world.size());
    ensure_eq(world.load(window.at(Rank(0), 1))?, n * (n - 1) / 2, "what the handler added")?;
    world.sync()?;
    window.free(world)
}

fn block_of(rank: Rank, segment: farside::fabric::SegmentId) -> Region<'static> {
    Region::block(rank, segment, 16, 8)
}

pub(crate) fn a_call_that_nobody_serves_is_an_error(world: &World) -> Result<()> {
    // No handler was ever registered, so there is not even an agent.
    let refused = world.call(Node(0), HandlerId(7), &[]);
    ensure_eq(
        refused,
        Err(Error::NoHandler { node: Node(0), handler: 7 }),
        "a call without an agent",
    )?;
    world.barrier()
}

/// More contexts end with posted calls than an agent has room for.
pub(crate) fn contexts_end_with_posted_calls(world: &World) -> Result<()> {
    let handler = world.serve(|_, _, _| vec![7])?;
    let nodes = || (0..world.topology().nodes()).map(Node);
    for _ in 0..6 {
        let context = world.context()?;
        for node in nodes().flat_map(|node| [node; 4]) {
            context.post_call(node, handler, &[])?;
        }
    }
    for node in nodes() {
        ensure_eq(world.call(node, handler, &[])?, vec![7], "a call after that")?;
    }
    world.barrier()
}

/// Nobody takes the answers of the calls that fill all slots while another call waits for one.
pub(crate) fn calls_go_on_beside_answers_that_nobody_has_taken(world: &World) -> Result<()> {
    let handler = world.serve(|_, _, asked| asked.to_vec())?;
    for node in (0..world.topology().nodes()).map(Node) {
        let contexts = (0..4).map(|_| world.context()).collect::<Result<Vec<_>>>()?;
        for (context, number) in contexts.iter().flat_map(|it| [it; 4]).zip(0..) {
            context.post_call(node, handler, &[number])?;
        }
        ensure_eq(world.call(node, handler, &[7])?, vec![7], "a call beside them")?;
        contexts.iter().try_for_each(farside::Context::finish_calls)?;
    }
    world.barrier()
}

/// Each of several threads has some of a rank's slots, and waits for more.
pub(crate) fn threads_call_several_nodes_at_once(world: &World) -> Result<()> {
    let echo = world.serve(|_, _, bytes| bytes.to_vec())?;
    let nodes = world.topology().nodes();
    let contexts = (0..6).map(|_| world.context()).collect::<Result<Vec<_>>>()?;
    std::thread::scope(|threads| {
        let call = |context: farside::Context| {
            threads.spawn(move || {
                let requests: Vec<_> =
                    (0..8).map(|at| (Node(at % nodes), vec![at as u8; 9])).collect();
                (0..10).try_for_each(|_| {
                    let replies = context.call_all(echo, &requests)?;
                    let is_right = replies.iter().zip(&requests).all(|(it, (_, sent))| it == sent);
                    ensure(is_right, || format!("{replies:?}"))
                })
            })
        };
        let handles: Vec<_> = contexts.into_iter().map(call).collect();
        handles.into_iter().try_for_each(|it| it.join().expect("the thread does not panic"))
    })?;
    world.barrier()
}

pub(crate) fn many_threads_call(world: &World) -> Result<()> {
    // More than a rank may have under way: the rest waits its turn.
    let echo = world.serve(|_, _, bytes| bytes.to_vec())?;
    let contexts = (0..24).map(|_| world.context()).collect::<Result<Vec<_>>>()?;
    std::thread::scope(|threads| {
        let call = |(number, context): (usize, farside::Context)| {
            threads.spawn(move || {
                context.call(Node(0), echo, &[number as u8]).map(|reply| reply == [number as u8])
            })
        };
        let handles: Vec<_> = contexts.into_iter().enumerate().map(call).collect();
        handles.into_iter().try_for_each(|handle| {
            let answered = handle.join().expect("the thread does not panic")?;
            ensure(answered, || "an echo".into())
        })
    })?;
    world.barrier()
}

pub(crate) fn calls_that_cannot_be_served_are_errors(world: &World) -> Result<()> {
    let fine = world.serve(|_, _, _| vec![1])?;
    let too_long = world.serve(|_, _, _| vec![0; 1 << 20])?;
    ensure_eq(
        world.call(Node(0), HandlerId(77), &[]),
        Err(Error::NoHandler { node: Node(0), handler: 77 }),
        "an unknown handler",
    )?;
    let nodes = world.topology().nodes();
    ensure_eq(
        world.call(Node(nodes), fine, &[]),
        Err(Error::UnknownNode { node: Node(nodes), nodes }),
        "an unknown node",
    )?;
    let limit = world.job().caps.call_bytes_max;
    let refused = world.call(Node(0), fine, &vec![0; limit as usize + 1]);
    ensure(matches!(refused, Err(Error::TooMuch { .. })), || {
        format!("an argument too long: {refused:?}")
    })?;
    let refused = world.call(Node(0), too_long, &[]);
    ensure(matches!(refused, Err(Error::TooMuch { .. })), || {
        format!("a reply too long: {refused:?}")
    })?;
    ensure_eq(world.call(Node(0), fine, &[]), Ok(vec![1]), "a call after all that")?;
    world.barrier()
}

/// A handler that counts its calls at the first node, in a word of rank 0: reads it, and then
/// writes it.
pub(crate) fn counter(world: &World) -> Result<HandlerId> {
    let at = world.words(1)?.at(Rank(0), 0).word();
    world.serve(move |agent, _, _| {
        let count =
            |count: u128| agent.atomic(at, Atomic::Store(count + 1)).map(|_| count as u64 + 1);
        let counted = agent.atomic(at, Atomic::Load).and_then(count);
        counted.map_or(Vec::new(), |count| count.to_le_bytes().to_vec())
    })
}

pub(crate) fn count(world: &World, counter: HandlerId) -> Result<u64> {
    let reply = world.call(Node(0), counter, &[])?;
    let bytes = reply
        .try_into()
        .map_err(|reply| Error::Program(format!("the counter has answered {reply:?}")))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Rank 0, whose process runs the handlers of its node, leaves in the middle of the work of all
/// others. Gives them as a team once it is gone, and a rank of theirs, on the node of rank 0 if
/// there is one.
fn without_the_first<'w>(
    world: &'w World,
    work: impl Fn() -> Result<()>,
) -> Result<Option<(Team<'w>, Rank)>> {
    let words = world.words(1)?;
    let rest = world.split((world.rank() != Rank(0)).then_some(1), 0)?;
    let Some(rest) = rest else {
        return Ok(None);
    };
    for _ in 0..20 {
        // It goes while calls are under way, and may be the last of its node.
        match work() {
            Ok(()) | Err(Error::RankLost { rank: Rank(0), how: ExitCause::Left }) => {}
            Err(error) => return Err(error),
        }
    }
    while world.peer_state(Rank(0)) != PeerState::Left {
        world.load(words.at(Rank(0), 0))?;
        world.relax()?;
    }
    let near = world.topology().ranks_of(Node(0));
    let next = if near.len() > 1 { near[1] } else { Rank(1) };
    Ok(Some((rest, next)))
}

pub(crate) fn calls_go_on_without_the_first_rank(world: &World) -> Result<()> {
    let counter = counter(world)?;
    let first = Cell::new(0);
    let Some((rest, next)) =
        without_the_first(world, || count(world, counter).map(|count| first.set(count)))?
    else {
        return Ok(());
    };
    if world.topology().node_of(next) != Node(0) {
        let gone = Err(Error::RankLost { rank: Rank(0), how: ExitCause::Left });
        ensure_eq(count(world, counter), gone, "a call of a node that everybody has left")?;
        return rest.barrier();
    }
    let mut all = [first.get()];
    rest.all_reduce(&mut all, u64::max)?;
    for round in 1..=100 {
        let seen = count(world, counter)?;
        ensure(seen >= all[0] + round, || format!("call {round} after {} gave {seen}", all[0]))?;
    }
    rest.barrier()?;
    let last = count(world, counter)? - all[0] - 100 * rest.size() as u64;
    ensure((1..=rest.size() as u64).contains(&last), || {
        format!("{last} calls too many or too few")
    })?;
    rest.barrier()
}

pub(crate) fn locks_go_on_without_the_first_rank(world: &World) -> Result<()> {
    let alone = world.topology().ranks_of(Node(0)).len() == 1;
    let home = Rank(u32::from(alone));
    let locks = [Kind::Server, Kind::Hybrid].map(|kind| Lock::of_kind(world, home, &kind));
    let sums = world.window::<u64>(2)?;
    let enter = |at: usize, lock: &Lock| {
        let guard = lock.lock(world)?;
        let sum = sums.at(Rank(1), at);
        // Not atomic: the lock must keep the others out.
        world.put_value(world.get_value(sum)? + 1, sum)?;
        guard.unlock()
    };
    let locks: Vec<Lock> = locks.into_iter().collect::<Result<_>>()?;
    let entered = Cell::new(0);
    let all = || {
        entered.set(entered.get() + 1);
        locks.iter().enumerate().try_for_each(|(at, lock)| enter(at, lock))
    };
    all()?;
    world.barrier()?;
    let Some((rest, _)) = without_the_first(world, all)? else {
        return Ok(());
    };
    (0..20).try_for_each(|_| all())?;
    rest.sync()?;
    let mut times = [entered.get()];
    rest.all_reduce(&mut times, |a, b| a + b)?;
    for (at, lock) in locks.iter().enumerate() {
        // Rank 0 has entered once.
        ensure_eq(world.get_value(sums.at(Rank(1), at))?, times[0] + 1, lock.name())?;
    }
    rest.barrier()
}

pub(crate) fn windows_go_on_without_the_first_rank(world: &World) -> Result<()> {
    let alone = world.topology().ranks_of(Node(0)).len() == 1;
    let target = Rank(u32::from(alone));
    let design = Design::Backoff(LockAgent::new(world)?);
    let window = epoch::Window::allocate(world, 8, epoch::Options::new().unit(8).design(design))?;
    let entered = Cell::new(0u64);
    let visit = || {
        window.lock(target, Mode::Shared)?;
        let seen = window.get::<u64>(target, 0, 1)?;
        window.unlock(target)?;
        let seen = seen.take()?[0];
        window.lock(target, Mode::Exclusive)?;
        let now = window.get::<u64>(target, 0, 1)?;
        window.flush(target)?;
        let now = now.take()?[0];
        window.put(&[now + 1], target, 0)?;
        window.unlock(target)?;
        entered.set(entered.get() + 1);
        ensure(now >= seen, || format!("{now} after {seen}"))
    };
    visit()?;
    world.barrier()?;
    let Some((rest, _)) = without_the_first(world, visit)? else {
        return Ok(());
    };
    (0..20).try_for_each(|_| visit())?;
    let mut times = [entered.get()];
    rest.all_reduce(&mut times, |a, b| a + b)?;
    window.lock(target, Mode::Shared)?;
    let sum = window.get::<u64>(target, 0, 1)?;
    window.unlock(target)?;
    ensure_eq(sum.take()?[0], times[0] + 1, "visits")?;
    rest.barrier()
}
