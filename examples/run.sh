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

# The first tenth of the steps after the warm-up against the last.
awk '
  /"step": *[0-9]+/ && /"reward": *-?[0-9]/ {
    match($0, /"reward": *-?[0-9.eE+-]+/)
    text = substr($0, RSTART, RLENGTH)
    sub(/"reward": */, "", text)
    reward[count++] = text + 0
  }
  END {
    if (count < 10) {
      print "The run has " count " steps: too few to say whether the policy learned."
      exit 0
    }
    tenth = int(count / 10)
    for (step = 0; step < tenth; step++) {
      first += reward[step] / tenth
      last += reward[count - tenth + step] / tenth
    }
    printf "steps                    %d\n", count
    printf "mean reward, first tenth %.3f\n", first
    printf "mean reward, last tenth  %.3f\n", last
    learned = last >= first + 0.2 && last >= 0.6
    printf "learned                  %s (last tenth at least 0.6, and 0.2 above the first)\n",
      learned ? "yes" : "NO"
    exit !learned
  }' "$run/metrics.jsonl"
