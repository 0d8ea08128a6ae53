#!/usr/bin/env bash
# Runs the contents of a wgpu bundle, on a machine with Vulkan; `run.sh` without arguments lists its
# commands. It writes only to this folder and to the files that are named.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

usage() {
    cat <<'END'
run.sh tests [FILTER]         runs the op table on the first adapter, tests of larger sizes (binding limits, products of many tiles, many elements,
                              timestamps), and layers compared with PyTorch's results. Fails without an adapter. TERNION_EXPECT=cuda,wgpu also runs the
                              table and the layers on cuda:0, and fails if either device is missing.
                              With FILTER, runs only the op table tests whose names contain it, on all devices.
run.sh coverage DIR           runs the whole op table on all devices and writes the results to DIR, for `cargo xtask coverage --results`.
run.sh bench [ARGUMENT..]     runs ternion-bench --device wgpu; --list prints the cases, --only PREFIX.. selects some.
run.sh compare [ARGUMENT..]   measures Ternion on wgpu and, with CUDA, the CUDA backend and PyTorch alternately, and writes results.jsonl; see --help.
run.sh check [ARGUMENT..]     runs the correctness checks and writes checks.jsonl: the op table, tests of larger sizes, training compared with the CPU.
run.sh app NAME [..]          runs a program of apps/: cifar10, compare, gpt2, housing, image_encoder, mnist, pytorch_weights, softmax_regression, tiny_gpt
END
}

# The programs, unpacked next to this script.
packed="$here/programs.tar.xz"
# The folder may contain the files of another bundle.
unpacked="$here/unpacked-$(cksum < "$packed" | tr ' ' '-')"
if [ ! -e "$unpacked" ]; then
    tar -xJf "$packed" -C "$here" 2>/dev/null || python3 -m tarfile -e "$packed" "$here"
    touch "$unpacked"
fi

# The devices that must be available.
export TERNION_EXPECT="${TERNION_EXPECT:-wgpu}"

tests() {
    if [ $# -gt 0 ]; then
        "$here/tests/ops" "$@"
        return
    fi
    local failed=() device
    for device in wgpu cuda; do
        case ",$TERNION_EXPECT," in
            *",$device"[,:]*) ;;
            *) continue ;;
        esac
        printf '\n== ops ::%s\n' "$device"
        "$here/tests/ops" "::$device" || failed+=("ops ::$device")
    done
    printf '\n== adapter\n'
    "$here/tests/adapter" || failed+=("adapter")
    printf '\n== transformers\n'
    "$here/tests/transformers" || failed+=("transformers")
    if [ ${#failed[@]} -gt 0 ]; then
        printf 'failed: %s\n' "${failed[@]}"
        return 1
    fi
}

command="${1:-}"
[ $# -gt 0 ] && shift
case "$command" in
    tests) tests "$@" ;;
    coverage)
        [ $# -eq 1 ] || { printf 'error: expected a folder\n' >&2; usage >&2; exit 2; }
        mkdir -p "$1"
        TERNION_COVERAGE_OUT="$(cd "$1" && pwd)" exec "$here/tests/ops"
        ;;
    bench) exec "$here/ternion-bench" --device wgpu "$@" ;;
    compare) exec python3 "$here/peers/compare.py" run --bundle "$here" --device wgpu "$@" ;;
    check) exec python3 "$here/peers/compare.py" check --bundle "$here" --device wgpu "$@" ;;
    app)
        [ $# -ge 1 ] || { printf 'error: expected the name of a program\n' >&2; usage >&2; exit 2; }
        name="$1"
        shift
        # One executable contains all programs and selects one by argv[0].
        exec -a "$name" "$here/all_apps" "$@"
        ;;
    "") usage ;;
    *) printf 'error: no command %s\n' "$command" >&2; usage >&2; exit 2 ;;
esac
