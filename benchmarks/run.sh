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

# Peers are compared with where they are installed; nothing here depends on them.
peer_python=${WEIR_PEER_PYTHON:-python3}
has_peer() { "$peer_python" -c 'import transfer_queue' >/dev/null 2>&1; }

targets=''
for area in "$@"; do
  targets="$targets benchmarks/${area}_bench"
  [ "$area" != dataplane ] || ! has_peer || targets="$targets benchmarks/own_cases"
done
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
  [ "$area" = dataplane ] || continue
  if ! has_peer; then
    echo "dataplane: the column of TransferQueue is left out: $peer_python has no package" \
      "transfer_queue; name one that has in WEIR_PEER_PYTHON"
    continue
  fi
  echo "== dataplane beside TransferQueue"
  "$peer_python" benchmarks/peers/transferqueue.py build/release/benchmarks/own_cases \
    build/benchmarks/dataplane_peers.json || {
    echo "benchmarks: the comparison with TransferQueue failed; what it said is above" >&2
    status=1
  }
done
exit "$status"
