//! Programs and the border in C, compiled so that a fault in memory ends them.

use std::process::Command;

use farside_testing::SANITIZERS;

use super::{Mpi, ONE_NODE, TWO_NODES, WITH_SERVICE, compile_with, install, is_long, with_library};

/// The programs that lead through most of the border.
const PROGRAMS: [&str; 3] = ["attributes.c", "errors.c", "windows.c"];

/// Returns where the compiler has the library of its address sanitizer, which must be loaded ahead
/// of all others.
fn runtime() -> String {
    let found = Command::new("cc").arg("-print-file-name=libasan.so").output();
    let found = found.expect("there is a compiler").stdout;
    String::from_utf8(found).expect("a path").trim().to_owned()
}

/// The border takes a quarter of a minute to compile in this way.
#[test]
fn sanitizers_find_nothing() {
    if !is_long() {
        println!("SKIPPED: FARSIDE_LONG=1 compiles the border with sanitizers");
        return;
    }
    let prefix = install("mpi-sanitized", &SANITIZERS.join(" "));
    for mpi in [Mpi::OpenMpi, Mpi::Mpich].into_iter().filter(|mpi| mpi.is_here()) {
        let preload = format!("LD_PRELOAD={}:{}", runtime(), mpi.library_in(&prefix).display());
        // What the MPIs still have at the end is theirs.
        let variables = ["ASAN_OPTIONS=detect_leaks=0", &preload];
        for source in PROGRAMS {
            let program = compile_with(mpi, source, &SANITIZERS);
            for place in [ONE_NODE, TWO_NODES, WITH_SERVICE] {
                with_library(mpi, 2, place).is_well_with(source, &program, &variables);
            }
        }
    }
}
