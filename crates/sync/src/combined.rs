//! Fence and barrier of all ranks in one: everybody learns how much was posted to its node, waits
//! until that much has landed, and meets the others.
//!
//! Paper:     \[ARMCI03\] section 3.1.2, figures 2 and 3.
//! Differs:   counts are kept for each node instead of each rank, and the ranks of a node are
//!            combined in its shared memory first; a phase sends only the part of the counts that
//!            the other half needs; any number of nodes, the ones beyond a power of two going
//!            through a partner. Who has posted to few nodes may wait for their acknowledgements
//!            instead, and if all do, the second half is left out.
//! State:     for each node 2 x (its ranks + log2 of the nodes + 2) messages of all counts, on its
//!            first rank; 2 words on every rank.
//! Invariant: when a rank returns, all that any rank posted before it called has landed everywhere.
//! Ordering:  a node is complete when as much has landed there as was posted to it
//!            (`a_sync_that_does_not_wait_is_caught`); that of others is learned by a second
//!            meeting (`a_sync_that_does_not_meet_again_is_caught`); messages use two sets of
//!            places in turn.
//! Cost:      log2 N messages and log2 N signals from each node, one after the other; all-fence and
//!            barrier take 2 (N - 1) + log2 N.
//! Checked:   3 ranks on 3 nodes exhaustively, after puts from each to each.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

use farside_fabric::{Node, Rank, Result};
use farside_rma::{Place, Team, Window, World};

use crate::variant::{Right, Variant};

/// How to make sure that everything has landed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Directly if this rank has posted to few nodes, otherwise by counting.
    Auto,
    /// By waiting for acknowledgements, then a barrier.
    Direct,
    /// By counting, always.
    Counted,
}

/// Every rank's first words: the round that it entered, and the round that it was released from.
const HEAD: usize = 2;
const ENTERED: usize = 0;
const RELEASED: usize = 1;
/// A message begins with its flag and the bits of those it speaks for; counts follow.
const FLAG: usize = 0;
const BITS: usize = 1;
const COUNTS: usize = 2;
/// Somebody waits for the counts to be reached.
const NEEDED: u64 = 1;
/// Somebody posts from several threads, so that counts do not tell what has landed.
const UNSURE: u64 = 2;

/// A combined fence and barrier of all ranks. Collective to make and to free.
///
/// ```
/// use farside::combined::{Combined, Way};
///
/// farside::local(4, |world| {
///     let (combined, window) = (Combined::new(&world)?, world.window::<u64>(4)?);
///     for way in [Way::Auto, Way::Direct, Way::Counted] {
///         for peer in world.ranks() {
///             world.put_value(7, window.at(peer, world.rank().index()))?;
///         }
///         combined.sync(&world, way)?;
///         assert_eq!(window.own().to_vec()?, [7; 4]);
///     }
///     window.free(&world)?;
///     combined.free(&world)
/// })
/// .unwrap();
/// ```
#[must_use = "what is dropped without `free` keeps its memory until the job ends"]
pub struct Combined<V = Right> {
    window: Window<u64>,
    /// Whether the fabric counts what lands.
    counting: bool,
    /// What had landed on this node, and what this rank had posted to each, when counting began.
    landed_before: u64,
    issued_before: Box<[u64]>,
    /// What this rank had posted to each node when it last synchronized.
    issued_last: RefCell<Box<[u64]>>,
    nodes: Nodes,
    round: Cell<u64>,
    variant: PhantomData<fn() -> V>,
}

/// Who is where, as this rank needs it.
struct Nodes {
    me: usize,
    count: usize,
    /// The largest power of two that is not larger.
    power: usize,
    /// The first rank of each, and how many ranks it has.
    leaders: Box<[Rank]>,
    sizes: Box<[usize]>,
    near: Box<[Rank]>,
    /// Which of the near ranks this one is.
    place: usize,
}

impl Combined {
    /// Prepares. Returns when everything that was posted before has landed.
    pub fn new(world: &World) -> Result<Combined> {
        Combined::variant(world)
    }
}

impl<V: Variant> Combined<V> {
    #[doc(hidden)]
    pub fn variant(world: &World) -> Result<Combined<V>> {
        let nodes = Nodes::new(world)?;
        let len =
            if nodes.place == 0 { HEAD + 2 * nodes.words_of_set(nodes.near.len()) } else { HEAD };
        let window = world.team().uncounted_window(len)?;
        // Nothing is under way while counting begins: what is counted from then on is what is
        // posted from then on.
        world.sync()?;
        let counting = world.count_landings()? && nodes.count > 1;
        let landed_before = if counting && nodes.place == 0 { world.landed()? } else { 0 };
        let issued: Box<[u64]> = nodes.all().map(|node| world.issued_to(node)).collect();
        world.barrier()?;
        Ok(Combined {
            window,
            counting,
            landed_before,
            issued_last: RefCell::new(issued.clone()),
            issued_before: issued,
            nodes,
            round: Cell::new(0),
            variant: PhantomData,
        })
    }

