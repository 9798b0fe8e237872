#!/bin/sh
# expect.sh pass|fail TEXT COMPILER ARGUMENT...: the compiler accepts, or refuses with TEXT in its
# message. For `pass` TEXT is not used.
expectation=$1
text=$2
shift 2
message=$("$@" 2>&1)
status=$?
if [ "$expectation" = pass ]; then
  [ $status -eq 0 ] && exit 0
  printf 'must compile, but:\n%s\n' "$message"
  exit 1
fi
if [ $status -eq 0 ]; then
  echo 'must not compile, but does'
  exit 1
fi
case $message in
*"$text"*) exit 0 ;;
esac
printf 'is refused, but the message does not say "%s":\n%s\n' "$text" "$message"
exit 1
