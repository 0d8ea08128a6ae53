#!/usr/bin/env bash
# Runs the contents of a wgpu bundle, on a machine with Vulkan; `run.sh` without arguments lists its
# commands. It writes only to this folder and to the files that are named.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

usage() {
    cat <<'END'
run.sh tests [FILTER]         the op table on the first adapter, and what the table is too small for: limits of bindings, products of many tiles, many
                              elements, times; layers beside PyTorch's figures; a missing adapter fails. TERNION_EXPECT=cuda,wgpu runs the table and the
                              layers on cuda:0 too, and fails if either is missing.
                              With FILTER the op table alone, on every device, those tests whose names contain it
run.sh coverage DIR           the whole op table on every device; what was found goes into DIR, for `cargo xtask coverage --results`
run.sh bench [ARGUMENT..]     ternion-bench --device wgpu; --list names its cases, --only PREFIX.. picks some
run.sh compare [ARGUMENT..]   Ternion on wgpu, and where there is CUDA the CUDA backend and PyTorch, in one go into results.jsonl; --help tells its arguments
run.sh check [ARGUMENT..]     what must pass beside being fast, into checks.jsonl: the op table, what it is too small for, training beside the CPU's
run.sh app NAME [..]          a program of apps/: cifar10, compare, gpt2, housing, image_encoder, mnist, pytorch_weights, softmax_regression, tiny_gpt
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
        # One executable, which runs the program by whose name it is called.
        exec -a "$name" "$here/all_apps" "$@"
        ;;
    "") usage ;;
    *) printf 'error: no command %s\n' "$command" >&2; usage >&2; exit 2 ;;
esac
