//! The plan of a job that several processes make: its ranks, their nodes and the settings.
//!
//! It is written in one way only. `farside run` sends it to the hosts of a job; under another
//! launcher the first rank reads where all of them are, decides, and tells the others.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use farside_fabric::{Error, Link, Node, Rank, Result, Topology};

use crate::card::Card;
use crate::lines::{LineReader, Lines, from_hex, hex};
use crate::{FABRIC, Kind, NODES, Options, PATIENCE, PEER_TIMEOUT, SERVER, TOPOLOGY};

/// The plan of a job that several processes make together.
#[derive(Clone, PartialEq, Eq)]
pub struct JobPlan {
    /// The settings of the whole job.
    pub options: Options,
    /// The key that authenticates every packet of this job.
    pub secret: [u8; 16],
    /// The node of each rank.
    pub node_of: Vec<u32>,
    /// The host of each node; none if one machine plays all of them.
    pub hosts: Vec<String>,
    /// How many processors the ranks of each node may use together; none if each node decides by
    /// itself.
    pub cores_of: Vec<u32>,
}

impl fmt::Debug for JobPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The secret must not get into a log.
        let JobPlan { options, secret: _, node_of, hosts, cores_of } = self;
        f.debug_struct("JobPlan")
            .field("options", options)
            .field("node_of", node_of)
            .field("hosts", hosts)
            .field("cores_of", cores_of)
            .finish_non_exhaustive()
    }
}

impl JobPlan {
    /// Returns the job's topology: which node, rack, … each rank is on.
    pub fn topology(&self) -> Result<Topology> {
        let ranks = self.node_of.len() as u32;
        match &self.options.topology {
            Some(description) => Topology::parse(description, ranks),
            None => Topology::from_levels(ranks, vec![("node".into(), self.node_of.clone())]),
        }
    }

    /// Returns how many ranks a node has.
    pub fn ranks_of(&self, node: Node) -> u32 {
        self.node_of.iter().filter(|&&other| other == node.0).count() as u32
    }

    /// Returns the ranks that share memory with one, the first of which makes it.
    pub(crate) fn neighbours(&self, of: Rank) -> Vec<Rank> {
        let is_one_node = self.options.fabric == Kind::Shm;
        let node = |rank: usize| if is_one_node { Some(&0) } else { self.node_of.get(rank) };
        let all = 0..self.node_of.len();
        all.filter(|&rank| node(rank) == node(of.index())).map(|rank| Rank(rank as u32)).collect()
    }

    pub(crate) fn options_of(&self, node: Node) -> Options {
        let cores = match self.cores_of.get(node.0 as usize) {
            Some(&cores) => Some(cores.min(quota())),
            None => self.options.cores,
        };
        Options { cores, ..self.options.clone() }
    }

    /// Returns the plan as text. Refuses a setting that is not one line.
    pub fn encode(&self) -> Result<String> {
        let mut lines = Lines::default();
        self.options.write(&mut lines);
        lines.push("secret", hex(&self.secret));
        lines.push("node-of", runs(&self.node_of));
        lines.push_each("host", &self.hosts);
        lines.push("cores-of", runs(&self.cores_of));
        lines.encode()
    }

    /// Reads what [`JobPlan::encode`] wrote.
    pub fn decode(text: &str) -> Result<JobPlan> {
        let lines = LineReader::new(text, damaged);
        let plan = JobPlan {
            options: Options::read(lines)?,
            secret: lines.read("secret", |digits| from_hex(digits)?.try_into().ok())?,
            node_of: lines.read("node-of", from_runs)?,
            hosts: lines.all("host").map(str::to_owned).collect(),
            cores_of: lines.read("cores-of", from_runs)?,
        };
        if plan.node_of.len() != plan.options.ranks as usize {
            return Err(damaged("ranks"));
        }
        Ok(plan)
    }
}

fn damaged(text: &str) -> Error {
    Error::Join(format!("the plan of the job is damaged: {text:?}"))
}

/// What the environment asks of a job under another launcher, beyond its [`Options`].
struct Wishes {
    fabric: Option<Kind>,
    nodes: Option<u32>,
    server: Option<String>,
    peer_timeout: Option<Duration>,
}

