//! What a job under somebody else's launcher is to be like. Its first rank reads where all of them
//! are, decides, and tells the others.

use std::collections::BTreeSet;
use std::time::Duration;

use farside_fabric::{Error, Rank, Result, Topology};

use crate::{FABRIC, Kind, NODES, Options, PATIENCE, PEER_TIMEOUT, SERVER, TOPOLOGY};

/// Where a rank is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Card {
    /// What all processes have in common that can share memory and hear of each other's ends, and
    /// no others.
    pub(crate) machine: String,
    /// What people call it.
    pub(crate) host: String,
    /// The processors that this process may use, as the system lists them: launchers bind processes
    /// to some.
    pub(crate) processors: String,
}

impl Card {
    /// This process's.
    pub(crate) fn here() -> Card {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let namespace = |kind: &str| {
            let link = std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap_or_default();
            link.to_string_lossy().into_owned()
        };
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let boot = read("/proc/sys/kernel/random/boot_id");
        // A file is handed over in one network, and a process is watched in one space of numbers.
        let machine = format!("{boot} {} {}", namespace("net"), namespace("pid"));
        let machine = if boot.is_empty() { host.clone() } else { machine };
        let status = read("/proc/self/status");
        let processors = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
            .unwrap_or_default();
        Card { machine, host, processors: processors.trim().to_owned() }
    }

    pub(crate) fn encode(&self) -> String {
        format!("{}\n{}\n{}", self.machine, self.host, self.processors)
    }

    pub(crate) fn decode(text: &str) -> Result<Card> {
        match text.split('\n').collect::<Vec<&str>>().as_slice() {
            [machine, host, processors] => Ok(Card {
                machine: (*machine).into(),
                host: (*host).into(),
                processors: (*processors).into(),
            }),
            _ => Err(Error::Join(format!(
                "a rank says where it is in words that are not understood: {text:?}"
            ))),
        }
    }
}

/// What all ranks must agree on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    pub(crate) secret: [u8; 16],
    pub(crate) topology: Option<String>,
    pub(crate) memory: Option<u64>,
    pub(crate) server: Option<String>,
    pub(crate) provider: Option<String>,
    pub(crate) peer_timeout: Option<Duration>,
    /// The node of each rank.
    pub(crate) node_of: Vec<u32>,
    /// The host of each node; none if one machine plays all of them.
    pub(crate) hosts: Vec<String>,
    /// How many processors the ranks of each node may use together.
    pub(crate) cores: Vec<u32>,
}

