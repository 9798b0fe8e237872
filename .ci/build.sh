#!/bin/sh
# Configures and builds one profile of tests/profiles into build/PROFILE. Shows progress on a
# terminal; elsewhere it is silent unless something fails.
#
#     sh .ci/build.sh PROFILE [TARGET]...
set -eu
cd "$(dirname "$0")/.."
profile=$1
shift
directory=build/$profile

if [ ! -f "$directory/build.ninja" ]; then
  mkdir -p build
  log=build/setup-$profile.log
  # Another Python may shadow Debian's meson on the PATH.
  if ! /usr/bin/meson setup "$directory" --native-file "tests/profiles/$profile.ini" \
    >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "build: meson cannot configure $directory; the whole output is in $log" >&2
    exit 1
  fi
fi
# Lets ccache keep what was compiled with a precompiled header.
export CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS:-pch_defines,time_macros}"
if [ -t 1 ]; then
  ninja -C "$directory" "$@"
else
  ninja -C "$directory" --quiet "$@"
fi || {
  echo "build: $directory failed; correct the first error above, or remove $directory and try again" >&2
  exit 1
}
