#!/usr/bin/env bash
# What can only be seen on a machine with an NVIDIA GPU, in one call there.
#
#   benches/gpu.sh build FOLDER   on any machine: compiles tests and benchmarks and
#                                 packs them, stripped, into FOLDER (below 64 MiB)
#   benches/gpu.sh run FOLDER     on the GPU's: tests, fuzz, corpus, benchmarks beside
#                                 torch and torch.compile where there is torch; prints
#                                 the rows for RESULTS.md, and of work that fills the
#                                 device (benches/large.rs) what it must reach; the same
#                                 checks through Vulkan where its loader is there
#
# `run` needs the driver and NVRTC (libnvrtc of the CUDA toolkit, on LD_LIBRARY_PATH
# or below /usr/local/cuda), and this repository's files. KILN_FUZZ_CASES, BUDGET_S,
# ITEMS and KILN_CORPUS_EVERY make it shorter; TINY=1 takes sizes for a simulated device,
# ONLY=large that work alone.
set -euo pipefail
cd "$(dirname "$0")/.."
usage() { sed -n '2,16s/^# \{0,1\}//p' benches/gpu.sh >&2; exit 2; }
[ $# -eq 2 ] || usage
folder="$2"

# Names and paths of what cargo has compiled, from its messages.
executables() {
    python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("reason") == "compiler-artifact" and message.get("executable"):
        print(message["target"]["name"], message["executable"])'
}

build() {
    mkdir -p "$folder/programs"
    {
        cargo test --no-run --message-format=json --lib --test faults --test fuzz --test corpus --test precision
        cargo bench --no-run --message-format=json --bench peers --bench large --bench survey
    } | executables | while read -r name path; do
        strip -o "$folder/programs/$name" "$path"
    done
    tar -C "$folder" -czf "$folder/programs.tgz" programs
    rm -r "$folder/programs"
    du -sh "$folder"
}

# Runs a check; the script goes on after a failure, and fails at its end.
failed=()
check() {
    printf '\n== %s (%ss)\n' "$1" "$SECONDS"
    "${@:2}" || failed+=("$1")
}

run() {
    for toolkit in /usr/local/cuda/lib64 /usr/local/cuda/targets/x86_64-linux/lib; do
        [ -d "$toolkit" ] && export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$toolkit"
    done
    programs="$(mktemp -d)"
    trap 'rm -rf "$programs"' EXIT
    tar -C "$programs" --strip-components=1 -xzf "$folder/programs.tgz"
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || echo "no nvidia-smi"
    export KILN_REQUIRE=cudasim CARGO_MANIFEST_DIR="$PWD" KILN_CORPUS="${KILN_CORPUS:-$PWD/tests/corpus}"
    large
    [ "${ONLY:-}" = large ] && finish
    check "kernels on the device" "$programs/kiln" runtime::cuda --skip compiler
    check "faults" "$programs/faults"
    check "precision" "$programs/precision"
    check "fuzz" env KILN_FUZZ_DEVICE=cuda:0 KILN_FUZZ_CASES="${KILN_FUZZ_CASES:-300}" "$programs/fuzz" agree
    check "corpus" env KILN_CORPUS_DEVICE=cuda:0 "$programs/corpus"
    if ldconfig -p | grep -q libvulkan; then
        check "kernels through Vulkan" env XDG_RUNTIME_DIR=/tmp "$programs/kiln" runtime::wgpu
        check "fuzz through Vulkan" env KILN_FUZZ_DEVICE=wgpu KILN_FUZZ_CASES="${KILN_FUZZ_CASES:-300}" "$programs/fuzz" agree
        check "corpus through Vulkan" env KILN_CORPUS_DEVICE=wgpu "$programs/corpus"
        check "benchmarks through Vulkan" "$programs/peers" --device wgpu
    else
        echo "skipped: no Vulkan loader"
    fi
    local lines
    lines="$programs/lines"
    check "benchmarks: kiln" bench "$lines" "$programs/peers" --device cuda
    check "benchmarks: kiln, tiles timed" bench "$lines.tuned" env KILN_TUNE=1 "$programs/peers" --device cuda
    if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
        check "benchmarks: torch" bench "$lines" python3 benches/peers_torch.py cuda eager
        check "benchmarks: torch.compile" bench "$lines" python3 benches/peers_torch.py cuda compile
        check "survey: what is furthest behind torch" python3 benches/survey.py "$programs/survey" --device cuda --large
    else
        echo "skipped: no torch with CUDA, so nothing to compare with"
    fi
    rows "$lines"
    finish
}

finish() {
    [ ${#failed[@]} -eq 0 ] || { printf '\nfailed: %s\n' "${failed[*]}"; exit 1; }
    exit 0
}

# Work that fills the device: by cuBLASLt where it is there, without it, and by torch.
large() {
    local lines="$programs/large_lines" tiny=()
    [ "${TINY:-}" = 1 ] && tiny=(--tiny)
    check "large: kiln" bench "$lines" "$programs/large" --device cuda "${tiny[@]}"
    check "large: products without cuBLASLt" bench "$lines.own" env KILN_CUBLAS=0 KILN_TUNE=1 ITEMS=m "$programs/large" --device cuda "${tiny[@]}"
    if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
        check "large: torch" bench "$lines.torch" python3 benches/large_torch.py cuda
    fi
    # Tensor cores by wgmma are of compute capability 9.0 alone.
    local least=0.55
    nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | grep -q '^9.0' && least=0.8
    check "large: what it must reach" python3 - "$lines" "$least" <<'PYTHON'
import json, os, sys

def read(path):
    if not os.path.exists(path):
        return {}
    lines = (json.loads(line) for line in open(path) if line.startswith("{"))
    return {one["item"]: one for one in lines}

kiln, own, torch = (read(sys.argv[1] + end) for end in ("", ".own", ".torch"))
product, attention, least_product = "m_matmul_bf16", "a_causal_attention_bf16", float(sys.argv[2])
rows = [(item, "of the copy's bandwidth", one["of_copy"], 0.85) for item, one in kiln.items() if item[0] in "1234"]
def ratio(title, mine, theirs, item, least):
    if item in mine and item in theirs:
        rows.append((item, title, theirs[item]["median_ms"] / mine[item]["median_ms"], least))
ratio("without cuBLASLt, of with it", own, kiln, product, least_product)
ratio("without cuBLASLt, of torch", own, torch, product, least_product)
ratio("of torch", kiln, torch, attention, 0.6)
print("| item | share | reached | wanted |\n|---|---|---|---|")
for item, title, reached, wanted in rows:
    print(f"| {item} | {title} | {reached:.2f} | {wanted} |")
missed = [item for item, _, reached, wanted in rows if reached < wanted]
print("missed: " + ", ".join(missed) if missed else "all reached")
# Sizes of a simulated device say nothing of speed.
sys.exit(bool(missed) and os.environ.get("TINY") != "1")
PYTHON
}

# Keeps a benchmark's lines.
bench() {
    local lines="$1"
    "${@:2}" | tee -a "$lines"
}

# The rows for RESULTS.md: milliseconds of a call, and the ratio to the best peer.
rows() {
    printf '\n== rows for benches/RESULTS.md\n'
    python3 - "$1" "$1.tuned" <<'PYTHON'
import json, sys

times = {}
for path in sys.argv[1:]:
    tuned = " tuned" if path.endswith(".tuned") else ""
    try:
        lines = open(path).read().splitlines()
    except FileNotFoundError:
        continue
    for line in lines:
        if line.startswith("{"):
            one = json.loads(line)
            if "median_ms" in one:
                times.setdefault(one["item"], {})[one.get("peer", "kiln") + tuned] = one["median_ms"]
peers = ["kiln", "kiln tuned", "torch eager", "torch compile"]
print("| item | " + " | ".join(f"{peer}, ms" for peer in peers) + " | kiln / best torch |")
print("|---" * (len(peers) + 2) + "|")
for item, of in times.items():
    torch = [of[peer] for peer in peers[2:] if peer in of]
    kiln = [of[peer] for peer in peers[:2] if peer in of]
    ratio = f"{min(kiln) / min(torch):.2f}" if torch and kiln else ""
    print(f"| {item} | " + " | ".join(f"{of[p]:.4f}" if p in of else "" for p in peers) + f" | {ratio} |")
PYTHON
}

case "$1" in
build) build ;;
run) run ;;
*) usage ;;
esac
