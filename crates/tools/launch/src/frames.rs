//! The messages between a launcher and the daemons of its hosts, as bytes.
//!
//! A message is its length, four bytes, the least significant first, and then what `postcard` makes
//! of it. Before its first message, a daemon says a line of text: a shell that greets its users on
//! standard output is told apart from a daemon that way, and a daemon of another version is
//! recognised.

use std::ffi::OsString;
use std::fmt;
use std::io::{ErrorKind, Read};
use std::net::IpAddr;

use farside_fabric::{ExitCause, Loss, PeerState, Rank};
use farside_inspect::Snapshot;
use farside_job::{Address, FarLoss};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::lines::Lines;
use crate::recorded::Part;

/// The beginning of a daemon's first line; its version follows.
pub(crate) const GREETING: &str = "farside-node ";
/// Changes whenever the messages do; behind the version of the program.
pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "/11");
/// No message is longer: the arguments and the environment of a program, of which the system allows
/// less, and a view of as many ranks as a host may have are the longest.
const BYTES_MAX: usize = 16 << 20;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum ToNode {
    /// The task of the daemon; comes first.
    Task(Box<Task>),
    /// The addresses of all interfaces.
    Meet(Vec<Interface>),
    Start,
    Signal(i32),
    /// Standard input for rank 0; the next piece comes when this one was taken.
    Input(Vec<u8>),
    InputEnd,
    /// Ranks of other hosts are lost.
    Lost(Vec<LostRank>),
    /// End everything, and say when it is done.
    Stop,
    /// Say what the ranks do, in an answer with this number.
    Look(u32),
    /// Say where the ranks are, for the last time: the job is about to be ended.
    Places,
    /// Say at once what the clock of this host shows; it was this late by the launcher's.
    Clock {
        sent_ns: u64,
    },
    Answer {
        connection: u32,
        answer: Vec<u8>,
    },
    /// Say which nodes are not heard there.
    Hearing,
    /// So many bytes of the ranks' output were written, or could not be.
    Printed(u64),
}

/// A message of a daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum ToLauncher {
    /// Its interface is here.
    Ready(Interface),
    /// It knows where the others are.
    Met,
    Started,
    Output {
        rank: u32,
        is_error: bool,
        line: Vec<u8>,
    },
    Ended {
        rank: u32,
        #[serde(with = "EndedText")]
        how: ExitCause,
        #[serde(with = "FateText")]
        peer_state: PeerState,
        /// The loss because of which it has ended.
        cause: Option<u64>,
    },
    /// Rank 0 has taken the last piece of its input.
    InputTaken,
    InputClosed,
    /// The interface of another node is silent.
    NodeLost(u32),
    Failed(String),
    /// Nothing of the job is left here.
    Done,
    /// All that a rank had written when it ended was passed on.
    Drained {
        rank: u32,
    },
    Seen {
        number: u32,
        seen: Box<Snapshot>,
    },
    /// What its ranks did when it heard that the job fails, before they heard it.
    Places(Box<Snapshot>),
    /// Its clock has shown this when it was asked.
    Clock {
        sent_ns: u64,
        there_ns: u64,
    },
    /// A part of what was recorded here, by its clock; comes before [`ToLauncher::Done`].
    Recorded(Box<Part>),
    Asked {
        connection: u32,
        request: Vec<u8>,
    },
    /// The interface of another node is silent, and has been from the start.
    NodeUnheard(u32),
    Unheard(Vec<u32>),
    /// The first of its ranks has joined.
    Joined,
}

/// The loss of a rank, as it travels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LostRank {
    pub(crate) rank: u32,
    #[serde(with = "EndedText")]
    pub(crate) how: ExitCause,
    /// The [`Loss`] because of which it is, as bits.
    pub(crate) cause: Option<u64>,
}

impl LostRank {
    pub(crate) fn loss(&self) -> FarLoss {
        let cause = self.cause.and_then(Loss::from_bits);
        FarLoss { rank: Rank(self.rank), how: self.how, cause }
    }
}

/// [`Address`], as it travels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Interface {
    pub(crate) ip: IpAddr,
    bytes: Vec<u8>,
}

