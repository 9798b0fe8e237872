#!/bin/sh
# Runs an example and compares what it prints with what its top comment promises:
#
#     /// Prints: the first line
#     ///         and the others
#
#     sh expect.sh SOURCE PROGRAM
set -u
promised=$(sed -n '/^\/\/\/ Prints: /,/^[^/]/ {
  s|^/// Prints: ||p
  s|^///         ||p
}' "$1")
printed=$("$2")
status=$?
if [ "$status" != 0 ]; then
  echo "$2 ended with status $status"
  exit 1
fi
[ -n "$promised" ] || { echo "$1: no \"/// Prints: \" in its top comment; say what it prints"; exit 1; }
[ "$promised" = "$printed" ] && exit 0
echo "$1: the program prints something else than its top comment says"
echo "promised:"
printf '%s\n' "$promised"
echo "printed:"
printf '%s\n' "$printed"
exit 1
