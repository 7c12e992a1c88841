//! Launchers that start processes on several hosts, which are network namespaces with host names of
//! their own.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use farside_testing::namespaces::Namespaces;

use crate::names;
use crate::support::{PROGRAM, command, run, wanted};

/// Stands in for ssh: finds its host among the namespaces by the end of its address.
struct Shell {
    path: PathBuf,
    _scratch: tempfile::TempDir,
}

impl Shell {
    fn new(namespaces: &Namespaces) -> Shell {
        let scratch = tempfile::tempdir().expect("a directory can be made");
        let path = scratch.path().join("rsh");
        let prefix = namespaces.names()[0].strip_suffix('0').expect("they are numbered from 0");
        let script = format!(
            "#!/bin/sh\nwhile [ \"${{1#-}}\" != \"$1\" ]; do shift; done\nhost=$1\nshift\n\
             exec ip netns exec {prefix}$((${{host##*.}} - 1)) unshare --uts sh -c \"hostname \
             host-${{host##*.}}; $*\"\n"
        );
        std::fs::write(&path, script).expect("a script can be written");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("it is ours");
        Shell { path, _scratch: scratch }
    }

    fn on_first_host(&self, launcher: &str) -> Command {
        let mut command = command(&self.path.to_string_lossy());
        command.args(["10.77.0.1", launcher]);
        command
    }
}

/// Runs the suite with a launcher that is told its options by `launcher`, on two hosts with two
/// ranks each.
fn suite(program: &str, launcher: impl Fn(&str) -> String) {
    let Some(namespaces) = Namespaces::wanted(2).filter(|_| wanted(&[program, "unshare"])) else {
        return;
    };
    let shell = Shell::new(&namespaces);
    let launcher = launcher(&shell.path.to_string_lossy());
    for name in names() {
        let ran = run(&mut shell.on_first_host(&format!("{program} {launcher} {PROGRAM} {name}")));
        assert!(ran.status.success(), "{program} {launcher}, {name}: {ran:?}");
    }
}

#[test]
fn hydra_starts_ranks_on_two_hosts() {
    suite("mpiexec.hydra", |shell| {
        format!(
            "-iface eth0 -launcher ssh -launcher-exec {shell} -hosts 10.77.0.1:2,10.77.0.2:2 -n 4"
        )
    });
}

#[test]
fn open_mpi_starts_ranks_on_two_hosts() {
    suite("mpirun.openmpi", |shell| {
        format!(
            "--mca plm_rsh_agent {shell} --mca oob_tcp_if_include eth0 --map-by node --host \
             10.77.0.1:2,10.77.0.2:2 -np 4"
        )
    });
}
