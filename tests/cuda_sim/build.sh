#!/usr/bin/env bash
# Builds the simulated CUDA device (a libcuda and a libnvrtc) into a folder,
# to be put on LD_LIBRARY_PATH where there is no GPU. Needs g++ on x86-64. The folder
# `cublas` in it holds a libcublasLt: on the path too, it computes large plain products. `nccl` holds a libnccl.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
out="${1:?usage: build.sh FOLDER}"
mkdir -p "$out"
cp "$here/device.h" "$here/../../kernels/prelude.cuh" "$out/"
flags=(-std=c++17 -O2 -march=x86-64-v3 -fPIC -shared -Wall -Wno-attributes)
# How kernels are compiled. What stands before each of them is compiled once,
# here: that is most of the time that a kernel takes. The headers of C do, which are read faster.
kernel_flags="-std=c++17 -nostdinc++ -O1 -ffp-contract=off -fwrapv -march=x86-64-v3 -fPIC -w"
printf '#include "device.h"\n#include "prelude.cuh"\n' >"$out/before.h"
# shellcheck disable=SC2086 # the words are options
g++ $kernel_flags -x c++-header "$out/before.h" -o "$out/before.h.gch"
g++ "${flags[@]}" -Wl,-soname,libcuda.so.1 "$here/machine.cpp" "$here/driver.cpp" -o "$out/libcuda.so.1" -ldl
g++ "${flags[@]}" -DKERNEL_FLAGS="\"$kernel_flags\"" -Wl,-soname,libnvrtc.so.13 "$here/compiler.cpp" -o "$out/libnvrtc.so.13" -ldl
mkdir -p "$out/cublas"
g++ "${flags[@]}" -Wl,-soname,libcublasLt.so.13 "$here/cublaslt.cpp" -o "$out/cublas/libcublasLt.so.13" -L"$out" -l:libcuda.so.1
mkdir -p "$out/nccl"
g++ "${flags[@]}" -Wl,-soname,libnccl.so.2 "$here/nccl.cpp" -o "$out/nccl/libnccl.so.2" -L"$out" -l:libcuda.so.1 -lrt
