#!/bin/sh
# Installs the package in a root of its own and uses it there. `cargo xtask test --only deb` calls
# it in a mount namespace of its own: nothing of what it mounts and writes is left.
#
# usage: test.sh PACKAGE BASE PLACE SOURCES
#   PACKAGE  the package
#   BASE     a root with compilers, which stays as it is
#   PLACE    a directory to work in
#   SOURCES  the workspace
set -eu

package=$1 base=$2 place=$3 sources=$4
mkdir -p "$place"
mount -t tmpfs farside-root "$place"
mkdir "$place/upper" "$place/work" "$place/root"
mount -t overlay farside-root \
    -o "lowerdir=$base,upperdir=$place/upper,workdir=$place/work" "$place/root"
root=$place/root
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs farside-try "$root/tmp"
cp "$package" "$root/tmp/farside.deb"
cp -r "$sources/crates/interfaces/capi/examples" "$root/tmp/c"
cp -r "$sources/crates/interfaces/shmem/tests/programs" "$root/tmp/shmem"

exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C timeout 300 \
    chroot "$root" sh -eux <<'END'
dpkg -i /tmp/farside.deb
dpkg --verify farside

farside app hello -n 4
farside app sor -n 2 -- --size 20x20 --iterations 2
zcat /usr/share/man/man1/farside.1.gz | grep -q farside
zcat /usr/share/doc/farside/changelog.gz | grep -q Changelog
grep -q 'License: MIT' /usr/share/doc/farside/copyright
grep -q races /usr/share/doc/farside/docs/races.md

# The C interface, by pkg-config and by CMake; also where /lib is a link to /usr/lib.
cd /tmp/c
gcc hello.c -o hello $(pkg-config --cflags --libs farside)
farside run -n 4 ./hello
gcc hello.c -o hello-static /usr/lib/*/libfarside.a -lpthread -lm -ldl -lrt
farside run -n 4 ./hello-static
cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.10)
project(hello C)
find_package(farside 0.1 REQUIRED)
add_executable(hello hello.c)
target_link_libraries(hello farside::farside)
CMAKE
for prefix in /usr /; do
    rm -rf build
    cmake -S . -B build "-DCMAKE_PREFIX_PATH=$prefix" >/dev/null
    cmake --build build >/dev/null
    farside run -n 2 build/hello
done

# OpenSHMEM, by the wrapper and by pkg-config; the linker is told no path.
cd /tmp/shmem
farside-oshcc -std=c11 -g rma_sized.c -o rma_sized
farside-oshrun -np 4 ./rma_sized
farside-oshrun -np 4 --nodes 2 ./rma_sized
gcc -std=c11 locks.c -o locks $(pkg-config --cflags --libs farside-shmem)
farside-oshrun -np 4 ./locks
if readelf -d rma_sized locks /tmp/c/hello | grep -E 'RPATH|RUNPATH'; then exit 1; fi
# An error still names the place, although the library has nothing for debuggers.
farside-oshcc -std=c11 -g wrong/put_to_stack.c -o wrong/put_to_stack
if farside-oshrun -np 2 ./wrong/put_to_stack 2>message; then exit 1; fi
grep 'shmem_.*not symmetric' message
grep 'put_to_stack.c:' message

dpkg -r farside
test ! -e /usr/bin/farside && test ! -e /usr/include/farside.h
END
