//! Namespaces reach each other and nothing else, can be cut off, and go when they are no longer
//! needed.

use farside_testing::namespaces::Namespaces;

fn reaches(hosts: &Namespaces, from: usize, to: usize) -> bool {
    // A neighbour that answers gets into the table of the link: no program is needed that sends and
    // listens.
    let address = hosts.address(to).to_string();
    let flush = ["ip", "neighbour", "flush", "dev", "eth0"];
    hosts.run(from, &flush).expect("the table can be emptied");
    hosts
        .run(from, &["bash", "-c", &format!("echo >/dev/udp/{address}/9")])
        .expect("a packet can be sent");
    for _ in 0..500 {
        let table =
            hosts.run(from, &["ip", "neighbour", "show", &address]).expect("there is a table");
        let table = String::from_utf8_lossy(&table.stdout).into_owned();
        if table.contains("lladdr") {
            return true;
        }
        if table.contains("FAILED") {
            return false;
        }
        // sleep: the kernel does not notify when it has given up on a neighbour.
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("the neighbour {address} neither answers nor fails to");
}

#[test]
fn all_reach_each_other_until_one_is_cut_off() {
    let Some(hosts) = Namespaces::wanted(3) else { return };
    assert!(reaches(&hosts, 0, 2) && reaches(&hosts, 2, 1));
    hosts.cut(2).expect("a link can be cut");
    assert!(!reaches(&hosts, 0, 2));
    assert!(reaches(&hosts, 0, 1), "the others are not cut off");
    hosts.heal(2).expect("a link can be mended");
    assert!(reaches(&hosts, 0, 2));
}

#[test]
fn nothing_is_left_afterwards() {
    let Some(hosts) = Namespaces::wanted(2) else { return };
    let names = hosts.names().to_vec();
    let exists = |name: &String| std::path::Path::new("/run/netns").join(name).exists();
    assert!(names.iter().all(exists));
    let other = Namespaces::wanted(2).expect("they could be made a moment ago");
    assert!(other.names().iter().all(|name| !names.contains(name)));
    drop(hosts);
    assert!(!names.iter().any(exists));
    assert!(other.names().iter().all(exists), "those of others stay");
}