impl Plan {
    /// Decides from where the ranks are and from what the environment says.
    pub(crate) fn make(
        cards: &[Card],
        secret: [u8; 16],
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Plan> {
        let ranks = cards.len() as u32;
        let options = Options::new(ranks)?;
        let split = read_variable(
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
        let (machines, mut node_of) = machines(cards);
        let is_alone = machines == 1;
        if !is_alone && (split.is_some() || options.topology.is_some()) {
            let name = if split.is_some() { NODES } else { TOPOLOGY };
            return Err(Error::InvalidSetting(format!(
                "{name} is for one machine, but this job spans {machines}"
            )));
        }
        let kind = match environment(FABRIC) {
            Some(name) => name.parse()?,
            None if is_alone && split.is_none() => Kind::Shm,
            None => Kind::Nic,
        };
        if kind == Kind::Shm && (!is_alone || split.is_some()) {
            return Err(Error::InvalidSetting(format!(
                "{FABRIC}=shm is for one node; ranks of several reach each other over nic"
            )));
        }
        if is_alone && kind != Kind::Shm {
            node_of = divide(ranks, options.topology.as_deref(), split)?;
        }
        let nodes = node_of.iter().max().map_or(1, |last| last + 1);
        let first_of = |node: u32| node_of.iter().position(|&other| other == node).unwrap_or(0);
        let hosts = if is_alone {
            Vec::new()
        } else {
            (0..nodes).map(|node| cards[first_of(node)].host.clone()).collect()
        };
        let cores = (0..nodes).map(|node| {
            let is_here = |rank: usize| is_alone || node_of[rank] == node;
            let here = (0..cards.len()).filter(|&rank| is_here(rank));
            let processors: BTreeSet<u32> =
                here.flat_map(|rank| farside_shm::list(&cards[rank].processors)).collect();
            let shared_by = if is_alone { nodes } else { 1 };
            options.cores.unwrap_or((processors.len() as u32 / shared_by).max(1))
        });
        let cores = cores.collect();
        let Options { topology, memory, provider, .. } = options;
        Ok(Plan {
            kind,
            secret,
            topology,
            memory,
            server,
            provider,
            peer_timeout,
            cores,
            hosts,
            node_of,
        })
    }

    /// Who is where.
    pub(crate) fn topology(&self) -> Result<Topology> {
        let ranks = self.node_of.len() as u32;
        match &self.topology {
            Some(description) => Topology::parse(description, ranks),
            None => Topology::from_levels(ranks, vec![("node".into(), self.node_of.clone())]),
        }
    }

    /// The ranks that share memory with one, the first of which makes it.
    pub(crate) fn neighbours(&self, of: Rank) -> Vec<Rank> {
        let node =
            |rank: usize| if self.kind == Kind::Shm { Some(&0) } else { self.node_of.get(rank) };
        let all = 0..self.node_of.len();
        all.filter(|&rank| node(rank) == node(of.index())).map(|rank| Rank(rank as u32)).collect()
    }

    /// What a node's memory is made with.
    pub(crate) fn options(&self, node: u32) -> Options {
        Options {
            ranks: self.node_of.len() as u32,
            fabric: self.kind,
            topology: self.topology.clone(),
            memory: self.memory,
            cores: Some(self.cores.get(node as usize).copied().unwrap_or(1).min(quota())),
            nodes: None,
            server: self.server.clone(),
            provider: self.provider.clone(),
            peer_timeout: self.peer_timeout,
        }
    }

    pub(crate) fn encode(&self) -> String {
        let mut lines = vec![format!("kind {}", self.kind)];
        lines.push(format!(
            "secret {}",
            self.secret.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        ));
        lines.extend(self.topology.iter().map(|topology| format!("topology {topology}")));
        lines.extend(self.memory.iter().map(|memory| format!("memory {memory}")));
        lines.extend(self.server.iter().map(|server| format!("server {server}")));
        lines.extend(self.provider.iter().map(|provider| format!("provider {provider}")));
        lines.extend(
            self.peer_timeout.iter().map(|timeout| format!("patience {}", timeout.as_millis())),
        );
        lines.push(format!("nodes {}", runs(&self.node_of)));
        lines.extend(self.hosts.iter().map(|host| format!("host {host}")));
        lines.push(format!("cores {}", runs(&self.cores)));
        lines.join("\n")
    }

    pub(crate) fn decode(text: &str) -> Result<Plan> {
        let damaged = |what: &str| Error::Join(format!("the plan of the job is damaged: {what:?}"));
        let mut plan = Plan {
            kind: Kind::Shm,
            secret: [0; 16],
            topology: None,
            memory: None,
            server: None,
            provider: None,
            peer_timeout: None,
            node_of: Vec::new(),
            hosts: Vec::new(),
            cores: Vec::new(),
        };
        for line in text.lines() {
            let (name, value) = line.split_once(' ').ok_or_else(|| damaged(line))?;
            let number = || value.parse::<u64>().map_err(|_| damaged(line));
            match name {
                "kind" => plan.kind = value.parse()?,
                "secret" => {
                    for (at, byte) in plan.secret.iter_mut().enumerate() {
                        let pair = value.get(2 * at..2 * at + 2).ok_or_else(|| damaged(line))?;
                        *byte = u8::from_str_radix(pair, 16).map_err(|_| damaged(line))?;
                    }
                }
                "topology" => plan.topology = Some(value.to_owned()),
                "memory" => plan.memory = Some(number()?),
                "server" => plan.server = Some(value.to_owned()),
                "provider" => plan.provider = Some(value.to_owned()),
                "patience" => plan.peer_timeout = Some(Duration::from_millis(number()?)),
                "nodes" => plan.node_of = from_runs(value).ok_or_else(|| damaged(line))?,
                "host" => plan.hosts.push(value.to_owned()),
                "cores" => plan.cores = from_runs(value).ok_or_else(|| damaged(line))?,
                _ => return Err(damaged(line)),
            }
        }
        Ok(plan)
    }
}

/// Reads the value of a variable, if it is set.
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

/// How many machines there are, and on which of them each rank is.
fn machines(cards: &[Card]) -> (usize, Vec<u32>) {
    let mut machines: Vec<&str> = Vec::new();
    let mut machine_of: Vec<u32> = Vec::new();
    for card in cards {
        let known = machines.iter().position(|machine| *machine == card.machine);
        machine_of.push(known.unwrap_or(machines.len()) as u32);
        if known.is_none() {
            machines.push(&card.machine);
        }
    }
    (machines.len(), machine_of)
}

/// The node of each rank of a machine that plays several.
fn divide(ranks: u32, topology: Option<&str>, nodes: Option<u32>) -> Result<Vec<u32>> {
    let even = format!("node:{}", nodes.unwrap_or(1));
    let topology = Topology::parse(topology.unwrap_or(&even), ranks)?;
    if nodes.is_some_and(|nodes| nodes != topology.nodes()) {
        return Err(Error::InvalidSetting(format!(
            "{NODES} and {TOPOLOGY} disagree on the number of nodes"
        )));
    }
    Ok((0..ranks).map(|rank| topology.node_of(Rank(rank)).0).collect())
}

/// How many processors a quota leaves to this process, if that is fewer than it may run on.
fn quota() -> u32 {
    let allowed = farside_shm::list(&Card::here().processors).len() as u32;
    let usable = farside_shm::cores();
    if usable < allowed { usable } else { u32::MAX }
}

/// Numbers with repetitions as factors: `0*4 1*4`.
fn runs(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|a, b| a == b).map(|run| format!("{}*{}", run[0], run.len()));
    runs.collect::<Vec<String>>().join(" ")
}

fn from_runs(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for run in text.split(' ') {
        let (number, count) = run.split_once('*')?;
        let count = count
            .parse::<usize>()
            .ok()
            .filter(|&count| count <= farside_shm::RANKS_MAX as usize)?;
        numbers.extend(std::iter::repeat_n(number.parse::<u32>().ok()?, count));
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cards(machines: &[&str]) -> Vec<Card> {
        let card = |machine: &&str| Card {
            machine: (*machine).into(),
            host: format!("host-{machine}"),
            processors: "0-3".into(),
        };
        machines.iter().map(card).collect()
    }

    fn plan(machines: &[&str], variables: &[(&str, &str)]) -> Result<Plan> {
        let environment = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Plan::make(&cards(machines), [7; 16], &environment)
    }

    #[test]
    fn ranks_of_one_machine_share_its_memory() {
        let plan = plan(&["a", "a", "a"], &[]).unwrap();
        assert_eq!((plan.kind, plan.node_of.clone()), (Kind::Shm, vec![0; 3]));
        assert_eq!(plan.neighbours(Rank(1)), [Rank(0), Rank(1), Rank(2)]);
        assert_eq!(plan.cores, [4]);
    }

    #[test]
    fn ranks_of_several_machines_are_nodes_however_they_are_numbered() {
        let plan = plan(&["a", "b", "a", "b"], &[]).unwrap();
        assert_eq!((plan.kind, plan.node_of.clone()), (Kind::Nic, vec![0, 1, 0, 1]));
        assert_eq!(plan.hosts, ["host-a", "host-b"]);
        assert_eq!(plan.neighbours(Rank(3)), [Rank(1), Rank(3)]);
        assert_eq!(plan.topology().unwrap().nodes(), 2);
    }

    #[test]
    fn one_machine_plays_several_nodes() {
        let plan = plan(&["a"; 4], &[(NODES, "2")]).unwrap();
        assert_eq!(
            (plan.kind, plan.node_of.clone(), plan.hosts.clone()),
            (Kind::Nic, vec![0, 0, 1, 1], vec![])
        );
        assert_eq!(plan.cores, [2, 2], "they share its processors");
    }

    #[test]
    fn a_plan_survives_its_way_over_the_board() {
        let variables =
            [(NODES, "3"), (SERVER, "nic-block"), (PEER_TIMEOUT, "1.5"), (PATIENCE, "3")];
        let plan = plan(&["a"; 8], &variables).unwrap();
        assert_eq!(plan.peer_timeout, Some(Duration::from_millis(1500)));
        assert_eq!(Plan::decode(&plan.encode()), Ok(plan));
        assert!(Plan::decode("nonsense").is_err());
        assert!(Plan::decode("secret 00").is_err());
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

    #[test]
    fn a_card_says_where_this_process_is() {
        let card = Card::here();
        assert_eq!(Card::decode(&card.encode()), Ok(card.clone()));
        assert!(!card.machine.is_empty() && !card.processors.is_empty(), "{card:?}");
    }
}
