//! The hosts of a job, and the commands that reach them.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use farside_fabric::text::counted;
use farside_fabric::{Error, Result};
use farside_job::{JobPlan, Options, RANKS_MAX};

use crate::Service;

/// The default command that reaches a host. It asks for no password, which would stop a process in
/// the background without a word; and it makes no connection that others share, since it ends with
/// the job.
pub const RSH: &str = "ssh -o BatchMode=yes -o ControlMaster=no {host}";
const HOST: &str = "{host}";
/// The word that starts a daemon.
const NODE: &str = "__node";

/// The hosts of a job, in the order of their nodes.
///
/// ```
/// use farside_launch::Hosts;
///
/// let hosts = Hosts::parse("a:4,b=10.0.0.2:4", None)?;
/// assert_eq!(hosts.ranks(), 8);
/// # Ok::<(), farside_fabric::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Hosts {
    pub(crate) entries: Vec<Entry>,
    rsh: Vec<String>,
    program: Option<PathBuf>,
    pub(crate) start_timeout: Duration,
    pub(crate) service: Option<Service>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The name that is put into the template.
    pub(crate) name: String,
    /// The address under which the other hosts reach it, if one was given.
    pub(crate) address: Option<IpAddr>,
    pub(crate) ranks: u32,
}

impl Hosts {
    /// Reads a list such as `a:4,b:4` or `a=10.0.0.1:4,b=[fd00::2]:4`: a name, perhaps an address,
    /// perhaps how many ranks.
    ///
    /// If `ranks` are given, hosts without a number share what is left of them as evenly as can be,
    /// the first ones getting more; otherwise such a host has one rank.
    pub fn parse(list: &str, ranks: Option<u32>) -> Result<Hosts> {
        let bad =
            |why: String| Error::InvalidSetting(format!("{list:?} is not a list of hosts: {why}"));
        let parsed: Vec<Listed> = list
            .split(',')
            .map(|item| parse_one(item.trim()))
            .collect::<Result<_, _>>()
            .map_err(bad)?;
        let given: u64 = parsed.iter().filter_map(|host| host.ranks).map(u64::from).sum();
        let open = parsed.iter().filter(|host| host.ranks.is_none()).count() as u64;
        let total = ranks.map_or(given + open, u64::from);
        if total < given + open || (open == 0 && total != given) {
            let least = if open == 0 { "" } else { "at least " };
            let listed = counted(given + open, "rank");
            return Err(Error::InvalidSetting(format!(
                "--hosts lists {least}{listed}, but -n asks for {total}"
            )));
        }
        // Before there are lists as long as the job has ranks.
        if total > u64::from(RANKS_MAX) {
            let (what, limit) = ("ranks of a job", RANKS_MAX.into());
            return Err(Error::TooMuch { what, value: total, limit });
        }
        let mut shares = shares(total - given, open);
        let entries = parsed.into_iter().map(|Listed { name, address, ranks }| {
            let ranks = ranks.or_else(|| shares.next()).unwrap_or(1);
            Entry { name, address, ranks }
        });
        let entries = entries.collect();
        let rsh = split(RSH)?;
        let start_timeout = Duration::from_secs(30);
        Ok(Hosts { entries, rsh, program: None, start_timeout, service: None })
    }

    /// Sets the command that reaches a host: it runs another one there, and has `{host}` for its
    /// name. It is split into words as a shell does.
    pub fn rsh(mut self, template: &str) -> Result<Hosts> {
        self.rsh = split(template)?;
        Ok(self)
    }

    /// Sets the path of the `farside` program on the hosts; by default that of the running one.
    #[must_use]
    pub fn program(mut self, program: PathBuf) -> Hosts {
        self.program = Some(program);
        self
    }

    /// Sets the time that the hosts may take until all are ready.
    #[must_use]
    pub fn start_timeout(mut self, timeout: Duration) -> Hosts {
        self.start_timeout = timeout;
        self
    }

    /// Has the launcher answer requests of the ranks.
    #[must_use]
    pub fn service(mut self, service: Service) -> Hosts {
        self.service = Some(service);
        self
    }

    /// Returns the number of ranks of all hosts together.
    pub fn ranks(&self) -> u32 {
        self.entries.iter().map(|entry| entry.ranks).sum()
    }

