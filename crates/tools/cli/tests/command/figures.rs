//! `farside figures`, from the command line.

use std::path::Path;

use crate::support::{Scratch, farside};

#[test]
fn a_figure_is_run_judged_drawn_and_resumed() {
    let scratch = Scratch::new();
    let out = scratch.file("figures");
    let words = ["figures", "--only", "NIC02/table-1,NIC02/4a", "--out", &out];
    let finished = farside(words).run().ends_with(0);
    let stdout = finished.stdout();
    assert!(stdout.contains("points of 2 figures and tables"), "{stdout}");
    assert!(finished.stderr().contains("remain"), "{}", finished.stderr());
    let read = |name: &str| std::fs::read_to_string(Path::new(&out).join(name)).unwrap();
    let json: serde_json::Value = serde_json::from_str(&read("figures.json")).unwrap();
    let verdict = |id: &str| {
        let points = json["points"].as_array().unwrap();
        points.iter().find(|point| point["id"] == id).unwrap()["verdict"].clone()
    };
    assert_eq!(verdict("nic02-table-1"), "agrees");
    assert_eq!(verdict("nic02-4a-hit-poll"), "calibrated");
    assert_eq!(verdict("nic02-4a-hit-spin"), "by-construction");
    let page = read("index.html");
    assert!(page.contains("<svg") && page.contains("prefers-color-scheme: dark"));
    assert!(read("figures.md").contains("farside bench ops --sim myrinet-lanai4"));

    let again = farside(words.iter().chain(&["--resume"])).run().ends_with(0);
    assert!(again.stderr().contains("kept from before"), "{}", again.stderr());
    assert!(!again.stderr().contains("remain"), "{}", again.stderr());
}

#[test]
fn what_is_not_there_is_named() {
    farside(["figures", "--only", "NIC02/99"]).run().fails_with(&["NIC02/99", "--list"]);
    farside(["figures", "--from", "/nowhere.json"]).run().fails_with(&["/nowhere.json"]);
    farside(["figures", "--quick", "--full"]).run().fails_with(&["--quick", "--full"]);
    let list = farside(["figures", "--list"]).run().ends_with(0).stdout();
    for id in ["armci03-7a-combined", "bst97-t3-sor-tree-resent", "rmalock16-averages-rw"] {
        assert!(list.contains(id), "{id} is not in {list}");
    }
}
