#!/bin/sh
# Checks barrier.pml with spin, over every order of steps of one configuration.
#
#     sh tests/model/check.sh sound [-DNAME=VALUE]...   nothing may be violated
#     sh tests/model/check.sh TEXT [-DNAME=VALUE]...    an assertion with TEXT in it must be
#
# Prints states, seconds and memory; of a counterexample, its steps. Needs spin and a C compiler.
set -eu
expected=$1
shift
here=$(cd "$(dirname "$0")" && pwd)

if ! command -v spin >/dev/null 2>&1; then
  echo "model: skipped, since spin is not installed (apt-get install spin)"
  exit 77
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/barrier.pml" "$here/bounds.h" "$work"
cd "$work"
spin -a "$@" barrier.pml >spin.log 2>&1 || { cat spin.log; exit 1; }
# Safety properties only; states are stored exactly (COLLAPSE is lossless).
${CC:-cc} -O1 -w -DSAFETY -DCOLLAPSE -DMEMLIM=2048 -o pan pan.c

if [ "$expected" = sound ]; then
  ./pan -m10000 >pan.log 2>&1 || true
  grep -E 'states, stored|elapsed time|total actual memory|errors:' pan.log || true
  if grep -q 'errors: 0' pan.log &&
    ! grep -qE 'search not completed|out of memory|depth too small|interrupted' pan.log; then
    exit 0
  fi
  grep -E '^pan' pan.log || true
  echo "model: $* must be sound; these steps lead to a violation, or the search did not end:"
  spin -t -p "$@" barrier.pml 2>/dev/null | tail -n 200
  exit 1
fi

# All violations, not the first: a broken rule may break more than one property.
./pan -m10000 -c0 >pan.log 2>&1 || true
if ! grep 'assertion violated' pan.log | grep -q "$expected"; then
  grep -E '^pan|errors:' pan.log || true
  echo "model: $* must violate an assertion about '$expected', and does not"
  exit 1
fi
./pan -m10000 >pan.log 2>&1 || true
echo "model: without the rule an assertion about '$expected' is violated. A counterexample:"
# What each process took up, and the faults.
spin -t -p "$@" barrier.pml 2>/dev/null | grep -E \
  '\[\(+[A-Z][A-Za-z]*\[[a-z0-9]*\]&\(|faults-1|\[begun = |text of failed' | cut -c 1-99
