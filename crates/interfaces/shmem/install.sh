#!/bin/sh
# Installs OpenSHMEM: the shared library, the static one, the headers, compiler wrappers, and what
# pkg-config wants to know. `cargo xtask install` calls it after a build.
#
# usage: install.sh ARCHIVE VERSION PREFIX
#   ARCHIVE  the static library that cargo has built, libfarside_shmem.a
#   VERSION  the version of the package, such as 0.1.0
#   PREFIX   where to install; include, lib, bin and below are made
# and in the environment
#   LIBDIR   where below PREFIX the libraries go, such as lib/x86_64-linux-gnu; lib
#   DESTDIR  a directory that stands for / while files are written, as makers of packages want it
set -eu
# What is installed is for everybody, whoever installs it.
umask 022

if [ $# -ne 3 ]; then
    sed -n '5,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
archive=$1 version=$2 prefix=$3
here=$(cd "$(dirname "$0")" && pwd)
cc=${CC:-cc}
# Programs that were linked with one of these numbers run with every library that has it.
abi=0
libraries="-lpthread -lm -ldl -lrt"

libdir=${LIBDIR:-lib} root=${DESTDIR:-}

mkdir -p "$root$prefix/include/farside-shmem/mpp" "$root$prefix/$libdir/pkgconfig" \
    "$root$prefix/bin"
# What is written into files is absolute.
[ -n "$root" ] || prefix=$(cd "$prefix" && pwd)
lib=$root$prefix/$libdir include=$root$prefix/include/farside-shmem bin=$root$prefix/bin
# Where the loader looks by itself, programs need not be told.
case $prefix in
/usr) pc_rpath='' wrapper_rpath='' ;;
*)
    pc_rpath=" -Wl,-rpath,\${libdir}"
    wrapper_rpath=" -Wl,-rpath,\$prefix/$libdir"
    ;;
esac
install -m 644 "$here"/include/*.h "$include"
install -m 644 "$here"/include/mpp/*.h "$include/mpp"
install -m 644 "$archive" "$lib/libfarside-shmem.a"

# Only the interface is to be seen, under its names and those that Open MPI's programs want.
script=$lib/farside-shmem.map.$$
trap 'rm -f "$script"' EXIT
cat >"$script" <<END
FARSIDE_SHMEM_$abi {
    global:
        shmem_*; pshmem_*; shmemx_*; pshmemx_*;
        start_pes; pstart_pes; _my_pe; p_my_pe; _num_pes; p_num_pes;
        shmalloc; shmemalign; shrealloc; shfree;
        pshmalloc; pshmemalign; pshrealloc; pshfree;
        my_pe; num_pes; globalexit;
        oshmem_ctx_default; oshmem_team_world; oshmem_team_shared;
    local:
        *;
};
END
"$cc" -shared -o "$lib/libfarside-shmem.so.$version" \
    -Wl,--whole-archive "$archive" -Wl,--no-whole-archive \
    -Wl,-soname,libfarside-shmem.so.$abi "-Wl,--version-script=$script" \
    -Wl,--gc-sections -Wl,-z,defs -Wl,-z,relro,-z,now $libraries -lgcc_s -lc
# What programs built with -fsanitize=thread call, for the checker of races.
objects=$lib/farside-tsan.$$
mkdir "$objects"
for source in "$here"/tsan/*.c; do
    name=${source##*/}
    "$cc" -c -O2 -fPIC -o "$objects/${name%.c}.o" "$source"
