#!/bin/sh
# The main job: installs what is missing, builds, and trains the arithmetic policy on this machine.
#
#     sh examples/run.sh [--set KEY=VALUE]...
#
# The run is written to build/runs/arithmetic, which is removed first.
set -eu
cd "$(dirname "$0")/.."
run=build/runs/arithmetic
config=examples/arithmetic/grpo.yaml
weir=build/release/examples/weir/weir

sh .ci/setup.sh build
sh .ci/build.sh release examples/weir/weir

if [ -f "$run/lock" ] && ! flock -n "$run/lock" true; then
  echo "a run is alive in $run; stop it first" >&2
  exit 1
fi
rm -rf "$run"

status=0
"$weir" run "$config" "$@" || status=$?
case $status in
  0) ;;
  75)
    echo "The job was interrupted and saved. It goes on with: $weir run $config $*"
    exit 75
    ;;
  *)
    echo "The job failed with exit code $status. What it wrote is in $run." >&2
    echo "To see how it is configured: $weir check $config" >&2
    exit "$status"
    ;;
esac

# The job's own summary (above): the last tenth of the steps against the first after the warm-up.
case $(grep '"event": "summary"' "$run/metrics.jsonl" | tail -n 1) in
  *'"learned": true'*) ;;
  '') echo "The run is too short to say whether the policy learned." ;;
  *)
    echo "The policy did not learn enough; the rewards are in $run/metrics.jsonl." >&2
    exit 1
    ;;
esac