    /// Returns the plan of a job on these hosts: each is a node, and the ranks are numbered host by
    /// host.
    pub(crate) fn plan(&self, options: &Options, secret: [u8; 16]) -> JobPlan {
        let ranks = |(node, entry): (usize, &Entry)| vec![node as u32; entry.ranks as usize];
        JobPlan {
            options: Options { topology: None, nodes: None, ..options.clone() },
            secret,
            node_of: self.entries.iter().enumerate().flat_map(ranks).collect(),
            hosts: self.entries.iter().map(|entry| entry.name.clone()).collect(),
            cores_of: Vec::new(),
        }
    }

    /// Returns the name of a host in messages: where a name occurs twice, with its node.
    pub(crate) fn label(&self, node: usize) -> String {
        let name = &self.entries[node].name;
        let same = self.entries.iter().filter(|entry| entry.name == *name).count();
        if same == 1 { name.clone() } else { format!("{name} (node {node})") }
    }

    pub(crate) fn command(&self, node: usize, own: &Path) -> Vec<OsString> {
        let name = &self.entries[node].name;
        let mut words: Vec<OsString> =
            self.rsh.iter().map(|word| word.replace(HOST, name).into()).collect();
        let program = self.program.as_deref().unwrap_or(own).as_os_str();
        // Such programs join the words again and give them to a shell of the other host. Only the
        // path can need quotes: everything else travels over the channel.
        let joins =
            Path::new(&self.rsh[0]).file_name().is_some_and(|name| name == "ssh" || name == "rsh");
        words.push(if joins { quoted(program) } else { program.to_owned() });
        words.push(NODE.into());
        words
    }
}

/// So many numbers that differ by one at most and have this sum.
fn shares(total: u64, parts: u64) -> impl Iterator<Item = u32> {
    (0..parts).map(move |part| (total / parts + u64::from(part < total % parts)) as u32)
}

struct Listed {
    name: String,
    address: Option<IpAddr>,
    ranks: Option<u32>,
}

/// `NAME[=ADDRESS][:RANKS]`; an address of IPv6 stands in brackets.
fn parse_one(item: &str) -> Result<Listed, String> {
    let (place, count) = match item.rsplit_once(':') {
        // A colon inside of brackets is part of an address.
        Some((place, count)) if !count.ends_with(']') => (place, Some(count)),
        _ => (item, None),
    };
    let (name, address) = match place.split_once('=') {
        Some((name, address)) => (name, Some(address)),
        None => (place, None),
    };
    if bare(name) == name && name.contains(':') {
        return Err(format!("{item:?}: write an IPv6 address in brackets, such as [fd00::4]"));
    }
    let name = bare(name);
    let fits = |c: char| c.is_alphanumeric() || "._-@:%".contains(c);
    if name.is_empty() {
        return Err(format!(
            "{item:?} names no host; expected NAME, NAME:RANKS or NAME=ADDRESS:RANKS"
        ));
    }
    // A name that begins like an option would be one.
    if name.starts_with('-') || !name.chars().all(fits) {
        return Err(format!("{name:?} cannot be the name of a host"));
    }
    let ranks = match count {
        None => None,
        Some(count) => {
            let ranks = count.parse().ok().filter(|&ranks| ranks > 0);
            Some(ranks.ok_or_else(|| format!("{count:?} in {item:?} is not a number of ranks"))?)
        }
    };
    let address = match address {
        None => None,
        Some(address) => {
            let parsed = bare(address).parse();
            Some(parsed.map_err(|_| {
                format!("{address:?} in {item:?} is not an address such as 10.0.0.1 or [fd00::1]")
            })?)
        }
    };
    Ok(Listed { name: name.to_owned(), address, ranks })
}

fn bare(text: &str) -> &str {
    text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text)
}

fn split(template: &str) -> Result<Vec<String>> {
    let bad = |why: &str| Error::InvalidSetting(format!("--rsh {template:?}: it {why}"));
    let words =
        shlex::split(template).ok_or_else(|| bad("has a quote or a backslash without an end"))?;
    if words.is_empty() {
        return Err(bad(&format!("is empty; the default is `{RSH}`")));
    }
    if !words.iter().any(|word| word.contains(HOST)) {
        return Err(bad("must contain {host}, the place of the host's name"));
    }
    Ok(words)
}

