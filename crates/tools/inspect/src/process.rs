//! What the system says of a process.

use std::fs;

use crate::snapshot::ProcessView;

/// Reads what the system says of a process; `None` if there is none with this number.
pub fn view(process: u32) -> Option<ProcessView> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (state, ticks) = parse_stat(&stat)?;
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let read = |what: &str| fs::read_to_string(format!("/proc/{process}/{what}"));
    let sleeps_in = read("wchan").unwrap_or_default().trim_matches(['\0', '0', '\n']).to_owned();
    let stack = read("stack").unwrap_or_default();
    let stack = stack.lines().filter_map(|line| line.split_whitespace().last()).map(str::to_owned);
    Some(ProcessView { state, computed_ns: ticks * tick_ns, sleeps_in, stack: stack.collect() })
}

/// Returns a process's command, shortened; `None` if there is none with this number.
pub fn command(process: u32) -> Option<String> {
    let line = fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let words = line.split(|&byte| byte == 0).filter(|word| !word.is_empty());
    let line = words.map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ");
    let line = farside_fabric::record::printable(&line);
    let end = line.char_indices().nth(60).map(|(at, _)| at);
    Some(end.map_or(line.clone(), |end| format!("{}…", &line[..end])))
}

/// The state and the ticks of a line of `/proc/PID/stat`. The command's name, in parentheses, may
/// contain anything.
fn parse_stat(stat: &str) -> Option<(char, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let user: u64 = fields.nth(10)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((state, user + system))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_may_contain_anything() {
        let stat = "12 (a) R 1) T 1 12 12 0 -1 4194304 100 0 0 0 7 5 0 0 20 0 1 0 100 1 1";
        assert_eq!(parse_stat(stat), Some(('T', 12)));
        assert_eq!(parse_stat("12"), None);
    }

    #[test]
    fn this_process_runs() {
        let own = view(std::process::id()).unwrap();
        assert!(matches!(own.state, 'R' | 'S'), "{own:?}");
        assert!(!command(std::process::id()).unwrap().is_empty());
        assert_eq!(view(0), None);
    }
}
