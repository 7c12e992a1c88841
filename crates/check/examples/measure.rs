//! Explores one check as often as asked, and says how long that took.
fn main() {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap();
    let ranks: u32 = words.next().unwrap().parse().unwrap();
    let rounds: u32 = words.next().unwrap().parse().unwrap();
    let runs: u64 = words.next().unwrap().parse().unwrap();
    let policy = words.next().map_or("exhaustive".to_owned(), |p| p).parse().unwrap();
    let check = farside_check::checks().into_iter().find(|c| c.name == name).unwrap();
    let t = std::time::Instant::now();
    let f = check.run(&check.setup.clone().ranks(ranks).rounds(rounds), policy, 1, &mut |p| p.runs < runs).unwrap();
    println!(
        "{:?} {:?} runs {} pruned {} steps {} depth {} complete {} {:?}",
        t.elapsed(),
        f.outcome,
        f.report.runs,
        f.report.pruned,
        f.report.steps,
        f.report.depth_max,
        f.report.complete,
        f.problem
    );
}
