#!/bin/sh
# The whole test suite: installs what is missing, builds build/release, runs every test.
#
#     sh tests/run.sh
set -eu
cd "$(dirname "$0")/.."

sh .ci/setup.sh build
sh .ci/build.sh release

rm -f build/release/meson-logs/testlog*
status=0
if [ -t 1 ]; then
  /usr/bin/meson test -C build/release --no-rebuild || status=$?
else
  mkdir -p build
  # One line a test; the header and the summary of meson are left out.
  /usr/bin/meson test -C build/release --no-rebuild 2>&1 | grep -E '^ *[0-9]+/[0-9]+ ' || true
fi

set -- $(sh .ci/count.sh build/release)
passed=$1
failed=$2
if [ "$failed" != 0 ] || [ "$passed" = 0 ] || [ "$status" != 0 ]; then
  echo
  awk '
    match($0, /"result": "[A-Z]+"/) {
      word = substr($0, RSTART + 11, RLENGTH - 12)
      if (word == "OK" || word == "EXPECTEDFAIL" || word == "SKIP") next
      match($0, /"name": "[^"]*"/)
      name = substr($0, RSTART + 9, RLENGTH - 10)
      print "failed: " name " (" tolower(word) ")"
    }' build/release/meson-logs/testlog*.json 2>/dev/null || true
  echo "What each one printed is in build/release/meson-logs/testlog.txt."
  echo "To run one again: meson test -C build/release --print-errorlogs NAME"
  echo "$passed passed, $failed failed"
  exit 1
fi
echo "$passed passed, $failed failed"
