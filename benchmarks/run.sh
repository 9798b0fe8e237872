#!/bin/sh
# Measures: installs what is missing, builds the harnesses, runs them, prints their tables, and
# writes build/benchmarks/AREA.json.
#
#     sh benchmarks/run.sh [AREA]...
#
# Areas: runtime, dataplane, checkpoint, kernels, samplers; all of them when none is named.
set -eu
cd "$(dirname "$0")/.."
known='runtime dataplane checkpoint kernels samplers'

[ $# -gt 0 ] || set -- $known
for area in "$@"; do
  case " $known " in
    *" $area "*) ;;
    *)
      echo "benchmarks: there is no area \"$area\"; the areas are: $known" >&2
      exit 2
      ;;
  esac
done

targets=''
for area in "$@"; do targets="$targets benchmarks/${area}_bench"; done
sh .ci/setup.sh build
sh .ci/build.sh release $targets

load=$(cut -d ' ' -f 1 /proc/loadavg)
if [ "${load%.*}" -ge 1 ]; then
  echo "note: the load of this machine is $load; on an idle one the figures are steadier" >&2
fi
mkdir -p build/benchmarks
status=0
for area in "$@"; do
  echo "== $area"
  "build/release/benchmarks/${area}_bench" "build/benchmarks/$area.json" || {
    echo "benchmarks: $area failed; what it said is above" >&2
    status=1
  }
done
exit "$status"