done
rm -f "$lib/libfarside-tsan.a"
ar rc "$lib/libfarside-tsan.a" "$objects"/*.o
rm -r "$objects"
ln -sf "libfarside-shmem.so.$version" "$lib/libfarside-shmem.so.$abi"
ln -sf "libfarside-shmem.so.$abi" "$lib/libfarside-shmem.so"

cat >"$lib/pkgconfig/farside-shmem.pc" <<END
prefix=$prefix
includedir=\${prefix}/include/farside-shmem
libdir=\${prefix}/$libdir

Name: farside-shmem
Description: OpenSHMEM 1.5 over farside
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -lfarside-shmem$pc_rpath
Libs.private: $libraries
END

# Functions whose calls are seen in instrumented programs: those that read or write memory, which
# compilers also make code of, and others, among them those of threads and those that give memory.
seen="memcpy memmove memset memcmp strlen strcpy strncpy strcat strcmp strncmp"
wrapped="fread fwrite read write malloc calloc realloc aligned_alloc posix_memalign free \
_Znwm _Znam _ZdlPv _ZdlPvm _ZdaPv sem_wait sem_trywait sem_timedwait sem_post"
for name in create join detach once mutex_lock mutex_trylock mutex_timedlock mutex_unlock \
    rwlock_rdlock rwlock_tryrdlock rwlock_wrlock rwlock_trywrlock rwlock_unlock spin_lock \
    spin_trylock spin_unlock cond_wait cond_timedwait cond_signal cond_broadcast barrier_wait; do
    wrapped="$wrapped pthread_$name"
done
wrapped="$wrapped thrd_create thrd_join thrd_detach call_once mtx_lock mtx_trylock mtx_timedlock \
mtx_unlock cnd_wait cnd_timedwait cnd_signal cnd_broadcast"

# The compiler wrappers find what belongs to them wherever the whole was moved to. The compilers
# behind them are what FARSIDE_CC and FARSIDE_CXX name, or CC and CXX.
for triple in oshcc:cc:CC oshc++:c++:CXX; do
    wrapper=$bin/farside-${triple%%:*} variable=${triple##*:} more=
    compiler=${triple#*:} compiler=${compiler%:*}
    [ "$compiler" = cc ] || more=-lstdc++
    cat >"$wrapper" <<END
#!/bin/sh
# Compiles and links OpenSHMEM programs: takes the arguments of $compiler, adds its own.
# --showme prints the whole command.
self=\$(readlink -f "\$0")
prefix=\$(cd "\$(dirname "\$self")/.." && pwd)
compiler=\${FARSIDE_$variable:-\${$variable:-$compiler}}
# With \`make $variable=farside-${triple%%:*}\` that is this wrapper itself.
[ "\$(readlink -f "\$(command -v "\$compiler")")" != "\$self" ] || compiler=$compiler
link="-L\$prefix/$libdir -lfarside-shmem$wrapper_rpath"
instrumented= links=yes openmp=
for argument; do
    case \$argument in
    -c | -S | -E | -M | -MM | -fsyntax-only) links= ;;
    -fsanitize=thread) instrumented=yes ;;
    -fopenmp | -fopenmp=*) openmp=yes ;;
    esac
done
if [ -n "\$instrumented" ]; then
    # Calls of these are seen, what compilers make of them is not.
    for seen in $seen; do
        set -- "\$@" -fno-builtin-\$seen
    done
fi
if [ -n "\$instrumented" ] && [ -n "\$links" ]; then
    # Our implementation of the entry points instead of the compiler's, for farside run --races.
    is_clang=
    case \$("\$compiler" --version) in *clang*) is_clang=yes ;; esac
    [ -z "\$is_clang" ] || set -- "\$@" -fno-sanitize-link-runtime
    set -- "\$@" -nodefaultlibs
    for wrapped in $seen $wrapped; do
        set -- "\$@" -Wl,--wrap=\$wrapped
    done
    case \$openmp\$is_clang in
    yesyes)
        # Its library looks for a tool in the program.
        set -- "\$@" -Wl,--wrap=__kmpc_omp_task_alloc -Wl,-u,ompt_start_tool
        openmp="-L\$("\$compiler" -print-resource-dir)/../.. -lomp"
        ;;
    yes) openmp=-lgomp ;;
    esac
    link="-L\$prefix/$libdir -lfarside-tsan \$openmp \$link $more"
    link="\$link -lpthread -lm -ldl -lgcc -lgcc_s -lc"
fi
[ -n "\$links" ] || link=
if [ "\${1-}" = --showme ]; then
    shift
    set -- echo "\$compiler" "-I\$prefix/include/farside-shmem" "\$@"
else
    set -- "\$compiler" "-I\$prefix/include/farside-shmem" "\$@"
fi
# The prefix has no blanks, or the link flags would fall apart.
exec "\$@" \$link
END
    chmod +x "$wrapper"
done
cat >"$bin/farside-oshrun" <<'END'
#!/bin/sh
# Runs an OpenSHMEM program: farside-oshrun -np 4 PROGRAM …; other options are those of
# `farside run`.
farside=$(dirname "$(readlink -f "$0")")/farside
[ -x "$farside" ] || farside=farside
options=
while [ $# -gt 0 ]; do
    case $1 in
    -np | -n | -c)
        options="$options -n $2"
        shift 2
        ;;
    --oversubscribe | --allow-run-as-root) shift ;;
    *) break ;;
    esac
done
exec "$farside" run $options "$@"
END
chmod +x "$bin/farside-oshrun"
