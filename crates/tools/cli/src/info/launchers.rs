//! Who can start ranks here, beside `farside run`.

use serde_json::json;

use super::Section;

/// Programs that start ranks, what they speak, and how to call them.
const LAUNCHERS: [(&str, &str, &str); 5] = [
    ("mpirun", "PMIx", "mpirun -np 4 PROGRAM"),
    ("prterun", "PMIx", "prterun -np 4 PROGRAM"),
    ("mpiexec.hydra", "PMI-1", "mpiexec.hydra -n 4 PROGRAM"),
    ("srun", "PMIx", "srun --mpi=pmix -n 4 PROGRAM"),
    ("srun", "PMI-2", "srun --mpi=pmi2 -n 4 PROGRAM"),
];

pub(super) fn section() -> Section {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &str| {
        std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
    };
    let pmix = farside_job::pmix_library();
    let mut rows: Vec<_> = LAUNCHERS
        .iter()
        .map(|&(program, protocol, usage)| {
            let lacks_library = protocol == "PMIx" && is_there(program) && pmix.is_none();
            let note = if lacks_library { "needs libpmix.so.2 (Debian: libpmix2)" } else { usage };
            vec![json!(program), json!(protocol), json!(is_there(program)), json!(note)]
        })
        .collect();
    let note =
        pmix.clone().unwrap_or_else(|| "libpmix.so.2 is not installed (Debian: libpmix2)".into());
    rows.push(vec![json!("libpmix"), json!("PMIx"), json!(pmix.is_some()), json!(note)]);
    let (is_launched, how) = match farside_job::launcher() {
        Ok(Some(by)) => (true, format!("was started by {by}")),
        Ok(None) => {
            (false, "was not started by a launcher: a program would be a job of one rank".into())
        }
        Err(error) => (false, error.to_string()),
    };
    rows.push(vec![json!("this process"), json!(null), json!(is_launched), json!(how)]);
    Section { name: "launchers", columns: &["launcher", "speaks", "here", "note"], rows }
}
