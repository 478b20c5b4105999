#!/usr/bin/env bash
# Builds the page and serves it: `bash examples/web/build.sh [--no-cpu] [PORT]`, where `--no-cpu` leaves out what
# makes the CPU device fast. With `--tests FOLDER`, builds what tests/web.rs looks at instead, quickly, and
# serves nothing.
#
# Where rustup has the target wasm32-unknown-unknown, its compiler is used; else Debian's
# (apt-get install rustc-web cargo-web rust-web-src lld-19).
set -euo pipefail
cd "$(dirname "$0")"

out="$PWD/../../target/web/site" tests="" options=()
if [ "${1:-}" = "--tests" ]; then
    # It takes longer to compile than to run.
    out="$2" tests=yes options=(--features corpus --config 'profile.release.opt-level=0'
        --config 'profile.release.package.kiln-simd.opt-level=1')
fi
if [ "${1:-}" = "--no-cpu" ]; then
    options=(--no-default-features)
    shift
fi
mkdir -p "$out"
out="$(cd "$out" && pwd)"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/../../target/web}"

target=wasm32-unknown-unknown
build=(build --lib --release "${options[@]}" --target "$target")
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
cargo run --quiet --package kiln-web-bindings -- "$CARGO_TARGET_DIR/$target/release/kiln_web.wasm" "$out/pkg"
[ -z "$tests" ] || exit 0

mkdir -p "$out/data"
cp index.html page.js page.css "$out"
cp ../data/digits.csv.gz "$out/data"
printf 'the library: %s bytes, %s compressed\n' "$(stat -c %s "$out"/pkg/*.wasm)" "$(gzip -9c "$out"/pkg/*.wasm | wc -c)"
exec python3 -m http.server --directory "$out" "${1:-8000}"
