//! Which nodes are there: silence, pings and verdicts, without socket and clock.
//!
//! A node is lost when it leaves pings unanswered, one in every look for a while. Time in which
//! this agent itself did not run (it was stopped, or had no processor) is nobody's silence: between
//! two looks a silence grows by the time between two looks at most, however late the second comes.

use farside_fabric::Node;

/// The number of looks in the time after which a silent node is lost.
const LOOKS: u64 = 8;
/// The silence, in looks, after which a node is pinged in every look.
const PINGED_AFTER: u64 = 2;
/// The silence, in looks, that viewers are told of: a ping has not been answered.
const TOLD_AFTER: u64 = 3;

/// The silence, in looks, after which a node counts as silent when somebody asks: longer than any
/// node is silent that answers (three looks, and what the answer takes), and shorter than any node
/// has been silent that was cut off when the first one was lost for that (five looks).
const SILENT_AFTER: u64 = 4;

pub(super) struct Liveness {
    me: Node,
    nodes: Vec<Peer>,
    interval_ns: u64,
    looked_ns: u64,
}

#[derive(Clone)]
struct Peer {
    /// When its agent last gave a sign of life, without the time in which this agent did not run.
    heard_ns: u64,
    /// Whether anything authentic has ever come from there.
    was_heard: bool,
    is_lost: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) pings: Vec<Node>,
    pub(super) lost: Vec<Node>,
    /// The node that has been silent for longest, and since when, if that is worth telling.
    pub(super) silence: Option<(Node, u64)>,
}

impl Liveness {
    /// Begins to listen to so many nodes, of which one that is silent for `timeout_ns` is lost.
    pub(super) fn new(me: Node, nodes: u32, timeout_ns: u64, now_ns: u64) -> Liveness {
        let peer = Peer { heard_ns: now_ns, was_heard: false, is_lost: false };
        let nodes = vec![peer; nodes as usize];
        Liveness { me, nodes, interval_ns: timeout_ns / LOOKS, looked_ns: now_ns }
    }

    /// Notes that something authentic has come from a node.
    pub(super) fn note_arrival(&mut self, node: Node) {
        if let Some(peer) = self.nodes.get_mut(node.0 as usize) {
            peer.was_heard = true;
        }
    }

    /// Notes a sign of life of a node's agent.
    pub(super) fn heard(&mut self, node: Node, now_ns: u64) {
        if let Some(peer) = self.nodes.get_mut(node.0 as usize) {
            (peer.heard_ns, peer.was_heard) = (now_ns, true);
        }
    }

    /// Notes that a node is lost, of which somebody else has told.
    pub(super) fn lose(&mut self, node: Node) {
        if let Some(peer) = self.nodes.get_mut(node.0 as usize) {
            peer.is_lost = true;
        }
    }

    pub(super) fn is_lost(&self, node: Node) -> bool {
        self.nodes.get(node.0 as usize).is_some_and(|peer| peer.is_lost)
    }

    pub(super) fn was_heard(&self, node: Node) -> bool {
        self.nodes.get(node.0 as usize).is_some_and(|peer| peer.was_heard)
    }

    pub(super) fn due_ns(&self) -> u64 {
        self.looked_ns + self.interval_ns
    }

    /// Returns the nodes that are lost, or have been silent for so long that they have left a ping
    /// unanswered.
    pub(super) fn silent(&self, now_ns: u64) -> Vec<Node> {
        let now_ns = now_ns.min(self.due_ns());
        let is_silent = |&(node, peer): &(Node, &Peer)| {
            let silent_ns = now_ns.saturating_sub(peer.heard_ns);
            node != self.me && (peer.is_lost || silent_ns > SILENT_AFTER * self.interval_ns)
        };
        (0..).map(Node).zip(&self.nodes).filter(is_silent).map(|(node, _)| node).collect()
    }

