//! The topology of a job: its ranks arranged in any number of levels, such as node and socket.

use std::sync::Arc;

use crate::departure::PeerState;
use crate::error::{Error, ExitCause, Result};
use crate::names::{Node, Rank};
use crate::text::counted;

/// One level: which element of it each rank belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// Its name: `machine`, `rack`, `node`, `socket`, `numa`, `cache`, `core` …
    pub name: String,
    /// For each rank, the element it belongs to; elements are numbered from 0 throughout the level.
    pub element_of: Vec<u32>,
    /// The number of elements.
    pub elements: u32,
}

/// The levels of a job, the widest first. The first has a single element, and one is called `node`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    levels: Vec<Level>,
    node_level: usize,
    nodes: Vec<Vec<Rank>>,
    all: Arc<[Rank]>,
}

impl Topology {
    /// All ranks on one node, nothing known inside it.
    pub fn flat(ranks: u32) -> Topology {
        Topology::from_levels(ranks, vec![("node".into(), vec![0; ranks as usize])])
            .expect("one node holds all ranks")
    }

    /// Reads a description such as `node:2,socket:2` for `ranks` ranks: two nodes of two sockets
    /// each. Ranks are dealt out in blocks, as evenly as they go. Without `node` all ranks are on
    /// one node, above the levels named.
    pub fn parse(description: &str, ranks: u32) -> Result<Topology> {
        let bad = |why: String| {
            Error::InvalidSetting(format!(
                "topology {description:?}: {why}; expected something like \
                 \"rack:2,node:2,socket:2\""
            ))
        };
        let mut parts: Vec<(String, u32)> = Vec::new();
        for part in description.split([',', ' ']).filter(|part| !part.is_empty()) {
            let (name, count) =
                part.split_once(':').ok_or_else(|| bad(format!("{part:?} has no count")))?;
            let count: u32 =
                count.parse().map_err(|_| bad(format!("{count:?} is not a number")))?;
            if count == 0 || name.is_empty() {
                return Err(bad(format!("{part:?} is empty")));
            }
            if parts.iter().any(|(known, _)| known == name) {
                return Err(bad(format!("{name:?} comes twice")));
            }
            parts.push((name.to_owned(), count));
        }
        if !parts.iter().any(|(name, _)| name == "node") {
            parts.insert(0, ("node".into(), 1));
        }
        let mut levels = Vec::new();
        let mut elements = 1u64;
        for (name, count) in parts {
            elements = elements.saturating_mul(count.into());
            if elements > u64::from(ranks) {
                return Err(bad(format!(
                    "level {name:?} has {elements} elements, more than the {ranks} ranks"
                )));
            }
            let block = |rank: u32| (u64::from(rank) * elements / u64::from(ranks)) as u32;
            levels.push((name, (0..ranks).map(block).collect()));
        }
        Topology::from_levels(ranks, levels)
    }

    /// Builds a topology from named levels, the widest first. A level that splits its parent
    /// nowhere is kept if it is `node`, dropped otherwise; a `machine` above everything is added.
    pub fn from_levels(ranks: u32, named: Vec<(String, Vec<u32>)>) -> Result<Topology> {
        if ranks == 0 {
            return Err(Error::InvalidArgument("a job needs at least one rank, not 0".into()));
        }
        let mut levels = vec![Level {
            name: "machine".into(),
            element_of: vec![0; ranks as usize],
            elements: 1,
        }];
        for (name, raw) in named {
            if raw.len() != ranks as usize {
                return Err(Error::Mismatch {
                    what: "ranks of a level of the topology and of the job",
                    left: raw.len() as u64,
                    right: ranks.into(),
                });
            }
            let parent = levels.last().expect("machine is there");
            let mut seen: Vec<(u32, u32)> = Vec::new();
            let element_of: Vec<u32> = raw
                .iter()
                .zip(&parent.element_of)
                .map(|(&own, &above)| match seen.iter().position(|&pair| pair == (above, own)) {
                    Some(at) => at as u32,
                    None => {
                        seen.push((above, own));
                        seen.len() as u32 - 1
                    }
                })
                .collect();
            if name == "node" || seen.len() as u32 > parent.elements {
                levels.push(Level { name, element_of, elements: seen.len() as u32 });
            }
        }
        let node_level = levels.iter().position(|level| level.name == "node").ok_or_else(|| {
            Error::InvalidSetting("a topology needs a level called \"node\"".into())
        })?;
        let mut nodes = vec![Vec::new(); levels[node_level].elements as usize];
        for (rank, &node) in levels[node_level].element_of.iter().enumerate() {
            nodes[node as usize].push(Rank(rank as u32));
        }
        let all = (0..ranks).map(Rank).collect();
        Ok(Topology { levels, node_level, nodes, all })
    }

    /// Returns how many ranks there are.
    pub fn ranks(&self) -> u32 {
        self.levels[0].element_of.len() as u32
    }

    /// All ranks, in order.
    pub fn all(&self) -> &Arc<[Rank]> {
        &self.all
    }

