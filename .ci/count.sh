#!/bin/sh
# Counts results in the logs that meson test left: prints "PASSED FAILED".
#
#     sh .ci/count.sh BUILD_DIRECTORY...
for directory in "$@"; do
  cat "$directory"/meson-logs/testlog*.json 2>/dev/null
done | awk '
  # One object a line; the result is a word of meson. A skipped test counts as neither.
  match($0, /"result": "[A-Z]+"/) {
    word = substr($0, RSTART + 11, RLENGTH - 12)
    if (word == "OK" || word == "EXPECTEDFAIL") passed++
    else if (word != "SKIP") failed++
  }
  END { print passed + 0, failed + 0 }'
