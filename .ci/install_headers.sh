#!/bin/sh
# Called by `meson install`: copies every header and schema, and the headers that the build made,
# so that the same include line works in this tree and outside of it.
set -eu
target=$MESON_INSTALL_DESTDIR_PREFIX/include/weir

# Archives keep the folders.
copy() {
  cd "$1"
  shift
  find messages kernels dataplane actors -type f \( "$@" \) -print0 |
    tar --create --null --files-from=- --mode=u=rw,go=r |
    tar --extract --no-same-owner --directory="$target"
}

mkdir -p "$target"
# The parts of kernels/detail belong to one source for each instruction set; pch is for our build.
(copy "$MESON_SOURCE_ROOT" ! -path 'kernels/detail/*' ! -path '*/pch/*' -a -name '*.hpp' -o -path 'messages/*.fbs')
(copy "$MESON_BUILD_ROOT" -name '*_generated.h' -o -name '*_generated.hpp')