impl From<Address> for Interface {
    fn from(address: Address) -> Interface {
        Interface { ip: address.ip(), bytes: address.bytes().to_vec() }
    }
}

impl Interface {
    pub(crate) fn address(&self) -> farside_fabric::Result<Address> {
        Address::new(self.ip, &self.bytes)
    }
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Task {
    /// The plan of the job, as [`farside_job::JobPlan::encode`] writes it.
    pub(crate) plan: String,
    pub(crate) node: u32,
    /// Its address, if the user has given one.
    pub(crate) address: Option<IpAddr>,
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Not a path, which would have to be text to travel.
    pub(crate) directory: OsString,
    /// True if rank 0 gets standard input.
    pub(crate) input: bool,
    pub(crate) lines: Lines,
    /// The variable in which ranks find where they can ask the launcher, if they can.
    pub(crate) service: Option<OsString>,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The plan has the job's secret, which must not get into a log.
        let Task { node, program, arguments, .. } = self;
        f.debug_struct("Task")
            .field("node", node)
            .field("program", program)
            .field("arguments", arguments)
            .finish_non_exhaustive()
    }
}

/// [`ExitCause`] as it travels.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ExitCause")]
enum EndedText {
    Signal(i32),
    Status(i32),
    Panicked,
    Failed,
    Left,
    Silent,
    Vanished,
}

