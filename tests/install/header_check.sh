#!/bin/sh
# Compiles each header of the library alone, and checks that none of them brings CAF along.
#
# A header that a source file includes first was compiled alone by the build already (tests/tidy
# checks that a source includes its own header first); the others are compiled here. Files of
# kernels/detail are parts of one source for each instruction set, and are not installed.
#
#     sh header_check.sh SOURCE_ROOT BUILD_ROOT COMPILER...
set -eu
root=$1
build=$2
shift 2
compiler="$* -std=c++20 -O0 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"

# A fixed place: a cache of the compiler knows what it compiled there before.
mkdir -p "$build/header_check"
cd "$build/header_check"
folders="$root/messages $root/dataplane $root/kernels $root/actors"
find $folders -name '*.cpp' -exec sed -n '/^#include "/ {
  s/^#include "\(.*\)"$/\1/p
  q
}' {} \; | sort -u >included_first
find $folders -name '*.hpp' ! -path '*/kernels/detail/*' | sed "s|^$root/||" | sort >headers

check_one() {
  unit=$(echo "$1" | tr '/.' '__')
  echo "#include \"$1\"" >"$unit.cpp"
  $compiler -I"$root" -I.. -MD -MF "$unit.d" -c "$unit.cpp" -o "$unit.o" || {
    echo "$1 does not compile alone; include in it what it uses"
    return 1
  }
  if grep -q '/caf/' "$unit.d"; then
    echo "$1 includes CAF; keep it behind actors/runtime/detail/caf_bridge.hpp"
    return 1
  fi
}
status=0
comm -23 headers included_first >alone
while read -r header; do
  check_one "$header" || status=1
done <alone
echo "$(wc -l <headers) headers: $(wc -l <alone) compiled here, the others first in a source"
exit $status
