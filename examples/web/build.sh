#!/usr/bin/env bash
# Builds the page and serves it: `bash examples/web/build.sh [--no-cpu] [PORT]`, where `--no-cpu` leaves out what
# makes the CPU device fast. With `--tests FOLDER`, builds what tests/web.rs looks at instead, quickly, and
# serves nothing.
#
# Where rustup has the target wasm32-unknown-unknown, its compiler is used; else Debian's
# (apt-get install rustc-web cargo-web rust-web-src lld-19).
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"

out="$here/../../target/web/site" tests="" options=() page=()
if [ "${1:-}" = "--tests" ]; then
    # It takes longer to compile than to run.
    out="$2" tests=yes options=(--config 'profile.release.opt-level=0'
        --config 'profile.release.package.kiln-simd.opt-level=1')
fi
if [ "${1:-}" = "--no-cpu" ]; then
    page=(--no-default-features)
    shift
fi
mkdir -p "$out"
out="$(cd "$out" && pwd)"
cd "$here"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/../../target/web}"

target=wasm32-unknown-unknown

# Builds the library with some features, and the script that calls it, into a folder.
library() {
    local folder="$1" build
    shift
    build=(build --lib --release "${options[@]}" "$@" --target "$target")
    if rustup target list --installed 2>/dev/null | grep -qx "$target"; then
        cargo "${build[@]}"
    elif [ -d "/usr/lib/rustlib/src/rust/library/std" ] && command -v wasm-ld-19 >/dev/null; then
        RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=wasm-ld-19 \
            /usr/bin/cargo "${build[@]}" -Zbuild-std=std,panic_abort
    else
        echo "no toolchain for $target: rustup target add $target, or" \
            "apt-get install rustc-web cargo-web rust-web-src lld-19" >&2
        exit 3
    fi
    local made="$CARGO_TARGET_DIR/$target/release/kiln_web.wasm"
    cargo run --quiet --package kiln-web-bindings -- "$made" "$out/$folder"
}

if [ -n "$tests" ]; then
    library pkg --features chat,corpus
    exit 0
fi
library pkg "${page[@]}"
# The language model's is larger, and is loaded when a file is chosen.
library chat --features chat
for made in "$out"/*/*.wasm; do
    printf '%s: %s bytes, %s compressed\n' "$made" "$(stat -c %s "$made")" "$(gzip -9c "$made" | wc -c)"
done
mkdir -p "$out/data"
cp ./*.html ./*.js ./*.css "$out"
cp ../data/digits.csv.gz "$out/data"
exec python3 -m http.server --directory "$out" "${1:-8000}"