/// [`PeerState`] as it travels.
#[derive(Serialize, Deserialize)]
#[serde(remote = "PeerState")]
enum FateText {
    Starting,
    Alive,
    Left,
    Lost(#[serde(with = "EndedText")] ExitCause),
}

/// The bytes of a message; none of one that is too long: it would end the conversation, and a
/// reader that misses it goes on.
pub(crate) fn encode(message: &impl Serialize) -> Vec<u8> {
    // Only a type that serializes with an error of its own could fail here, and none of ours does.
    let body = postcard::to_stdvec(message).unwrap_or_default();
    if body.len() > BYTES_MAX {
        return Vec::new();
    }
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.extend(body);
    bytes
}

/// Reads one message; `None` where they end.
pub(crate) fn decode<T: DeserializeOwned>(from: &mut impl Read) -> std::io::Result<Option<T>> {
    let Some(body) = read_frame(from)? else { return Ok(None) };
    let bad = |error| {
        std::io::Error::new(ErrorKind::InvalidData, format!("a message cannot be decoded: {error}"))
    };
    postcard::from_bytes(&body).map(Some).map_err(bad)
}

/// Reads a length and so many bytes; `None` where they end.
pub(crate) fn read_frame(from: &mut impl Read) -> std::io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match from.read(&mut length[..1]) {
        Ok(0) => return Ok(None),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::Interrupted => return read_frame(from),
        Err(error) => return Err(error),
    }
    from.read_exact(&mut length[1..])?;
    let length = u32::from_le_bytes(length) as usize;
    if length > BYTES_MAX {
        return Err(std::io::Error::new(
            ErrorKind::InvalidData,
            format!("a message of {length} bytes is not a farside message"),
        ));
    }
    let mut body = Vec::new();
    from.take(length as u64).read_to_end(&mut body)?;
    if body.len() < length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(body))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use farside_inspect::snapshot::{ActivityView, ContextView, Entered, Kind, PeerView, RankView};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::Launch;

    fn word() -> impl Strategy<Value = OsString> {
        vec(any::<u8>(), 0..20).prop_map(OsString::from_vec)
    }

    fn place() -> impl Strategy<Value = Interface> {
        (any::<IpAddr>(), vec(any::<u8>(), 0..40)).prop_map(|(ip, bytes)| Interface { ip, bytes })
    }

    fn how() -> impl Strategy<Value = ExitCause> {
        prop_oneof![
            any::<i32>().prop_map(ExitCause::Signal),
            any::<i32>().prop_map(ExitCause::Status),
            Just(ExitCause::Panicked),
            Just(ExitCause::Failed),
            Just(ExitCause::Left),
            Just(ExitCause::Silent),
            Just(ExitCause::Vanished),
        ]
    }

    fn peer_state() -> impl Strategy<Value = PeerState> {
        prop_oneof![
            Just(PeerState::Starting),
            Just(PeerState::Alive),
            Just(PeerState::Left),
            how().prop_map(PeerState::Lost)
        ]
    }

    fn task() -> impl Strategy<Value = Task> {
        let node = (any::<String>(), any::<u32>(), any::<Option<IpAddr>>());
        let program = (word(), vec(word(), 0..5), vec((word(), word()), 0..5), any::<bool>());
        (node, program).prop_map(|(node, program)| Task {
            plan: node.0,
            node: node.1,
            address: node.2,
            directory: program.0.clone(),
            program: program.0,
            arguments: program.1,
            environment: program.2,
            input: program.3,
            lines: Lines::of(&Launch::new("solver", 1 + u32::from(program.3)).unwrap()),
            service: program.3.then(|| "SERVICE".into()),
        })
    }

    /// All ranks of a large host wait for the others in one barrier, and have dealt with many.
    fn large_view() -> Snapshot {
        // The most that one machine may have.
        let ranks = 4096;
        let entered = Entered::new((0..ranks).map(|rank| (rank, 1 << 40)).collect());
        let peers = (0..32).map(|rank| PeerView { rank, operations: 1 << 40, bytes: 1 << 50 });
        let context = ContextView {
            is_there: true,
            since_ns: 1 << 60,
            looked_ns: 1 << 60,
            activity: Some(ActivityView {
                kind: Kind::Collective,
                name: "barrier".into(),
                segment: 1,
                number: 1 << 40,
                size: 0,
                place: "/a/path/of/some/length/to/the/main.rs:1234".into(),
                word: None,
                peers: None,
                has_limit: false,
                entered,
            }),
            peers: peers.collect(),
            ..ContextView::default()
        };
        let rank = |rank| RankView {
            rank,
            is_read: true,
            contexts: vec![context.clone(), context.clone()],
            ..RankView::default()
        };
        Snapshot { ranks: (0..ranks).map(rank).collect(), ..Snapshot::default() }
    }

    #[test]
    fn a_view_of_the_largest_host_fits_and_is_whole_again() {
        let view = large_view();
        let bytes =
            encode(&ToLauncher::Seen { number: 1, seen: Box::new(view.clone().condensed()) });
        let Ok(Some(ToLauncher::Seen { seen, .. })) = decode(&mut &bytes[..]) else {
            panic!("a view of {} ranks does not fit", view.ranks.len());
        };
        assert_eq!(Snapshot::merge(vec![*seen]), view);
    }

    #[test]
    fn what_its_reader_would_refuse_is_not_sent() {
        let line = vec![0; BYTES_MAX];
        let bytes = encode(&ToLauncher::Output { rank: 0, is_error: false, line });
        assert!(bytes.is_empty());
    }

    #[test]
    fn a_task_does_not_show_the_plan() {
        let task = Task {
            plan: "secret 0707".into(),
            node: 3,
            address: None,
            directory: "/".into(),
            program: "solver".into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            input: false,
            lines: Lines::of(&Launch::new("solver", 1).unwrap()),
            service: None,
        };
        let shown = format!("{:?}", ToNode::Task(Box::new(task)));
        assert!(shown.contains("solver") && !shown.contains("0707"), "{shown}");
    }

    fn lost() -> impl Strategy<Value = LostRank> {
        (any::<u32>(), how(), any::<Option<u64>>()).prop_map(|(rank, how, cause)| LostRank {
            rank,
            how,
            cause,
        })
    }

    fn to_node() -> impl Strategy<Value = ToNode> {
        prop_oneof![
            task().prop_map(|task| ToNode::Task(Box::new(task))),
            vec(place(), 0..5).prop_map(ToNode::Meet),
            Just(ToNode::Start),
            any::<i32>().prop_map(ToNode::Signal),
            vec(any::<u8>(), 0..100).prop_map(ToNode::Input),
            Just(ToNode::InputEnd),
            vec(lost(), 0..5).prop_map(ToNode::Lost),
            any::<u32>().prop_map(ToNode::Look),
            Just(ToNode::Stop),
            Just(ToNode::Hearing),
            any::<u64>().prop_map(ToNode::Printed),
            any::<u64>().prop_map(|sent_ns| ToNode::Clock { sent_ns }),
            (any::<u32>(), vec(any::<u8>(), 0..100))
                .prop_map(|(connection, answer)| ToNode::Answer { connection, answer }),
        ]
    }

    fn to_launcher() -> impl Strategy<Value = ToLauncher> {
        prop_oneof![
            place().prop_map(ToLauncher::Ready),
            Just(ToLauncher::Met),
            Just(ToLauncher::Started),
            (any::<u32>(), any::<bool>(), vec(any::<u8>(), 0..100))
                .prop_map(|(rank, is_error, line)| ToLauncher::Output { rank, is_error, line }),
            (any::<u32>(), how(), peer_state(), any::<Option<u64>>()).prop_map(
                |(rank, how, peer_state, cause)| ToLauncher::Ended { rank, how, peer_state, cause }
            ),
            Just(ToLauncher::InputTaken),
            Just(ToLauncher::Joined),
            Just(ToLauncher::InputClosed),
            any::<u32>().prop_map(ToLauncher::NodeLost),
            any::<u32>().prop_map(ToLauncher::NodeUnheard),
            vec(any::<u32>(), 0..5).prop_map(ToLauncher::Unheard),
            any::<String>().prop_map(ToLauncher::Failed),
            Just(ToLauncher::Done),
            any::<u32>().prop_map(|rank| ToLauncher::Drained { rank }),
            any::<(u64, u64)>()
                .prop_map(|(sent_ns, there_ns)| ToLauncher::Clock { sent_ns, there_ns }),
            (any::<u32>(), vec(any::<u8>(), 0..100))
                .prop_map(|(connection, request)| ToLauncher::Asked { connection, request }),
        ]
    }

    /// Reads as if the bytes came one by one.
    struct Drop<'a>(&'a [u8]);

    impl Read for Drop<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let one = into.len().min(1);
            self.0.read(&mut into[..one])
        }
    }

    proptest! {
        #[test]
        fn messages_survive_the_channel(
            down in vec(to_node(), 0..5), up in vec(to_launcher(), 0..5),
        ) {
            let bytes: Vec<u8> = down.iter().flat_map(encode).collect();
            let mut from = Drop(&bytes);
            for message in down {
                prop_assert_eq!(decode::<ToNode>(&mut from).unwrap(), Some(message));
            }
            prop_assert_eq!(decode::<ToNode>(&mut from).unwrap(), None);
            let bytes: Vec<u8> = up.iter().flat_map(encode).collect();
            let mut from = bytes.as_slice();
            for message in up {
                prop_assert_eq!(decode::<ToLauncher>(&mut from).unwrap(), Some(message));
            }
            prop_assert_eq!(decode::<ToLauncher>(&mut from).unwrap(), None);
        }

        #[test]
        fn no_bytes_are_too_strange_to_be_read(bytes in vec(any::<u8>(), 0..200)) {
            let framed = [&(bytes.len() as u32).to_le_bytes()[..], &bytes].concat();
            for stream in [&bytes, &framed] {
                let (mut down, mut up) = (stream.as_slice(), stream.as_slice());
                while let Ok(Some(_)) = decode::<ToNode>(&mut down) {}
                while let Ok(Some(_)) = decode::<ToLauncher>(&mut up) {}
            }
        }

        #[test]
        fn a_message_that_breaks_off_is_an_error(
            message in to_launcher(), cut in any::<prop::sample::Index>(),
        ) {
            let bytes = encode(&message);
            let length = 1 + cut.index(bytes.len() - 1);
            let result = decode::<ToLauncher>(&mut &bytes[..length]);
            prop_assert_eq!(result.unwrap_err().kind(), ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn an_endless_message_is_refused_before_it_is_read() {
        let bytes = [0xff; 8];
        let error = decode::<ToNode>(&mut &bytes[..]).unwrap_err();
        assert!(error.to_string().contains("4294967295"), "{error}");
    }
}
