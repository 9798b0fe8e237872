#!/bin/sh
# A simulated run is the same whatever compiled it: `weir-sim` of two builds prints the same plan,
# the same counts and the same trace hash for each of some seeds, crashes and all.
#
#     sh .ci/same_hash.sh [DIRECTORY OTHER_DIRECTORY]
#
# Both are builds of this tree; build/release (g++) and build/asan (clang-19) when none is named.
set -u
cd "$(dirname "$0")/.." || exit 1
one=${1:-build/release}
other=${2:-build/asan}
seeds=200

for directory in "$one" "$other"; do
  [ -x "$directory/tests/simulation/weir-sim" ] || {
    echo "same_hash: $directory has no tests/simulation/weir-sim; build it first" >&2
    exit 1
  }
done
differing=0
seed=1
while [ "$seed" -le "$seeds" ]; do
  said=$("$one/tests/simulation/weir-sim" --seed "$seed" 2>&1)
  case $said in
    *"trace "*) ;;
    *) said="$said (no trace)" ;;
  esac
  other_said=$("$other/tests/simulation/weir-sim" --seed "$seed" 2>&1)
  if [ "$said" != "$other_said" ]; then
    differing=$((differing + 1))
    echo "same_hash: seed $seed is not the same run in both builds"
    echo "  $one: $said"
    echo "  $other: $other_said"
  fi
  seed=$((seed + 1))
done
[ "$differing" = 0 ]
