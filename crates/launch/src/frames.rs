//! The messages between a launcher and the daemons of its hosts, as bytes.
//!
//! A message is its length, four bytes, the least significant first, and then what `postcard` makes
//! of it. Before its first message, a daemon says a line of text: a shell that greets its users on
//! standard output is told apart from a daemon that way, and a daemon of another version is
//! recognised.

use std::ffi::OsString;
use std::io::{ErrorKind, Read};
use std::net::IpAddr;

use farside_fabric::{ExitCause, PeerState};
use farside_job::Address;
use farside_sight::Snapshot;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::recorded::Part;

/// The beginning of a daemon's first line; its version follows.
pub(crate) const GREETING: &str = "farside-node ";
/// Changes whenever the messages do; behind the version of the program.
pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "/9");
/// No message is longer: the arguments and the environment of a program are the longest, and the
/// system allows less.
const BYTES_MAX: usize = 16 << 20;

/// A message of the launcher.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum ToNode {
    /// The task of the daemon; comes first.
    Task(Box<Task>),
    /// The addresses of all interfaces.
    Meet(Vec<Interface>),
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
        how: ExitCause,
        /// The [`farside_fabric::Loss`] because of which it is, as bits.
        cause: Option<u64>,
    },
    /// End everything, and say when it is done.
    Stop,
    /// Say what the ranks do.
    Look,
    /// Say where the ranks are, for the last time: the job is about to be ended.
    Places,
    /// Say at once what the clock of this host shows; it was this late by the launcher's.
    Clock { sent_ns: u64 },
    /// The answer to a request of a rank.
    Answer { connection: u32, answer: Vec<u8> },
    /// Say which nodes are not heard there.
    Hearing,
}

/// A message of a daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum ToLauncher {
    /// Its interface is here.
    Ready(Interface),
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
        how: ExitCause,
        #[serde(with = "FateText")]
        peer_state: PeerState,
        /// The loss because of which it has ended.
        cause: Option<u64>,
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
    /// All that a rank had written when it ended was passed on.
    Drained { rank: u32 },
    /// What its ranks do.
    Seen(Box<Snapshot>),
    /// What its ranks did when it heard that the job fails, before they heard it.
    Places(Box<Snapshot>),
    /// Its clock has shown this when it was asked.
    Clock { sent_ns: u64, there_ns: u64 },
    /// A part of what was recorded here, by its clock; comes before [`ToLauncher::Done`].
    Recorded(Box<Part>),
    /// A rank asks the launcher, over one of its host's connections.
    Asked { connection: u32, request: Vec<u8> },
    /// The interface of another node is silent, and has been from the start.
    NodeUnheard(u32),
    /// These nodes are not heard here, at the moment.
    Unheard(Vec<u32>),
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

/// The task of a daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Task {
    /// The plan of the job, as [`farside_job::JobPlan::encode`] writes it.
    pub(crate) plan: String,
    /// Which of the nodes is this daemon's.
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
    /// True if a last line that lacks its end gets one.
    pub(crate) mends_lines: bool,
    /// The variable in which ranks find where they can ask the launcher, if they can.
    pub(crate) service: Option<OsString>,
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
    let Some(body) = read_frame(from)? else { return Ok(None) };
    let bad = |error| {
        std::io::Error::new(ErrorKind::InvalidData, format!("a message makes no sense: {error}"))
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
            format!("a message of {length} bytes is none of ours"),
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

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

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
            mends_lines: !program.3,
            service: program.3.then(|| "SERVICE".into()),
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
            (any::<u32>(), how(), any::<Option<u64>>())
                .prop_map(|(rank, how, cause)| ToNode::Lost { rank, how, cause }),
            Just(ToNode::Stop),
            Just(ToNode::Hearing),
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
