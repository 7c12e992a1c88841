#!/bin/sh
# Installs the C interface: the shared library with its versions, the static one, the header,
# compiler wrappers, and what pkg-config and CMake want to know. `cargo xtask install` calls it
# after a build.
#
# usage: install.sh ARCHIVE VERSION PREFIX
#   ARCHIVE  the static library that cargo has built, libfarside_c.a
#   VERSION  the version of the package, such as 0.1.0
#   PREFIX   where to install; include, lib, bin and below are made
# and in the environment
#   LIBDIR   where below PREFIX the libraries go, such as lib/x86_64-linux-gnu; lib
#   DESTDIR  a directory that stands for / while files are written, as makers of packages want it
set -eu
# What is installed is for everybody, whoever installs it.
umask 022

if [ $# -ne 3 ]; then
    sed -n '6,12s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
archive=$1 version=$2 prefix=$3
here=$(cd "$(dirname "$0")" && pwd)
header=$here/include/farside.h
cc=${CC:-cc}
# Programs that were linked with one of these numbers run with every library that has it.
abi=0
libraries="-lpthread -lm -ldl -lrt"

libdir=${LIBDIR:-lib} root=${DESTDIR:-}

mkdir -p "$root$prefix/include" "$root$prefix/$libdir" "$root$prefix/bin"
# What is written into files is absolute.
[ -n "$root" ] || prefix=$(cd "$prefix" && pwd)
lib=$root$prefix/$libdir bin=$root$prefix/bin
# Where the loader looks by itself, programs need not be told.
case $prefix in
/usr) pc_rpath='' wrapper_rpath='' ;;
*)
    pc_rpath=" -Wl,-rpath,\${libdir}"
    wrapper_rpath=" -Wl,-rpath,\$prefix/$libdir"
    ;;
esac
mkdir -p "$lib/pkgconfig" "$lib/cmake/farside"
install -m 644 "$header" "$root$prefix/include/farside.h"
install -m 644 "$archive" "$lib/libfarside.a"

# Only the functions of the header are to be seen.
functions=$(sed -n 's/^\(int\|uint32_t\|const char\) \**\(farside_[a-z0-9_]*\)(.*/\2/p' "$header")
[ -n "$functions" ] || { echo "install.sh: no functions in $header" >&2; exit 1; }
script=$lib/farside.map.$$
trap 'rm -f "$script"' EXIT
{
    echo "FARSIDE_$abi {"
    echo "    global:"
    for function in $functions; do echo "        $function;"; done
    echo "    local:"
    echo "        *;"
    echo "};"
} >"$script"
wanted=
for function in $functions; do wanted="$wanted -Wl,-u,$function"; done
# The list has no blanks within its words.
# shellcheck disable=SC2086
"$cc" -shared -o "$lib/libfarside.so.$version" $wanted "$archive" \
    -Wl,-soname,libfarside.so.$abi "-Wl,--version-script=$script" \
    -Wl,--gc-sections -Wl,-z,defs -Wl,-z,relro,-z,now $libraries -lgcc_s -lc
ln -sf "libfarside.so.$version" "$lib/libfarside.so.$abi"
ln -sf "libfarside.so.$abi" "$lib/libfarside.so"

cat >"$lib/pkgconfig/farside.pc" <<END
prefix=$prefix
includedir=\${prefix}/include
libdir=\${prefix}/$libdir

Name: farside
Description: One-sided remote memory for parallel programs
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -lfarside$pc_rpath
Libs.private: $libraries
END

# The way from the libraries to the prefix: as many steps up as the directory has parts.
up=$(echo "$libdir" | sed 's#[^/][^/]*#..#g')
cat >"$lib/cmake/farside/farsideConfig.cmake" <<END
# Gives the targets farside::farside and farside::static.
# The real path: where /lib is a link to /usr/lib, the headers are in /usr/include all the same.
get_filename_component(_farside_here "\${CMAKE_CURRENT_LIST_DIR}" REALPATH)
get_filename_component(_farside_lib "\${_farside_here}/../.." ABSOLUTE)
get_filename_component(_farside_include "\${_farside_lib}/$up/include" ABSOLUTE)
if(NOT TARGET farside::farside)
  add_library(farside::farside SHARED IMPORTED)
  set_target_properties(farside::farside PROPERTIES
    IMPORTED_LOCATION "\${_farside_lib}/libfarside.so"
    INTERFACE_INCLUDE_DIRECTORIES "\${_farside_include}")
  add_library(farside::static STATIC IMPORTED)
  set_target_properties(farside::static PROPERTIES
    IMPORTED_LOCATION "\${_farside_lib}/libfarside.a"
    INTERFACE_INCLUDE_DIRECTORIES "\${_farside_include}"
    INTERFACE_LINK_LIBRARIES "pthread;m;dl;rt")
endif()
unset(_farside_here)
unset(_farside_lib)
unset(_farside_include)
END

cat >"$lib/cmake/farside/farsideConfigVersion.cmake" <<END
set(PACKAGE_VERSION "$version")
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
END

# The compiler wrappers find what belongs to them wherever the whole was moved to. The compilers
# behind them are what FARSIDE_CC and FARSIDE_CXX name, or CC and CXX.
for pair in cc:CC c++:CXX; do
    compiler=${pair%%:*} variable=${pair#*:}
    wrapper=$bin/farside-$compiler
    cat >"$wrapper" <<END
#!/bin/sh
# Compiles and links programs that use farside.h: takes the arguments of $compiler, adds its own.
# --showme prints the whole command.
self=\$(readlink -f "\$0")
prefix=\$(cd "\$(dirname "\$self")/.." && pwd)
compiler=\${FARSIDE_$variable:-\${$variable:-$compiler}}
# With \`make $variable=farside-$compiler\` that is this wrapper itself.
[ "\$(readlink -f "\$(command -v "\$compiler")")" != "\$self" ] || compiler=$compiler
link="-L\$prefix/$libdir -lfarside$wrapper_rpath"
for argument; do
    case \$argument in
    -c | -S | -E | -M | -MM | -fsyntax-only) link= ;;
    esac
done
if [ "\${1-}" = --showme ]; then
    shift
    set -- echo "\$compiler" "-I\$prefix/include" "\$@"
else
    set -- "\$compiler" "-I\$prefix/include" "\$@"
fi
# The prefix has no blanks, or the link flags would fall apart.
exec "\$@" \$link
END
    chmod +x "$wrapper"
done
