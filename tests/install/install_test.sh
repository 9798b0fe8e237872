#!/bin/sh
# Installs this build below a temporary directory, builds a program outside of the tree against the
# installed copy, with its own messages, and compares what it prints with its top comment.
#
#     sh install_test.sh SHOP.cpp BUILD_ROOT PREFIX COMPILER...
set -eu
here=$(cd "$(dirname "$1")" && pwd)
build=$2
prefix=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

/usr/bin/meson install -C "$build" --no-rebuild --tags devel,runtime --destdir "$work/stage" >"$work/log" 2>&1 || {
  cat "$work/log"
  exit 1
}
installed=$work/stage$prefix
pc=$(find "$installed" -name weir.pc)
[ -n "$pc" ] || { echo "no weir.pc below $installed"; exit 1; }
PKG_CONFIG_PATH=$(dirname "$pc")
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH")
export PKG_CONFIG_PATH LD_LIBRARY_PATH
weir() { pkg-config --define-variable=prefix="$installed" "$@" weir; }

cp "$here/shop.fbs" "$here/shop.cpp" "$work"
cd "$work"
flatc --cpp --binary --schema --gen-object-api --scoped-enums --cpp-std c++17 --keep-prefix \
  -I "$(weir --variable=schemas)" shop.fbs
"$(weir --variable=catalogue)" shop_catalogue.hpp shop.bfbs
"$@" -std=c++20 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror \
  shop.cpp -o shop $(weir --cflags --libs)
sh "$here/../../examples/runtime/expect.sh" shop.cpp ./shop

# What a user compiles knows nothing of CAF.
"$@" -std=c++20 -M shop.cpp $(weir --cflags) >shop.d
if grep -q '/caf/' shop.d; then
  echo "the installed headers include CAF"
  exit 1
fi