    /// Returns when all ranks have called it and all that any of them has put before, to anybody,
    /// has landed.
    pub fn sync(&self, world: &World, way: Way) -> Result<()> {
        if !self.counting {
            return world.sync();
        }
        let round = self.round.get() + 1;
        self.round.set(round);
        let bits = self.prepare(world, way)?;
        world.store(self.window.at(world.rank(), ENTERED), round)?;
        let counts = self
            .nodes
            .all()
            .zip(&self.issued_before)
            .map(|(node, before)| world.issued_to(node) - before);
        let mut message: Vec<u64> = std::iter::once(bits).chain(counts).collect();
        let bits = if self.nodes.place == 0 {
            self.lead(world, round, &mut message)?
        } else {
            self.follow(world, round, &message)?
        };
        if bits & UNSURE != 0 {
            world.flush_all()?;
            return world.barrier();
        }
        Ok(())
    }

    /// Waits for what need not, or cannot, be counted; says what is left.
    fn prepare(&self, world: &World, way: Way) -> Result<u64> {
        let issued: Box<[u64]> = self.nodes.all().map(|node| world.issued_to(node)).collect();
        let last = self.issued_last.replace(issued.clone());
        let touched = issued.iter().zip(&last).filter(|(now, last)| now != last).count();
        let few = 2 * touched < self.nodes.count.next_power_of_two().ilog2() as usize;
        if !world.is_only() {
            return Ok(UNSURE);
        }
        if way == Way::Direct || (way == Way::Auto && few) {
            return world.flush_all().map(|()| 0);
        }
        // What stays on this node is not counted.
        self.nodes.near.iter().try_for_each(|&rank| world.flush(rank))?;
        Ok(NEEDED)
    }

    fn follow(&self, world: &World, round: u64, message: &[u64]) -> Result<u64> {
        self.send(world, round, self.nodes.me, self.nodes.place - 1, message)?;
        let released =
            self.await_round(world, self.window.at(world.rank(), RELEASED), round << 2)?;
        Ok(released & 3)
    }

    /// What the first rank of a node does for it.
    fn lead(&self, world: &World, round: u64, message: &mut [u64]) -> Result<u64> {
        let nodes = &self.nodes;
        for place in 1..nodes.near.len() {
            self.receive(world, round, place - 1, message, |_| true)?;
        }
        self.exchange(world, round, message)?;
        let bits = message[0];
        if bits == NEEDED {
            let due = self.landed_before + message[1 + nodes.me];
            if V::AWAITS_LANDINGS {
                world.wait_landed(world.topology().all(), due)?;
            }
            if V::MEETS_AGAIN {
                self.meet(world, round)?;
            }
        }
        let released = (round << 2) | bits;
        nodes.near[1..]
            .iter()
            .try_for_each(|&rank| world.signal(self.window.at(rank, RELEASED), released))?;
        Ok(bits)
    }

    /// Adds up what all nodes say, as far as it concerns this one: in each phase, two halves
    /// exchange what the other half needs.
    fn exchange(&self, world: &World, round: u64, message: &mut [u64]) -> Result<()> {
        let (me, count, power) = (self.nodes.me, self.nodes.count, self.nodes.power);
        let folded = self.nodes.near.len() - 1;
        let unfolded = folded + 1;
        if me >= power {
            self.send(world, round, me - power, self.box_of(me - power, 0), message)?;
            return self.receive_instead(world, round, unfolded, message);
        }
        let has_partner = me + power < count;
        if has_partner {
            self.receive(world, round, folded, message, |_| true)?;
        }
        for phase in (0..power.ilog2()).rev() {
            let partner = me ^ (1 << phase);
            // Nodes that agree with somebody in the bits decided so far are that one's to add up.
            let concerns = |who: usize| move |node: usize| ((node % power) ^ who) >> phase == 0;
            let theirs: Vec<u64> = std::iter::once(message[0])
                .chain(
                    (0..count)
                        .filter(|&node| concerns(partner)(node))
                        .map(|node| message[1 + node]),
                )
                .collect();
            self.send(world, round, partner, self.box_of(partner, 2 + phase as usize), &theirs)?;
            self.receive(world, round, unfolded + 1 + phase as usize, message, concerns(me))?;
        }
        if has_partner {
            let answer = [message[0], message[1 + me + power]];
            self.send(world, round, me + power, self.box_of(me + power, 1), &answer)?;
        }
        Ok(())
    }

