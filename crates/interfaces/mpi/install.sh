#!/bin/sh
# Installs the libraries that take over the one-sided calls of MPI programs, one for each MPI whose
# compiler is there. `cargo xtask mpi` calls it after a build.
#
# usage: install.sh ARCHIVE PREFIX
#   ARCHIVE  the static library that cargo has built, libfarside_mpi.a
#   PREFIX   where to install; lib and below are made
# and in the environment
#   LIBDIR   where below PREFIX the libraries go, such as lib/x86_64-linux-gnu; lib
#   DESTDIR  a directory that stands for / while files are written, as makers of packages want it
#   CFLAGS   more options for the compiler
set -eu
# What is installed is for everybody, whoever installs it.
umask 022

if [ $# -ne 2 ]; then
    sed -n '5,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
archive=$1 prefix=$2
here=$(cd "$(dirname "$0")" && pwd)
lib=${DESTDIR:-}$prefix/${LIBDIR:-lib}
mkdir -p "$lib"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/map" <<END
{
    global: MPI_*; PMPI_*; mpi_*; pmpi_*; ucp_worker_progress;
    local: *;
};
END
made=
for mpi in openmpi mpich; do
    command -v "mpicc.$mpi" >/dev/null || continue
    # The wrapper would link MPI itself, which is the program's to bring. So it only tells where the
    # header is.
    case $mpi in
    openmpi) flags=$("mpicc.$mpi" --showme:compile) ;;
    mpich)
        flags=$("mpicc.$mpi" -compile_info | tr ' ' '\n' | grep '^-I' | tr '\n' ' ')
        ;;
    esac
    for source in "$here"/c/*.c; do
        "${CC:-cc}" -std=gnu11 -D_GNU_SOURCE -O2 -fPIC -fvisibility=hidden -Wall -Wextra \
            $flags ${CFLAGS:-} -c "$source" -o "$work/$(basename "$source" .c).o"
    done
    "${CC:-cc}" ${CFLAGS:-} -shared -o "$lib/libfarside-mpi-$mpi.so" "$work"/*.o "$archive" \
        -Wl,-soname,"libfarside-mpi-$mpi.so" "-Wl,--version-script=$work/map" -Wl,--gc-sections \
        -Wl,-z,lazy -lpthread -lm -ldl -lrt -lgcc_s -lc
    rm "$work"/*.o
    made="$made $mpi"
done
if [ -z "$made" ]; then
    echo "install.sh: neither mpicc.openmpi nor mpicc.mpich is here: install libopenmpi-dev or" \
        "libmpich-dev" >&2
    exit 1
fi
echo "installed for$made: $lib"