    pub(super) fn look(&mut self, now_ns: u64) -> Option<Look> {
        let absent_ns = now_ns.checked_sub(self.due_ns())?;
        self.looked_ns = now_ns;
        let (me, interval_ns) = (self.me, self.interval_ns);
        let mut look = Look::default();
        for (node, peer) in (0..).map(Node).zip(&mut self.nodes) {
            if node == me || peer.is_lost {
                continue;
            }
            peer.heard_ns = (peer.heard_ns + absent_ns).min(now_ns);
            let silent_ns = now_ns - peer.heard_ns;
            if silent_ns > LOOKS * interval_ns {
                peer.is_lost = true;
                look.lost.push(node);
            } else if silent_ns > PINGED_AFTER * interval_ns {
                look.pings.push(node);
            }
            if silent_ns > TOLD_AFTER * interval_ns
                && look.silence.is_none_or(|(_, since_ns)| peer.heard_ns < since_ns)
            {
                look.silence = Some((node, peer.heard_ns));
            }
        }
        Some(look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT_NS: u64 = 8_000;
    const OTHER: Node = Node(1);

    fn liveness() -> Liveness {
        Liveness::new(Node(0), 2, TIMEOUT_NS, 0)
    }

    /// Looks in time until the other node is lost; returns the number of pings before that.
    fn pings_until_lost(liveness: &mut Liveness) -> usize {
        let mut pings = 0;
        for _ in 0..2 * LOOKS {
            let look = liveness.look(liveness.due_ns()).expect("it is time");
            if look.lost == [OTHER] {
                return pings;
            }
            pings += look.pings.len();
        }
        panic!("it is not lost");
    }

    #[test]
    fn a_node_that_leaves_pings_unanswered_is_lost() {
        let mut liveness = liveness();
        assert_eq!(liveness.look(liveness.due_ns() - 1), None, "too early");
        assert_eq!(pings_until_lost(&mut liveness), 6);
        assert!(liveness.is_lost(OTHER) && !liveness.was_heard(OTHER));
        assert_eq!(liveness.look(liveness.due_ns()), Some(Look::default()), "it is lost once");
    }

    #[test]
    fn time_in_which_this_agent_did_not_run_is_nobodys_silence() {
        let mut liveness = liveness();
        let mut now_ns = 0;
        // It runs for one look, again and again, and each time the other answers.
        for _ in 0..100 {
            now_ns += 3 * TIMEOUT_NS;
            let look = liveness.look(now_ns).expect("it is time");
            assert_eq!((look.lost, look.silence), (vec![], None));
            liveness.heard(OTHER, now_ns + 1);
        }
        // One that does not answer after a pause is lost, and as many pings later as ever.
        assert_eq!(liveness.look(now_ns + 9 * TIMEOUT_NS).expect("it is time").lost, []);
        assert!(pings_until_lost(&mut liveness) >= 5);
    }

    #[test]
    fn who_is_silent_is_known_before_it_is_lost() {
        let mut liveness = Liveness::new(Node(0), 3, TIMEOUT_NS, 0);
        for _ in 0..SILENT_AFTER {
            let now_ns = liveness.due_ns();
            liveness.heard(Node(2), now_ns);
            liveness.look(now_ns);
        }
        assert_eq!(liveness.silent(liveness.due_ns()), [OTHER]);
        // A pause of this agent is nobody's silence here either.
        assert_eq!(liveness.silent(liveness.due_ns() + 9 * TIMEOUT_NS), [OTHER]);
        liveness.heard(OTHER, liveness.due_ns());
        assert_eq!(liveness.silent(liveness.due_ns() + 9 * TIMEOUT_NS), []);
    }

    #[test]
    fn looks_that_come_late_ask_as_often_before_a_verdict() {
        let mut liveness = liveness();
        let mut pings = 0;
        loop {
            let look = liveness.look(liveness.due_ns() + TIMEOUT_NS / 2).expect("it is time");
            pings += look.pings.len();
            if !look.lost.is_empty() {
                break;
            }
        }
        assert_eq!(pings, 6);
    }
}