fn quoted(program: &std::ffi::OsStr) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    match shlex::bytes::try_quote(program.as_bytes()) {
        Ok(quoted) => OsString::from_vec(quoted.into_owned()),
        // It contains a zero byte, and no program that can be started does.
        Err(_) => program.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(list: &str, ranks: Option<u32>) -> Vec<u32> {
        Hosts::parse(list, ranks).unwrap().entries.iter().map(|entry| entry.ranks).collect()
    }

    fn refusal(list: &str, ranks: Option<u32>) -> String {
        Hosts::parse(list, ranks).unwrap_err().to_string()
    }

    #[test]
    fn a_host_has_a_name_and_perhaps_an_address_and_ranks() {
        let hosts = Hosts::parse(
            "a:4, me@b.example=10.0.0.2:3,c=[fd00::2]:2,d=[fd00::3],[fd00::4]:5",
            None,
        )
        .unwrap();
        let entry = |name: &str, address: Option<&str>, ranks| Entry {
            name: name.into(),
            address: address.map(|address| address.parse().unwrap()),
            ranks,
        };
        let expected = [
            entry("a", None, 4),
            entry("me@b.example", Some("10.0.0.2"), 3),
            entry("c", Some("fd00::2"), 2),
            entry("d", Some("fd00::3"), 1),
            entry("fd00::4", None, 5),
        ];
        assert_eq!(hosts.entries, expected);
        assert_eq!(hosts.ranks(), 15);
    }

    #[test]
    fn ranks_are_dealt_out_evenly() {
        assert_eq!(ranks("a,b,c", None), [1, 1, 1]);
        assert_eq!(ranks("a,b,c", Some(8)), [3, 3, 2]);
        assert_eq!(ranks("a,b:5,c", Some(8)), [2, 5, 1]);
        assert_eq!(ranks("a:2,b:3", Some(5)), [2, 3]);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        assert!(refusal("a,b,c", Some(2)).contains("lists at least 3 ranks, but -n asks for 2"));
        assert!(refusal("a:2,b:3", Some(6)).contains("lists 5 ranks, but -n asks for 6"));
        for (list, word) in [
            ("", "names no host"),
            ("a,,b", "names no host"),
            (":4", "names no host"),
            ("a:0", "\"0\""),
            ("a:-1", "\"-1\""),
            ("a:99999999999", "\"99999999999\""),
            ("-oProxyCommand=x", "\"-oProxyCommand\""),
            ("a b", "\"a b\""),
            ("a;b", "\"a;b\""),
            ("a=nowhere:2", "\"nowhere\""),
            ("a=:2", "\"\""),
            ("fd00::4", "[fd00::4]"),
        ] {
            assert!(refusal(list, None).contains(word), "{list}: {}", refusal(list, None));
        }
        let (most, value) = (RANKS_MAX, u64::from(u32::MAX) + 2);
        assert_eq!(ranks(&format!("a:{},b:2", most - 2), None), [most - 2, 2]);
        for (list, ranks, value) in [
            (format!("a:{},b:2", most - 1), None, u64::from(most) + 1),
            ("a:4294967295,b:2".into(), None, value),
            ("a,b".into(), Some(4_000_000_000), 4_000_000_000),
        ] {
            let said = format!("{value} is more than the limit of {most}");
            assert!(refusal(&list, ranks).contains(&said), "{}", refusal(&list, ranks));
        }
    }

    #[test]
    fn a_template_is_split_as_a_shell_does() {
        let hosts = Hosts::parse("a,b,a", None)
            .unwrap()
            .rsh("sh -c 'exec \"$@\"' 'name {host}' x{host}")
            .unwrap();
        let words = ["sh", "-c", "exec \"$@\"", "name b", "xb", "/bin/far side", "__node"];
        assert_eq!(hosts.command(1, Path::new("/bin/far side")), words);
        assert_eq!((hosts.label(1), hosts.label(2)), ("b".to_owned(), "a (node 2)".to_owned()));
        for bad in ["", "ssh 'x {host}", "ssh host"] {
            assert!(
                Hosts::parse("a", None).unwrap().rsh(bad).unwrap_err().to_string().contains(bad),
                "{bad}"
            );
        }
    }

    #[test]
    fn the_path_survives_a_shell_at_the_other_end() {
        let own = Path::new("/o'clock/far side/$x/*");
        let hosts = Hosts::parse("a", None).unwrap();
        let command = hosts.command(0, own);
        let [ssh, .., host, path, _] = &command[..] else { panic!("{command:?}") };
        assert_eq!([ssh, host], ["ssh", "a"]);
        // The shell of the host, which ssh starts, prints what it has understood.
        let line = format!("printf '%s\\n' {}", path.to_str().unwrap());
        let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{}\n", own.display()));
        let elsewhere = hosts.program("/usr/bin/farside".into());
        assert!(elsewhere.command(0, own).ends_with(&["/usr/bin/farside".into(), NODE.into()]));
    }
}