    /// Returns the levels, the widest first.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// Returns how many nodes there are.
    pub fn nodes(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// Returns the node of a rank.
    pub fn node_of(&self, rank: Rank) -> Node {
        Node(self.levels[self.node_level].element_of[rank.index()])
    }

    /// Returns the ranks of a node, in order; empty if there is no such node.
    pub fn ranks_of(&self, node: Node) -> &[Rank] {
        self.nodes.get(node.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// Returns the first rank of a node, whose process runs the node's handlers as long as it is
    /// there.
    pub fn leader_of(&self, node: Node) -> Result<Rank> {
        self.ranks_of(node).first().copied().ok_or(Error::UnknownNode { node, nodes: self.nodes() })
    }

    /// Returns the first rank of a node that has not gone, as `fate` says. If all have, an error
    /// that names one of them that was lost, or the first if they have left in order.
    pub fn first_left(&self, node: Node, peer_state: impl Fn(Rank) -> PeerState) -> Result<Rank> {
        let leader = self.leader_of(node)?;
        let fates = || self.ranks_of(node).iter().map(|&rank| (rank, peer_state(rank)));
        if let Some((rank, _)) = fates()
            .find(|(_, peer_state)| matches!(peer_state, PeerState::Starting | PeerState::Alive))
        {
            return Ok(rank);
        }
        let lost = fates().find_map(|(rank, peer_state)| match peer_state {
            PeerState::Lost(how) => Some((rank, how)),
            _ => None,
        });
        let (rank, how) = lost.unwrap_or((leader, ExitCause::Left));
        Err(Error::RankLost { rank, how })
    }

    /// Returns whether two ranks are on one node.
    pub fn same_node(&self, a: Rank, b: Rank) -> bool {
        self.node_of(a) == self.node_of(b)
    }

    /// Returns the deepest level that two ranks share an element of: the larger, the closer they
    /// are.
    pub fn shared_level(&self, a: Rank, b: Rank) -> usize {
        self.levels
            .iter()
            .rposition(|level| level.element_of[a.index()] == level.element_of[b.index()])
            .expect("all ranks share the machine")
    }

    /// Checks that a number is a rank of this job.
    pub fn check(&self, rank: Rank) -> Result<()> {
        if rank.0 < self.ranks() {
            Ok(())
        } else {
            Err(Error::UnknownRank { rank, ranks: self.ranks() })
        }
    }

    /// All levels as text, for another process of the job.
    pub fn encode(&self) -> String {
        let level = |level: &Level| {
            let elements: Vec<String> = level.element_of.iter().map(u32::to_string).collect();
            format!("{}={}", level.name, elements.join(","))
        };
        self.levels[1..].iter().map(level).collect::<Vec<_>>().join(";")
    }

    /// Reads what [`Topology::encode`] wrote.
    pub fn decode(text: &str, ranks: u32) -> Result<Topology> {
        let bad = || Error::Join(format!("the topology {text:?} is damaged"));
        let mut levels = Vec::new();
        for level in text.split(';') {
            let (name, elements) = level.split_once('=').ok_or_else(bad)?;
            let elements = elements
                .split(',')
                .map(str::parse)
                .collect::<Result<Vec<u32>, _>>()
                .map_err(|_| bad())?;
            levels.push((name.to_owned(), elements));
        }
        Topology::from_levels(ranks, levels)
    }

    /// Returns the levels and their sizes, for people to read.
    pub fn describe(&self) -> String {
        let levels = self.levels.iter().map(|level| counted(level.elements, &level.name));
        levels.chain([counted(self.ranks(), "rank")]).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_dealt_out_in_blocks() {
        let topology = Topology::parse("rack:2,node:2,socket:2", 16).unwrap();
        let names: Vec<&str> = topology.levels().iter().map(|level| level.name.as_str()).collect();
        assert_eq!(names, ["machine", "rack", "node", "socket"]);
        assert_eq!(topology.nodes(), 4);
        assert_eq!(topology.ranks_of(Node(1)), [Rank(4), Rank(5), Rank(6), Rank(7)]);
        assert_eq!(topology.leader_of(Node(3)), Ok(Rank(12)));
        assert_eq!(topology.shared_level(Rank(0), Rank(1)), 3);
        assert_eq!(topology.shared_level(Rank(0), Rank(2)), 2);
        assert_eq!(topology.shared_level(Rank(0), Rank(4)), 1);
        assert_eq!(topology.shared_level(Rank(0), Rank(8)), 0);
        assert_eq!(Topology::decode(&topology.encode(), 16), Ok(topology));
    }

    #[test]
    fn uneven_numbers_leave_no_element_empty() {
        let topology = Topology::parse("node:3", 7).unwrap();
        let sizes: Vec<usize> = (0..3).map(|node| topology.ranks_of(Node(node)).len()).collect();
        assert_eq!(sizes.iter().sum::<usize>(), 7);
        assert!(sizes.iter().all(|&size| size >= 2), "{sizes:?}");
    }

    #[test]
    fn levels_inside_one_node_need_no_node() {
        let topology = Topology::parse("socket:2", 4).unwrap();
        assert_eq!(topology.nodes(), 1);
        assert_eq!(topology.levels().len(), 3);
    }

    #[test]
    fn levels_that_split_nothing_are_dropped() {
        let all = vec![0; 4];
        let named = vec![
            ("node".into(), all.clone()),
            ("socket".into(), all),
            ("core".into(), vec![0, 0, 1, 1]),
        ];
        let topology = Topology::from_levels(4, named).unwrap();
        let names: Vec<&str> = topology.levels().iter().map(|level| level.name.as_str()).collect();
        assert_eq!(names, ["machine", "node", "core"]);
    }

    #[test]
    fn bad_descriptions_are_named() {
        for (text, part) in [
            ("node", "no count"),
            ("node:x", "\"x\""),
            ("node:0", "empty"),
            ("node:2,node:2", "twice"),
            ("node:9", "9"),
        ] {
            let message = Topology::parse(text, 8).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
        assert!(Topology::from_levels(0, vec![]).is_err());
        assert_eq!(
            Topology::flat(4).check(Rank(4)),
            Err(Error::UnknownRank { rank: Rank(4), ranks: 4 })
        );
    }
}
