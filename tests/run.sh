#!/usr/bin/env bash
# Checks everything: formatting, lints, docs, features, tests, the corpus, the
# examples. Needs Rust (rustup's minimal profile plus clippy and rustfmt);
# everything else comes with cargo. Stops at the first failure.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s (%ss)\n' "$*" "$SECONDS"; }

step "format"
cargo fmt --check

step "clippy, every target"
cargo clippy --quiet --all-targets -- -D warnings

step "feature matrix"
for features in "--no-default-features" "--no-default-features --features ndarray" "--all-features"; do
    # shellcheck disable=SC2086 # the words are options
    cargo clippy --quiet --lib $features -- -D warnings
done

step "at most 40 crates without default features"
crates=$(cargo tree --no-default-features --edges normal --prefix none | sed 's/ (.*//' | sort -u | wc -l)
echo "$crates crates"
[ "$crates" -le 41 ] || { echo "too many crates: $crates, kiln included"; exit 1; }

if rustup target list --installed 2>/dev/null | grep -qx wasm32-unknown-unknown; then
    step "wasm32"
    cargo check --quiet --lib --target wasm32-unknown-unknown --no-default-features
else
    echo "skipped: wasm32-unknown-unknown is not installed (rustup target add wasm32-unknown-unknown)"
fi

step "docs"
RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps --all-features

step "tests"
cargo test --all-features --no-fail-fast

step "examples"
cargo build --quiet --release --examples
cargo run --quiet --release --example quickstart
cargo run --quiet --release --example digits_knn -- --device cpu | tee target/digits_knn.txt
grep -q 'correct 767 of 797' target/digits_knn.txt

step "benchmarks compile and agree on a short run"
ITEMS=2,5c,10a BUDGET_S=0.1 cargo bench --quiet --bench peers -- --device cpu

step "done"
