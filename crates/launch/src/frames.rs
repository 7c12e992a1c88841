//! What a launcher and the daemons of its hosts say to each other, as bytes.
//!
//! A message is its length, four bytes, the least significant first, and then what `postcard` makes of it. Before its first message, a daemon says a line
//! of text: a shell that greets its users on standard output is told apart from a daemon that way, and a daemon of another version is recognised.

use std::ffi::OsString;
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use farside::job::{NodePlan, Options};
use farside::{Ended, Fate};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What a daemon's first line begins with; its version follows.
pub(crate) const GREETING: &str = "farside-node ";
/// Changes whenever the messages do; behind the version of the program.
pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "/1");
/// No message is longer: the arguments and the environment of a program are the longest, and the system allows less.
const BYTES_MAX: usize = 16 << 20;

/// What a launcher says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum ToNode {
    /// What to do; comes first.
    Plan(Box<Plan>),
    /// Where all interfaces are.
    Meet(Vec<SocketAddr>),
    /// Start the ranks.
    Start,
    /// Send them this signal.
    Signal(i32),
    /// Standard input for rank 0; the next piece comes when this one was taken.
    Input(Vec<u8>),
    /// It has ended.
    InputEnd,
    /// A rank of another host is lost.
    Lost {
        rank: u32,
        #[serde(with = "EndedText")]
        how: Ended,
    },
    /// End everything, and say when it is done.
    Stop,
}

/// What a daemon says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum ToLauncher {
    /// Its interface is here.
    Ready(SocketAddr),
    /// It knows where the others are.
    Met,
    /// Its ranks run.
    Started,
    /// A rank has written a line.
    Output { rank: u32, is_error: bool, line: Vec<u8> },
    /// A rank has ended.
    Ended {
        rank: u32,
        #[serde(with = "EndedText")]
        how: Ended,
        #[serde(with = "FateText")]
        fate: Fate,
    },
    /// Rank 0 has taken the last piece of its input.
    InputTaken,
    /// Rank 0 reads no more.
    InputClosed,
    /// The interface of another node is silent.
    NodeLost(u32),
    /// It cannot go on, for this reason.
    Failed(String),
    /// Nothing of the job is left here.
    Done,
}

/// What a daemon is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) job: JobPlan,
    pub(crate) node: u32,
    pub(crate) ranks_of_nodes: Vec<u32>,
    pub(crate) secret: [u8; 16],
    /// What the user calls this host, and the others.
    pub(crate) hosts: Vec<String>,
    /// Its address, if the user has given one.
    pub(crate) address: Option<IpAddr>,
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) directory: PathBuf,
    /// Whether rank 0 gets standard input.
    pub(crate) input: bool,
    /// Whether a last line that lacks its end gets one.
    pub(crate) mends_lines: bool,
}

/// [`Options`], as they travel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobPlan {
    ranks: u32,
    fabric: String,
    topology: Option<String>,
    memory: Option<u64>,
    cores: Option<u32>,
    server: Option<String>,
    patience: Option<Duration>,
}

impl JobPlan {
    pub(crate) fn new(options: &Options) -> JobPlan {
        JobPlan {
            ranks: options.ranks,
            fabric: options.fabric.to_string(),
            topology: options.topology.clone(),
            memory: options.memory,
            cores: options.cores,
            server: options.server.clone(),
            patience: options.patience,
        }
    }
}

impl Plan {
    /// The part that the fabric needs, at this address of the host.
    pub(crate) fn node_plan(&self, bind: IpAddr) -> farside::Result<NodePlan> {
        let mut options = Options::new(self.job.ranks)?;
        options.fabric = self.job.fabric.parse()?;
        options.topology.clone_from(&self.job.topology);
        options.memory = self.job.memory;
        options.cores = self.job.cores;
        options.server.clone_from(&self.job.server);
        options.patience = self.job.patience;
        let (node, ranks_of_nodes, secret) = (self.node, self.ranks_of_nodes.clone(), self.secret);
        Ok(NodePlan { options, node, ranks_of_nodes, secret, bind })
    }
}

/// How [`Ended`] travels.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Ended")]
enum EndedText {
    Signal(i32),
    Status(i32),
    Panicked,
    Failed,
    Left,
    Silent,
}

/// How [`Fate`] travels.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Fate")]
enum FateText {
    Starting,
    Alive,
    Left,
    Lost(#[serde(with = "EndedText")] Ended),
}

/// The bytes of a message.
pub(crate) fn encode(message: &impl Serialize) -> Vec<u8> {
    // Only a type that serializes with an error of its own could fail here, and none of ours does.
    let body = postcard::to_stdvec(message).unwrap_or_default();
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.extend(body);
    bytes
}

/// Reads one message; `None` where they end.
pub(crate) fn decode<T: DeserializeOwned>(from: &mut impl Read) -> std::io::Result<Option<T>> {
    let mut length = [0; 4];
    match from.read(&mut length[..1]) {
        Ok(0) => return Ok(None),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::Interrupted => return decode(from),
        Err(error) => return Err(error),
    }
    from.read_exact(&mut length[1..])?;
    let length = u32::from_le_bytes(length) as usize;
    if length > BYTES_MAX {
        return Err(std::io::Error::new(
            ErrorKind::InvalidData,
            format!("a message of {length} bytes is none of ours"),
        ));
    }
    let mut body = Vec::new();
    from.take(length as u64).read_to_end(&mut body)?;
    if body.len() < length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let bad = |error| std::io::Error::new(ErrorKind::InvalidData, format!("a message makes no sense: {error}"));
    postcard::from_bytes(&body).map(Some).map_err(bad)
}
