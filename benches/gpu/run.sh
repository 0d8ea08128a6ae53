#!/usr/bin/env bash
# Runs the contents of a bundle, on a machine with an NVIDIA GPU and NVRTC; `run.sh` without
# arguments lists its commands. It writes only to this folder and to the files that are named.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

usage() {
    cat <<'END'
run.sh tests [FILTER]         runs the op table on cuda:0, the tests that need a CUDA device, and the table's smallest shapes in memory that is
                              filled with NaN at allocation. Fails without a GPU. With FILTER, runs only the op table tests whose names contain it.
run.sh table                  runs only the op table. PARTS=1 SIDE=1 as below, THREADS=N threads per part; LOGS=DIR keeps the log of each part,
                              and parts that have passed are skipped.
run.sh sanitize [TOOL..]      runs compute-sanitizer (memcheck, initcheck, synccheck, racecheck) over the smallest shapes, forward and backward, without
                              the memory pool (composed functions only with contiguous f64 and f32 tensors, because their ops run with all layouts
                              and dtypes); except racecheck, also over few sizes of the kernels of products and attention, with all tiles.
                              PARTS=24 splits the table, SIDE=12 parts run at the same time; LOGS=DIR as above.
run.sh bench [ARGUMENT..]     runs ternion-bench; --list prints the cases, --only PREFIX.. selects some.
run.sh compare [ARGUMENT..]   measures Ternion and PyTorch alternately, and the CUDA C++ baselines, and writes results.jsonl; see --help.
run.sh errors [ARGUMENT..]    measures the errors of Ternion's and PyTorch's attention relative to float64 and writes errors.jsonl; --only PREFIX..
                              selects cases.
run.sh check [ARGUMENT..]     runs the op table twice, kernels a thousand times, the sanitizer's tools, training and memory, and writes checks.jsonl;
                              --only NAME.. selects checks.
run.sh profile CASE [DIR]     profiles a benchmark case with Nsight Compute and writes metrics as text to DIR (default: profiles).
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

# Compiled kernels: those of the bundle if it contains any, and those that are compiled here.
export TERNION_CACHE="${TERNION_CACHE:-$here/cache}"
packed="$here/kernel-cache.tar.xz"
if [ -f "$packed" ]; then
    unpacked="$TERNION_CACHE/unpacked-$(cksum < "$packed" | tr ' ' '-')"
    if [ ! -e "$unpacked" ]; then
        mkdir -p "$TERNION_CACHE"
        tar -xJf "$packed" -C "$TERNION_CACHE" 2>/dev/null || python3 -m tarfile -e "$packed" "$TERNION_CACHE"
        touch "$unpacked"
    fi
fi

tests() {
    export TERNION_EXPECT=cuda
    # Reports a missing device immediately, even if a filter excludes the test that would report it.
    "$here/ternion-bench" start context > /dev/null
    local failed=()
    if [ $# -gt 0 ]; then
        "$here/tests/ops" "$@"
        return
    fi
    for runner in "ops cuda" cuda; do
        printf '\n== %s\n' "$runner"
        # shellcheck disable=SC2086  # a runner's filter is a separate word
        set -- $runner
        local name="$1"
        shift
        "$here/tests/$name" "$@" || failed+=("$name")
    done
    printf '\n== ops cuda, smallest shapes, fresh memory filled with NaN\n'
    # A kernel that reads memory before it is written has wrong results.
    TERNION_CUDA_POISON=1 TERNION_TABLE=smallest "$here/tests/ops" cuda || failed+=("ops, poisoned")
    if [ ${#failed[@]} -gt 0 ]; then
        printf 'failed: %s\n' "${failed[@]}"
        return 1
    fi
}

# Runs a command unless it has passed before. Its output is written to LOG.failed, which is renamed
# to LOG.log if it passes.
once() {
    local log="$1"
    shift
    [ ! -e "$log.log" ] || return 0
    "$@" > "$log.failed" 2>&1 || return 1
    mv "$log.failed" "$log.log"
}

show() {
    cat "$1.log" 2> /dev/null || cat "$1.failed"
}

# Runs the op table in parts, each in a separate process.
table() {
    export TERNION_EXPECT=cuda PARTS="${PARTS:-1}"
    "$here/ternion-bench" start context > /dev/null
    # Logs of other builds and of other numbers of parts are in other folders.
    local folder logs part failed=()
    folder="${LOGS:-$(mktemp -d)}"
    logs="$folder/$(cksum < "$here/tests/ops" | tr ' ' '-')-$PARTS"
    mkdir -p "$logs"
    seq "$PARTS" | xargs -P "${SIDE:-1}" -I {} "$here/run.sh" table_part {} "$logs" || true
    for part in $(seq "$PARTS"); do
        printf '\n== part %s of %s\n' "$part" "$PARTS"
        show "$logs/$part"
        [ -e "$logs/$part.log" ] || failed+=("$part")
    done
    [ -n "${LOGS:-}" ] || rm -r "$folder"
    if [ ${#failed[@]} -gt 0 ]; then
        printf 'failed: part %s\n' "${failed[@]}"
        return 1
    fi
}

table_part() {
    local part="$1" logs="$2"
    export TERNION_PART="$part/$PARTS"
    once "$logs/$part" "$here/tests/ops" cuda ${THREADS:+--test-threads "$THREADS"}
}

# Modules of tests/kernels that the sanitizer runs in addition to the table, whose smallest shapes
# do not use these kernels. They use few sizes in this case.
KERNELS=(tiles attention attention_ladder gemm_epilogues split_k gemm_row_sums bf16x6 ladder)

sanitize() {
    # Reported here once instead of by each part.
    command -v compute-sanitizer > /dev/null || { printf 'error: compute-sanitizer (of the CUDA toolkit) is not in PATH\n' >&2; return 1; }
    "$here/ternion-bench" start context > /dev/null
    # The pool and the table's margins and poison would hide invalid accesses from the tools. All
    # launches are made by the thread that calls the op, so that the tools report it.
    export TERNION_EXPECT=cuda TERNION_TABLE=brief TERNION_CUDA_POOL=0 TERNION_GUARD=0 TERNION_CUDA_LAUNCHER=0
    local failed=() tool threads part parts sides names folder logs
    folder="${LOGS:-$(mktemp -d)}"
    logs="$folder/$(cat "$here/tests/ops" "$here/tests/cuda" | cksum | tr ' ' '-')"
    mkdir -p "$logs"
    [ $# -gt 0 ] || set -- memcheck initcheck synccheck racecheck
    for tool in "$@"; do
        printf '\n== %s\n' "$tool"
        # racecheck loses track of launches from several threads, and may then wait forever.
        threads=8
        [ "$tool" != racecheck ] || threads=1
        # memcheck takes longer per op the more ops a process has run, so it runs in parts. A
        # process keeps about one core busy, mostly by preparing kernels, and the kernels of one op
        # are in one part. racecheck has one thread and eight processes: more of them would
        # alternate on the device (32 were slower).
        parts=24 sides=$(($(nproc) * 3 / 4))
        [ "$sides" -ge 4 ] || sides=4
        [ "$tool" != racecheck ] || parts=8 sides=8
        parts="${PARTS:-$parts}"
        mapfile -t names < <(seq "$parts")
        # racecheck tracks accesses of threads to shared memory; in most of these kernels,
        # asynchronous copies write it instead of threads.
        [ "$tool" = racecheck ] || names=("${KERNELS[@]}" "${names[@]}")
        # SIDE parts at a time, each in a separate process.
        printf '%s\n' "${names[@]}" | xargs -P "${SIDE:-$sides}" -I {} "$here/run.sh" sanitize_part "$tool" {} "$parts" "$threads" "$logs/$tool-of-$parts" || failed+=("$tool")
        for part in "${names[@]}"; do
            show "$logs/$tool-of-$parts-$part"
        done
    done
    [ -n "${LOGS:-}" ] || rm -r "$folder"
    if [ ${#failed[@]} -gt 0 ]; then
        printf 'failed: %s\n' "${failed[@]}"
        return 1
    fi
}

# Runs one part under a tool: a part of the table by its number, a module of tests/kernels by its
# name. The skipped tests run the same kernels. Tests of rejected calls pass indices out of range,
# which only memcheck should check.
sanitize_part() {
    local tool="$1" part="$2" parts="$3" threads="$4" log="$5-$2"
    local skipped=(--skip ::adversarial:: --skip ::double_backward:: --skip ::composed::)
    [ "$tool" = memcheck ] || skipped+=(--skip ::rejects::)
    local program=("$here/tests/cuda" "kernels::$part::")
    case "$part" in
        [0-9]*)
            export TERNION_PART="$part/$parts"
            program=("$here/tests/ops" ::cuda "${skipped[@]}")
            ;;
        *)
            # initcheck does not track stores by TMA, which most of these kernels use. Fresh memory
            # is filled with NaN, so that memory that is read before it is written shows in the
            # results, which the tests compare.
            [ "$tool" != initcheck ] || export TERNION_CUDA_POISON=1
            ;;
    esac
    once "$log" compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 20 "${program[@]}" --test-threads "$threads"
}

command="${1:-}"
[ $# -gt 0 ] && shift
case "$command" in
    tests) tests "$@" ;;
    table) table ;;
    table_part) table_part "$@" ;;
    sanitize) sanitize "$@" ;;
    sanitize_part) sanitize_part "$@" ;;
    bench) exec "$here/ternion-bench" "$@" ;;
    compare) exec python3 "$here/peers/compare.py" run --bundle "$here" "$@" ;;
    errors) exec python3 "$here/peers/attention_errors.py" run --bundle "$here" "$@" ;;
    check) exec python3 "$here/peers/compare.py" check --bundle "$here" "$@" ;;
    profile)
        [ $# -ge 1 ] || { printf 'error: expected the name of a case\n' >&2; usage >&2; exit 2; }
        exec "$here/ternion-bench" profile "$1" --out "${2:-$here/profiles}" --manifest "$here/bundle.json"
        ;;
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
