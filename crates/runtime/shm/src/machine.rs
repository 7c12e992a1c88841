//! What the system says about this machine: processors, sockets, NUMA nodes, caches, the time.

use std::path::Path;

use farside_fabric::{Result, Topology};

/// How many processors this process may use.
pub fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

/// Returns the time by the clock that all ranks of a machine share.
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// How many bytes this process may map, if that is limited.
pub(crate) fn addresses_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::As).current
}

/// The topology of `ranks` ranks on this machine: one node, and the sockets, NUMA nodes and
/// last-level caches inside it as far as there are several. Ranks are dealt out to the processors
/// in blocks.
pub fn topology_of_this_machine(ranks: u32) -> Result<Topology> {
    topology_under(Path::new("/sys/devices/system"), ranks)
}

/// As above, for a copy of `/sys/devices/system`.
fn topology_under(system: &Path, ranks: u32) -> Result<Topology> {
    let processors = list(&read(&system.join("cpu/online")));
    let processors = if processors.is_empty() { vec![0] } else { processors };
    let of = |rank: u32| processors[(rank as usize * processors.len()) / ranks.max(1) as usize];
    let level = |name: &str, element: &dyn Fn(u32) -> u32| {
        (name.to_owned(), (0..ranks).map(|rank| element(of(rank))).collect::<Vec<u32>>())
    };
    let cpu = |processor: u32| system.join(format!("cpu/cpu{processor}"));
    let socket =
        |processor: u32| number(&read(&cpu(processor).join("topology/physical_package_id")));
    let numa = |processor: u32| {
        (0..1024)
            .take_while(|node| system.join(format!("node/node{node}")).exists())
            .find(|node| {
                list(&read(&system.join(format!("node/node{node}/cpulist")))).contains(&processor)
            })
            .unwrap_or(0)
    };
    // The first processor that shares the last-level cache names it.
    let cache = |processor: u32| {
        let index = (0..8)
            .rev()
            .map(|index| cpu(processor).join(format!("cache/index{index}/shared_cpu_list")));
        let shared = index.map(|path| list(&read(&path))).find(|shared| !shared.is_empty());
        shared.and_then(|shared| shared.first().copied()).unwrap_or(0)
    };
    let levels = vec![
        level("node", &|_| 0),
        level("socket", &socket),
        level("numa", &numa),
        level("cache", &cache),
        level("core", &|processor| processor),
    ];
    Topology::from_levels(ranks, levels)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn number(text: &str) -> u32 {
    text.trim().parse().unwrap_or(0)
}

/// Reads the system's lists of numbers, such as `0-3,8,10-11`.
pub fn list(text: &str) -> Vec<u32> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            numbers.extend(first..=last.min(first.saturating_add(1 << 16)));
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_system_are_read() {
        assert_eq!(list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(list(""), []);
        assert_eq!(list("nonsense"), []);
    }

    #[test]
    fn this_machine_has_one_node() {
        let topology = topology_of_this_machine(5).unwrap();
        assert_eq!(topology.nodes(), 1);
        assert_eq!(topology.ranks(), 5);
    }

    #[test]
    fn a_machine_with_two_sockets_of_two_caches_is_understood() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("cpu/online", "0-7\n");
        for cpu in 0..8 {
            write(&format!("cpu/cpu{cpu}/topology/physical_package_id"), &format!("{}\n", cpu / 4));
            let first = cpu / 2 * 2;
            write(
                &format!("cpu/cpu{cpu}/cache/index3/shared_cpu_list"),
                &format!("{first}-{}\n", first + 1),
            );
        }
        write("node/node0/cpulist", "0-3\n");
        write("node/node1/cpulist", "4-7\n");
        let topology = topology_under(root, 16).unwrap();
        let levels: Vec<(&str, u32)> =
            topology.levels().iter().map(|level| (level.name.as_str(), level.elements)).collect();
        let expected = [("machine", 1), ("node", 1), ("socket", 2), ("cache", 4), ("core", 8)];
        assert_eq!(levels, expected, "the NUMA level splits nothing that the sockets did not");
    }
}
