#!/usr/bin/env bash
# What gpu/cuda needs beside Go, gcc and g++, made in .cache/cuda (not committed):
#
#   build.sh header     cuda.h from a pinned wheel (or $CUDA_HOME), the list of its functions
#   build.sh env        prints the settings for go build and go test -tags cuda
#   build.sh emulator   the emulated driver, and with "asan" the one with AddressSanitizer
#   build.sh kernels    kernels/*.cu -> kernels/images, by the pinned NVRTC
#   build.sh gstore     bin/gstore with CUDA
#   build.sh gpucheck DIR   tools/gpucheck and what it runs on a GPU machine
#   build.sh test       vet and tests of the tag on the emulated driver, in every schedule
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD here=$PWD/gpu/cuda cache=$PWD/.cache/cuda

need() { for tool in "$@"; do command -v "$tool" >/dev/null || { echo "gpu/cuda: $tool is missing: install it (Debian: apt install gcc g++ python3-pip)" >&2; exit 1; }; done; }

# wheel NAME: unpacks the pinned wheel below $cache/wheels.
wheel() {
  local dir=$cache/wheels
  test -e "$dir/$1.done" && return
  need python3
  mkdir -p "$dir"
  grep "^$1==" "$here/wheels.txt" >"$dir/$1.txt"
  python3 -m pip download -q --no-deps --require-hashes --only-binary=:all: --platform manylinux2014_x86_64 -d "$dir" -r "$dir/$1.txt"
  python3 -m zipfile -e "$dir/${1//-/_}"-*.whl "$dir"
  touch "$dir/$1.done"
}

header() {
  need gcc g++ ar
  test -e "$cache/lib/libcuda.a" && return
  local from=${CUDA_HOME:+$CUDA_HOME/include}
  if [ -z "$from" ]; then
    wheel nvidia-cuda-runtime-cu12
    from=$cache/wheels/nvidia/cuda_runtime/include
  fi
  mkdir -p "$cache/include" "$cache/lib"
  ln -sf "$from"/cuda.h "$cache/include/"
  # Names after preprocessing: macros rename functions (cuMemcpyHtoD is cuMemcpyHtoD_v2).
  gcc -E -P "$from/cuda.h" | tr '\n' ' ' | grep -oE 'CUresult +cu[A-Z][A-Za-z0-9_]*' | awk '{print "X(" $2 ")"}' | sort -u >"$cache/include/gs_names.h"
  ar rc "$cache/lib/libcuda.a" # cu asks for -lcuda; driver/jumps.c has the functions
}

settings() {
  echo "export CGO_ENABLED=1 CGO_CFLAGS='-O2 -g -I$cache/include' CGO_LDFLAGS='-L$cache/lib'"
}

# emulator DIR FLAGS...
emulator() {
  local dir=$1 objects=() stale=0
  shift
  mkdir -p "$dir"
  if [ -e "$dir/libcuda.so.1" ]; then
    [ -z "$(find "$here/emulator" "$here/kernels" -newer "$dir/libcuda.so.1" -name '*.*' ! -name '*.go' ! -path '*/images/*')" ] && return
  fi
  local flags=(-std=c++17 -O2 -march=native -Wall -Wextra -Wno-unknown-pragmas -Wno-unused-function -fPIC -ffp-contract=off "$@" -I"$cache/include" -I"$here/emulator" -I"$here/kernels")
  for f in "$here"/emulator/*.cpp "$here"/kernels/gstore.cu "$here"/emulator/testdata/bugs.cu; do
    local o=$dir/$(basename "$f").o
    objects+=("$o")
    case $f in
    *.cu) g++ "${flags[@]}" -O3 -x c++ -include "$here/emulator/emu.h" -c "$f" -o "$o" & ;;
    *) g++ "${flags[@]}" -c "$f" -o "$o" & ;;
    esac
  done
  for job in $(jobs -p); do wait "$job" || stale=1; done
  [ "$stale" = 0 ] || exit 1
  g++ -shared -pthread "$@" -Wl,-soname,libcuda.so.1 -o "$dir/libcuda.so.1" "${objects[@]}"
}

# gpucheck DIR: all of its archive.
gpucheck() {
  header
  eval "$(settings)"
  mkdir -p "$1"
  go test -tags cuda -c -ldflags "-s -w" -o "$1/cuda.test" ./gpu/cuda
  go build -tags cuda -ldflags "-s -w" -o "$1/gstore" ./tools/gstore-lab
  CGO_ENABLED=0 go build -ldflags "-s -w" -o "$1/gpucheck" ./tools/gpucheck
  cp tools/gpucheck/peers.py "$1"
}

case ${1:-} in
header) header ;;
env) header && settings ;;
emulator)
  header
  if [ "${2:-}" = asan ]; then emulator "$cache/asan" -O1 -g -fsanitize=address; else emulator "$cache/emulator"; fi
  ;;
gpucheck) gpucheck "$2" ;;
kernels)
  header
  wheel nvidia-cuda-nvrtc-cu12
  wheel nvidia-cuda-runtime-cu12
  python3 "$here/kernels/compile.py" "$cache/wheels" "$here/kernels"
  ;;
gstore)
  header
  eval "$(settings)"
  go build -tags cuda -o bin/gstore ./tools/gstore
  ;;
test)
  header
  eval "$(settings)"
  go vet -tags cuda ./gpu/cuda/... ./tools/...
  emulator "$cache/emulator"
  emulator "$cache/asan" -O1 -g -fsanitize=address
  export GSTORE_LIBCUDA=$cache/emulator/libcuda.so.1 GS_EMU_STRICT=1
  dry=$(mktemp -d)
  trap 'rm -r "$dry"' EXIT
  gpucheck "$dry" # whose tests are run here first
  cd gpu/cuda
  for schedule in lazy random:1 random:2 random:3; do
    echo "gpu/cuda, $schedule"
    only=
    [ $schedule = lazy ] || only='Conformance|ShowsMissing|Large|Maps|BadIndices|Links|Records|Captures|Samples'
    GS_EMU_SCHEDULE=$schedule "$dry/cuda.test" -test.run "$only"
  done
  echo "gpu/cuda, AddressSanitizer"
  LD_PRELOAD=$(g++ -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0,handle_segv=0,use_sigaltstack=0 \
    GSTORE_LIBCUDA=$cache/asan/libcuda.so.1 GS_EMU_SCHEDULE=random:1 "$dry/cuda.test" -test.run 'Conformance|BadIndices|AddressSanitizer|Maps|Records|Samples'
  cd "$root"
  echo "gpucheck, a dry run"
  GS_EMU_SCHEDULE=random:1 "$dry/gpucheck" run -dry || { cat "$dry/report.md" && exit 1; }
  status=0
  GSTORE_LIBCUDA=/nowhere/libcuda.so.1 "$dry/gstore" bench ops --device cuda 2>/dev/null || status=$?
  test $status = 1 || { echo "gstore ends with $status where the driver cannot be opened, expected 1: it is no mistake of the command line" >&2 && exit 1; }
  ;;
*) sed -n '2,11p' "$0" && exit 1 ;;
esac