    /// The roots of the nodes meet once more.
    fn meet(&self, world: &World, round: u64) -> Result<()> {
        let (me, count) = (self.nodes.me, self.nodes.count);
        for phase in 0..count.next_power_of_two().ilog2() as usize {
            let to = (me + (1 << phase)) % count;
            let flag = |node: usize| {
                HEAD + self.set(round) * self.nodes.words_of_set(self.nodes.sizes[node]) + phase
            };
            world.signal(self.window.at(self.nodes.leaders[to], flag(to)), round)?;
            self.await_round(world, self.window.at(world.rank(), flag(me)), round)?;
        }
        Ok(())
    }

    /// The number, at the first rank of `node`, of a box beyond those of its own ranks.
    fn box_of(&self, node: usize, beyond: usize) -> usize {
        self.nodes.sizes[node] - 1 + beyond
    }

    fn send(
        &self,
        world: &World,
        round: u64,
        to: usize,
        number: usize,
        message: &[u64],
    ) -> Result<()> {
        let (leader, start) = (self.nodes.leaders[to], self.start(round, to, number));
        let (data, flag) =
            (self.window.at(leader, start + BITS), self.window.at(leader, start + FLAG));
        world.put_signal(message, data, round, flag)
    }

    /// Waits for a message and adds it to what is known: its bits, and its counts for the nodes
    /// that it `concerns`.
    fn receive(
        &self,
        world: &World,
        round: u64,
        number: usize,
        message: &mut [u64],
        concerns: impl Fn(usize) -> bool,
    ) -> Result<()> {
        let slots: Vec<usize> = (0..self.nodes.count).filter(|&node| concerns(node)).collect();
        let said = self.take(world, round, number, slots.len())?;
        message[0] |= said[0];
        slots.into_iter().zip(&said[1..]).for_each(|(node, count)| message[1 + node] += count);
        Ok(())
    }

    /// Waits for the answer of the partner, who has added up for this node.
    fn receive_instead(
        &self,
        world: &World,
        round: u64,
        number: usize,
        message: &mut [u64],
    ) -> Result<()> {
        let said = self.take(world, round, number, 1)?;
        (message[0], message[1 + self.nodes.me]) = (said[0], said[1]);
        Ok(())
    }

    fn take(&self, world: &World, round: u64, number: usize, counts: usize) -> Result<Vec<u64>> {
        let start = self.start(round, self.nodes.me, number);
        self.await_round(world, self.window.at(world.rank(), start + FLAG), round)?;
        let mut said = vec![0; 1 + counts];
        world.get(self.window.at(world.rank(), start + BITS), &mut said)?;
        Ok(said)
    }

    fn set(&self, round: u64) -> usize {
        if V::ALTERNATES { (round % 2) as usize } else { 0 }
    }

    /// Where a box begins at the first rank of a node.
    fn start(&self, round: u64, node: usize, number: usize) -> usize {
        let flags = self.nodes.phases();
        HEAD + self.set(round) * self.nodes.words_of_set(self.nodes.sizes[node])
            + flags
            + number * self.nodes.box_words()
    }

    /// Waits until a word of this rank holds `at_least`. Who has left without coming is missed.
    fn await_round(&self, world: &World, at: Place<'_, u64>, at_least: u64) -> Result<u64> {
        let round = self.round.get();
        let has_entered = |rank: Rank| Ok(world.load(self.window.at(rank, ENTERED))? >= round);
        world.wait_for_all(world.topology().all(), &has_entered, at, |word| word >= at_least)
    }

    /// Gives the memory back. Collective.
    pub fn free<'t>(self, team: impl Into<Team<'t>>) -> Result<()> {
        self.window.free(team)
    }
}

impl Nodes {
    fn new(world: &World) -> Result<Nodes> {
        let topology = world.topology();
        let me = topology.node_of(world.rank());
        let count = topology.nodes() as usize;
        let near: Box<[Rank]> = topology.ranks_of(me).into();
        let leaders = (0..topology.nodes())
            .map(|node| topology.leader_of(Node(node)))
            .collect::<Result<_>>()?;
        let sizes = (0..topology.nodes()).map(|node| topology.ranks_of(Node(node)).len()).collect();
        let place = near.iter().position(|&rank| rank == world.rank()).unwrap_or(0);
        Ok(Nodes {
            me: me.0 as usize,
            count,
            power: 1 << count.ilog2(),
            leaders,
            sizes,
            near,
            place,
        })
    }

    fn all(&self) -> impl Iterator<Item = Node> + use<> {
        (0..self.count as u32).map(Node)
    }

    /// How many phases the last meeting has.
    fn phases(&self) -> usize {
        self.count.next_power_of_two().ilog2() as usize
    }

    fn box_words(&self) -> usize {
        COUNTS + self.count
    }

    /// How many words one set takes at the first rank of a node of so many ranks: the flags of the
    /// last meeting; boxes for its other ranks, to and from a partner, and for the phases.
    fn words_of_set(&self, ranks: usize) -> usize {
        self.phases() + (ranks - 1 + 2 + self.power.ilog2() as usize) * self.box_words()
    }
}
