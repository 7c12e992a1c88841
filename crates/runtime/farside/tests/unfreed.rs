//! What is said of windows that are dropped without being freed, and where nothing is.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::time::Duration;

use farside::{Rank, Result, World};

/// Names the case for the process that is the program.
const CASE: &str = "FARSIDE_TEST_UNFREED";

/// Runs a case in a process of its own, as three thread ranks, and returns what it says of windows.
fn said(test: &str, case: fn(&World) -> Result<()>) -> Vec<String> {
    ended(test, 0, case)
}

/// How the process ends in which a rank panics.
const PANICKED: i32 = 4;

fn ended(test: &str, status: i32, case: fn(&World) -> Result<()>) -> Vec<String> {
    if std::env::var_os(CASE).is_some() {
        std::thread::spawn(|| {
            // sleep: the deadline of a process that hangs.
            std::thread::sleep(Duration::from_secs(60));
            eprintln!("the job hangs");
            std::process::abort();
        });
        let status = match catch_unwind(|| farside::local(3, case)) {
            Ok(Ok(_)) => 0,
            Ok(Err(error)) => {
                eprintln!("{error}");
                3
            }
            Err(_) => PANICKED,
        };
        std::process::exit(status);
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CASE, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .and_then(|child| child.wait_with_output())
        .unwrap();
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    said.lines().filter(|line| line.starts_with("farside")).map(str::to_owned).collect()
}

const NOTHING: [&str; 0] = [];

#[test]
fn a_dropped_window_is_told_once_for_each_place() {
    const FIRST: u32 = line!() + 3;
    let said = said("a_dropped_window_is_told_once_for_each_place", |world| {
        for _ in 0..3 {
            let window = world.window::<u64>(100)?;
            world.put_value(1, window.at(Rank(0), 0))?;
            let _other = world.team().window::<u8>(7)?.cast::<u8>()?;
        }
        world.barrier()
    });
    assert_eq!(said.len(), 2, "{said:?}");
    let of = |line: u32, bytes: &str| {
        let place = format!("tests/unfreed.rs:{line}:");
        let is_told = |said: &&String| said.contains(&place) && said.contains(bytes);
        said.iter().find(is_told).unwrap_or_else(|| panic!("{place}, {bytes}: {said:?}"))
    };
    of(FIRST + 2, "(7 bytes on rank 0)");
    let first = of(FIRST, "(800 bytes on rank 0)");
    for part in ["warning", "was dropped without `free`", "call `free` on every member", "forget"] {
        assert!(first.contains(part), "{part:?} is not in {first:?}");
    }
}

#[test]
fn a_window_of_a_team_is_told_by_its_first_member() {
    let said = said("a_window_of_a_team_is_told_by_its_first_member", |world| {
        let team = world.split((world.rank() != Rank(0)).then_some(0), 0)?;
        if let Some(team) = &team {
            drop(team.window::<u64>(1)?);
            team.barrier()?;
        }
        world.barrier()
    });
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("(8 bytes on rank 1)"), "{said:?}");
}

#[cfg(feature = "containers")]
#[test]
fn arrays_and_maps_are_told_with_the_line_of_the_program() {
    const FIRST: u32 = line!() + 2;
    let said = said("arrays_and_maps_are_told_with_the_line_of_the_program", |world| {
        drop(farside::GlobalArray::<f64>::new(world, &[10, 10])?);
        drop(farside::HashMap::<u64, u64>::new(world)?);
        world.barrier()
    });
    assert_eq!(said.len(), 2, "{said:?}");
    for (line, said) in (FIRST..).zip(&said) {
        assert!(said.contains(&format!("tests/unfreed.rs:{line}:")), "{line}: {said}");
    }
}

#[test]
fn what_is_freed_kept_or_alive_to_the_end_is_not_told() {
    let said = said("what_is_freed_kept_or_alive_to_the_end_is_not_told", |world| {
        let to_the_end = world.window::<u64>(100)?;
        world.window::<u64>(100)?.free(world)?;
        world.window::<u64>(100)?.cast::<u32>()?.free(world)?;
        std::mem::forget(world.window::<u64>(100)?);
        assert!(world.window::<u8>(4)?.cast::<[u8; 3]>().is_err());
        drop(world.words(3)?);
        drop(world.team().uncounted_window::<u64>(1)?);
        let parts = [&[1_u8; 5000][..]; 3];
        world.all_to_all_v(&parts)?;
        world.sync()?;
        world.put_value(1, to_the_end.at(Rank(0), 0))
    });
    assert_eq!(said, NOTHING);
}

#[test]
fn a_panic_is_not_told() {
    let said = said("a_panic_is_not_told", |world| {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let _window = world.window::<u64>(1)?;
            std::panic::resume_unwind(Box::new("on purpose"));
            #[expect(unreachable_code, reason = "it says what the closure returns")]
            Ok::<(), farside::Error>(())
        }));
        assert!(caught.is_err());
        world.barrier()
    });
    assert_eq!(said, NOTHING);
}

#[test]
fn an_error_after_a_loss_is_not_told() {
    let said = ended("an_error_after_a_loss_is_not_told", PANICKED, |world| {
        let work = || -> Result<()> {
            let _window = world.window::<u64>(1)?;
            if world.rank() == Rank(2) {
                std::panic::resume_unwind(Box::new("lost on purpose"));
            }
            world.barrier()
        };
        let lost = work();
        assert!(matches!(lost, Err(farside::Error::RankLost { .. })), "{lost:?}");
        // The survivors go on as well as they can.
        let _ = world.barrier();
        Ok(())
    });
    assert_eq!(said, NOTHING);
}

#[test]
fn a_window_that_outlives_its_world_is_not_told() {
    const NAME: &str = "a_window_that_outlives_its_world_is_not_told";
    let said = said(NAME, |world| {
        // A second job in the same process, which its window outlives.
        if world.rank() == Rank(0) {
            let windows = farside::Local::new(2)?.run(|inner| inner.window::<u64>(1))?;
            drop(windows);
        }
        world.barrier()
    });
    assert_eq!(said, NOTHING);
}