impl Wishes {
    fn read(ranks: u32, environment: &dyn Fn(&str) -> Option<String>) -> Result<Wishes> {
        let nodes = read_variable(
            environment,
            NODES,
            &format!("a number of nodes, 1 to the {ranks} ranks"),
            |text| text.parse::<u32>().ok().filter(|&nodes| nodes > 0 && nodes <= ranks),
        )?;
        let is_set = |name: &&str| environment(name).is_some();
        let name = [PEER_TIMEOUT, PATIENCE].into_iter().find(is_set).unwrap_or(PEER_TIMEOUT);
        let peer_timeout = read_variable(environment, name, "a number of seconds", |text| {
            let seconds = text
                .parse::<f64>()
                .ok()
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            seconds.filter(|timeout| !timeout.is_zero())
        })?;
        let server = environment(SERVER);
        server.as_deref().map(crate::check_server).transpose()?;
        let fabric = environment(FABRIC).as_deref().map(Kind::of_variable).transpose()?;
        Ok(Wishes { fabric, nodes, server, peer_timeout })
    }

    fn fabric(&self, machines: usize) -> Result<Kind> {
        let is_one_node = machines == 1 && self.nodes.is_none();
        let default = if is_one_node { Kind::Shm } else { Kind::Nic };
        let fabric = self.fabric.unwrap_or(default);
        if fabric == Kind::Shm && !is_one_node {
            return Err(Error::InvalidSetting(format!(
                "{FABRIC}=shm connects the ranks of one node only: use nic or ofi for several"
            )));
        }
        Ok(fabric)
    }
}

