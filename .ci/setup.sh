#!/bin/sh
# Installs the Debian packages that weir needs. Quiet when they are all there, and then needs no
# network. As root, or through sudo.
#
#     sh .ci/setup.sh          everything
#     sh .ci/setup.sh build    what building and testing with g++ needs
set -eu

build_packages='
  ccache
  doctest-dev
  flatbuffers-compiler
  g++
  git
  libcaf-dev
  libcli11-dev
  libexpected-dev
  libflatbuffers-dev
  libfmt-dev
  liblz4-dev
  libopenblas-dev
  librapidcheck-dev
  liburing-dev
  libxxhash-dev
  libyaml-cpp-dev
  meson
  ninja-build
  nlohmann-json3-dev
  pkg-config
  spin
'
check_packages='
  clang-19
  clang-format-19
  libclang-rt-19-dev
'

say() { printf '%s\n' "$*" >&2; }

case "${1:-all}" in
  all) wanted="$build_packages $check_packages" ;;
  build) wanted="$build_packages" ;;
  *) say "usage: sh .ci/setup.sh [all|build]"; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null 2>&1; then
  say "setup: this is no Debian system; install the equivalents of:"
  say $wanted
  exit 1
fi

missing=''
for package in $wanted; do
  # A virtual or renamed package is provided by another one: ask for the state of exactly this name.
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
  as_root=''
elif command -v sudo >/dev/null 2>&1; then
  as_root='sudo'
else
  say "setup: these packages are missing:$missing"
  say "setup: run this script as root, or install sudo"
  exit 1
fi

say "setup: installing$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { $as_root apt-get update -qq &&
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    $missing; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  say "setup: apt-get failed; check the network and /etc/apt/sources.list (Debian 12, main), and try again"
  exit 1
fi