impl JobPlan {
    /// Decides from the ranks' cards and from what the environment says.
    pub(crate) fn decide(
        cards: &[Card],
        secret: [u8; 16],
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<JobPlan> {
        let ranks = cards.len() as u32;
        let mut options = Options::new(ranks)?;
        let wishes = Wishes::read(ranks, environment)?;
        let Machines { count: machines, machine_of } = Machines::of(cards);
        let is_alone = machines == 1;
        if !is_alone && (wishes.nodes.is_some() || options.topology.is_some()) {
            let name = if wishes.nodes.is_some() { NODES } else { TOPOLOGY };
            return Err(Error::InvalidSetting(format!(
                "{name} works on one machine only, but this job spans {machines}: unset it"
            )));
        }
        options.fabric = wishes.fabric(machines)?;
        let node_of = if is_alone && options.fabric != Kind::Shm {
            divide(ranks, options.topology.as_deref(), wishes.nodes)?
        } else {
            machine_of
        };
        let nodes = node_of.iter().max().map_or(1, |last| last + 1);
        let first_of = |node: u32| node_of.iter().position(|&other| other == node).unwrap_or(0);
        let hosts = if is_alone {
            Vec::new()
        } else {
            (0..nodes).map(|node| cards[first_of(node)].host.clone()).collect()
        };
        let cores_of = (0..nodes).map(|node| {
            let is_here = |rank: usize| is_alone || node_of[rank] == node;
            let here = (0..cards.len()).filter(|&rank| is_here(rank));
            let processors: BTreeSet<u32> =
                here.flat_map(|rank| farside_shm::list(&cards[rank].processors)).collect();
            let shared_by = if is_alone { nodes } else { 1 };
            options.cores.unwrap_or((processors.len() as u32 / shared_by).max(1))
        });
        let cores_of = cores_of.collect();
        let Wishes { server, peer_timeout, .. } = wishes;
        let options = Options { server, peer_timeout, ..options };
        Ok(JobPlan { options, secret, node_of, hosts, cores_of })
    }
}

fn read_variable<T>(
    environment: &dyn Fn(&str) -> Option<String>,
    name: &str,
    expected: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>> {
    let Some(text) = environment(name) else { return Ok(None) };
    let bad = || Error::InvalidSetting(format!("{name}={text:?}: expected {expected}"));
    parse(&text).ok_or_else(bad).map(Some)
}

struct Machines {
    count: usize,
    machine_of: Vec<u32>,
}

impl Machines {
    fn of(cards: &[Card]) -> Machines {
        let mut machines: Vec<&str> = Vec::new();
        let mut machine_of: Vec<u32> = Vec::new();
        for card in cards {
            let known = machines.iter().position(|machine| *machine == card.machine);
            machine_of.push(known.unwrap_or(machines.len()) as u32);
            if known.is_none() {
                machines.push(&card.machine);
            }
        }
        Machines { count: machines.len(), machine_of }
    }
}

/// Returns the node of each rank of a machine that plays several.
fn divide(ranks: u32, topology: Option<&str>, nodes: Option<u32>) -> Result<Vec<u32>> {
    let even = format!("node:{}", nodes.unwrap_or(1));
    let topology = Topology::parse(topology.unwrap_or(&even), ranks)?;
    if let Some(nodes) = nodes.filter(|&nodes| nodes != topology.nodes()) {
        return Err(Error::InvalidSetting(format!(
            "{NODES} is {nodes}, but the number of nodes in {TOPOLOGY} is {}: unset one of them",
            topology.nodes()
        )));
    }
    Ok((0..ranks).map(|rank| topology.node_of(Rank(rank)).0).collect())
}

/// Returns how many processors a quota leaves to this process, if that is fewer than it may run on.
fn quota() -> u32 {
    let allowed = farside_shm::list(&Card::here().processors).len() as u32;
    let usable = farside_shm::cores();
    if usable < allowed { usable } else { u32::MAX }
}

/// Writes numbers with repetitions as factors: `0*4 1*4`.
fn runs(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|a, b| a == b).map(|run| format!("{}*{}", run[0], run.len()));
    runs.collect::<Vec<String>>().join(" ")
}

fn from_runs(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for run in text.split(' ').filter(|run| !run.is_empty()) {
        let (number, count) = run.split_once('*')?;
        let room = Link::RANKS_MAX as usize - numbers.len();
        let count = count.parse::<usize>().ok().filter(|&count| count <= room)?;
        numbers.extend(std::iter::repeat_n(number.parse::<u32>().ok()?, count));
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    fn cards(machines: &[&str]) -> Vec<Card> {
        let card = |machine: &&str| Card {
            machine: (*machine).into(),
            host: format!("host-{machine}"),
            processors: "0-3".into(),
        };
        machines.iter().map(card).collect()
    }

    fn plan(machines: &[&str], variables: &[(&str, &str)]) -> Result<JobPlan> {
        let environment = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        JobPlan::decide(&cards(machines), [7; 16], &environment)
    }

    #[test]
    fn a_plan_does_not_show_its_secret() {
        let plan = plan(&["a"], &[]).unwrap();
        let shown = format!("{plan:?}");
        assert!(shown.contains("node_of") && !shown.contains("secret"), "{shown}");
        assert!(!shown.contains("7, 7"), "{shown}");
    }

    #[test]
    fn ranks_of_one_machine_share_its_memory() {
        let plan = plan(&["a", "a", "a"], &[]).unwrap();
        assert_eq!((plan.options.fabric, plan.node_of.clone()), (Kind::Shm, vec![0; 3]));
        assert_eq!(plan.neighbours(Rank(1)), [Rank(0), Rank(1), Rank(2)]);
        assert_eq!(plan.cores_of, [4]);
    }

    #[test]
    fn ranks_of_several_machines_are_nodes_however_they_are_numbered() {
        let plan = plan(&["a", "b", "a", "b"], &[]).unwrap();
        assert_eq!((plan.options.fabric, plan.node_of.clone()), (Kind::Nic, vec![0, 1, 0, 1]));
        assert_eq!(plan.hosts, ["host-a", "host-b"]);
        assert_eq!(plan.neighbours(Rank(3)), [Rank(1), Rank(3)]);
        assert_eq!(plan.topology().unwrap().nodes(), 2);
    }

    #[test]
    fn one_machine_plays_several_nodes() {
        let plan = plan(&["a"; 4], &[(NODES, "2")]).unwrap();
        assert_eq!(
            (plan.options.fabric, plan.node_of.clone(), plan.hosts.clone()),
            (Kind::Nic, vec![0, 0, 1, 1], vec![])
        );
        assert_eq!(plan.cores_of, [2, 2], "they share its processors");
    }

    #[test]
    fn a_plan_survives_its_way_over_the_board() {
        let variables =
            [(NODES, "3"), (SERVER, "nic-block"), (PEER_TIMEOUT, "1.5"), (PATIENCE, "3")];
        let plan = plan(&["a"; 8], &variables).unwrap();
        assert_eq!(plan.options.peer_timeout, Some(Duration::from_millis(1500)));
        assert_eq!(JobPlan::decode(&plan.encode().unwrap()), Ok(plan));
        assert!(JobPlan::decode("nonsense").is_err());
        assert!(JobPlan::decode("secret 00").is_err());
    }

    #[test]
    fn a_plan_of_too_many_ranks_is_read_for_the_host_to_refuse() {
        let many = vec![0; 100_000];
        assert_eq!(from_runs(&runs(&many)), Some(many));
        assert_eq!(from_runs("0*16777216 1*1"), None, "a text of a few letters fills no memory");
    }

    /// A line of text, and now and then several.
    fn text() -> impl Strategy<Value = String> {
        prop_oneof![9 => "[^\n\0]{0,12}", 1 => any::<String>()]
    }

    fn options() -> impl Strategy<Value = Options> {
        let fabric = prop_oneof![Just(Kind::Shm), Just(Kind::Nic), Just(Kind::Ofi)];
        let texts = (option::of(text()), option::of(text()), option::of(text()));
        let numbers = (any::<Option<u64>>(), any::<Option<u32>>(), any::<Option<u32>>());
        let rest = (any::<Option<Duration>>(), any::<bool>());
        (fabric, texts, numbers, rest).prop_map(
            |(fabric, (topology, server, provider), (memory, cores, nodes), rest)| {
                let (peer_timeout, is_recorded) = rest;
                let ranks = 0;
                Options {
                    ranks,
                    fabric,
                    topology,
                    memory,
                    cores,
                    nodes,
                    server,
                    provider,
                    peer_timeout,
                    is_recorded,
                }
            },
        )
    }

    fn plans() -> impl Strategy<Value = JobPlan> {
        let lists = (vec(0..5u32, 0..40), vec(text(), 0..4), vec(any::<u32>(), 0..4));
        (options(), any::<[u8; 16]>(), lists).prop_map(
            |(options, secret, (node_of, hosts, cores_of))| {
                let options = Options { ranks: node_of.len() as u32, ..options };
                JobPlan { options, secret, node_of, hosts, cores_of }
            },
        )
    }

    proptest! {
        #[test]
        fn every_plan_is_read_as_it_was_written(plan in plans()) {
            let texts = [&plan.options.topology, &plan.options.server, &plan.options.provider];
            let mut texts = texts.into_iter().flatten().chain(&plan.hosts);
            match plan.encode() {
                Ok(text) => prop_assert_eq!(JobPlan::decode(&text), Ok(plan.clone())),
                Err(_) => prop_assert!(texts.any(|text| text.contains(['\n', '\0']))),
            }
        }

        #[test]
        fn no_text_is_too_strange_to_be_read(
            plan in plans(), cut in any::<prop::sample::Index>(), text in any::<String>(),
        ) {
            let _ = JobPlan::decode(&text);
            if let Ok(good) = plan.encode() {
                let at = cut.index(good.len());
                let _ = good.get(..at).map(JobPlan::decode);
            }
        }
    }

    #[test]
    fn wishes_that_do_not_go_together_are_named() {
        let refused = |machines: &[&str], name: &str, value: &str| {
            plan(machines, &[(name, value)]).unwrap_err().to_string()
        };
        assert!(refused(&["a", "b"], FABRIC, "shm").contains("FARSIDE_FABRIC=shm"));
        assert!(refused(&["a", "b"], NODES, "2").contains("spans 2"));
        assert!(refused(&["a", "a"], NODES, "3").contains("\"3\""));
        assert!(refused(&["a", "a"], PEER_TIMEOUT, "0").contains(PEER_TIMEOUT));
        assert!(refused(&["a", "a"], PATIENCE, "0").contains(PATIENCE));
        assert!(refused(&["a", "a"], PEER_TIMEOUT, "x").contains(PEER_TIMEOUT));
        assert!(refused(&["a", "a"], SERVER, "butler").contains("butler"));
    }
}
