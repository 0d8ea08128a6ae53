#!/usr/bin/env bash
# Runs what a bundle holds, on a machine with an NVIDIA GPU and NVRTC; `run.sh` alone lists its commands. Nothing is written outside this folder and the files that are named.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

usage() {
    cat <<'END'
run.sh tests [FILTER]         the op table on cuda:0, rows of every length, every tile, what only a CUDA device does, and the table's smallest
                              shapes in memory that is filled with NaN when it is given out; a missing GPU fails.
                              With FILTER the op table alone, those tests whose names contain it
run.sh table                  the op table alone, PARTS=1 SIDE=1 as below, THREADS=N each; LOGS=DIR keeps the log of each part there, and parts that have passed are not run again
run.sh sanitize [TOOL..]      compute-sanitizer (memcheck, initcheck, synccheck, racecheck) over the smallest shapes, forward and backward, on bare memory
                              (functions that are composed of ops: dense, in f64 and f32 alone, since their ops run in all layouts and dtypes), and
                              but for racecheck over few sizes of products by every tile, of fused ones and of attention;
                              PARTS=24 SIDE=12 cuts the table into so many parts, so many parts side by side; LOGS=DIR as above
run.sh bench [ARGUMENT..]     ternion-bench; --list names its cases, --only PREFIX.. picks some
run.sh compare [ARGUMENT..]   Ternion and PyTorch in turn, and the CUDA C++ peers, into results.jsonl; --help tells its arguments
run.sh errors [ARGUMENT..]    attention beside float64, Ternion's and PyTorch's of the same bits, into errors.jsonl; --only PREFIX.. picks some
run.sh check [ARGUMENT..]     the op table twice, kernels a thousand times, the sanitizer's tools, training and memory into checks.jsonl; --only NAME.. runs some
run.sh profile CASE [DIR]     one benchmark case under Nsight Compute; key figures as text in DIR (here: profiles)
run.sh app NAME [..]          a program of apps/: cifar10, compare, gpt2, housing, image_encoder, mnist, pytorch_weights, softmax_regression, tiny_gpt
END
}

# The programs, unpacked beside this script.
packed="$here/programs.tar.xz"
# The folder may hold what another bundle brought.
unpacked="$here/unpacked-$(cksum < "$packed" | tr ' ' '-')"
if [ ! -e "$unpacked" ]; then
    tar -xJf "$packed" -C "$here" 2>/dev/null || python3 -m tarfile -e "$packed" "$here"
    touch "$unpacked"
fi

# Compiled kernels: those of the bundle where it brings them, and what is compiled here.
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
    # Said at once and in words, also where a filter leaves out the test that would say it.
    "$here/ternion-bench" start context > /dev/null
    local failed=()
    if [ $# -gt 0 ]; then
        "$here/tests/ops" "$@"
        return
    fi
    for runner in "ops cuda" cuda; do
        printf '\n== %s\n' "$runner"
        # shellcheck disable=SC2086  # a runner's filter is a word of its own
        set -- $runner
        local name="$1"
        shift
        "$here/tests/$name" "$@" || failed+=("$name")
    done
    printf '\n== ops cuda, smallest shapes, fresh memory filled with NaN\n'
    # What a kernel reads before it is written is seen by its results.
    TERNION_CUDA_POISON=1 TERNION_TABLE=smallest "$here/tests/ops" cuda || failed+=("ops, poisoned")
    if [ ${#failed[@]} -gt 0 ]; then
        printf 'failed: %s\n' "${failed[@]}"
        return 1
    fi
}

# Runs a command unless it has passed: what it prints goes into LOG.failed, which is LOG.log once it has passed.
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

# The op table in parts, each a process of its own.
table() {
    export TERNION_EXPECT=cuda PARTS="${PARTS:-1}"
    "$here/ternion-bench" start context > /dev/null
    # Logs of another program, or of other parts, are no part of this run.
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

# What the sanitizer runs beside the table, whose smallest shapes do not reach these kernels: modules of tests/kernels, which take few sizes then.
KERNELS=(tiles attention attention_ladder gemm_epilogues split_k gemm_row_sums bf16x6 ladder)

sanitize() {
    # Said once and in words, not by each part.
    command -v compute-sanitizer > /dev/null || { printf 'error: compute-sanitizer (of the CUDA toolkit) is not in PATH\n' >&2; return 1; }
    "$here/ternion-bench" start context > /dev/null
    # Neither the pool nor the table's own margins and poison: the tools could not see beyond them.
    # And every launch by the thread whose op it is, which the tools name.
    export TERNION_EXPECT=cuda TERNION_TABLE=brief TERNION_CUDA_POOL=0 TERNION_GUARD=0 TERNION_CUDA_LAUNCHER=0
    local failed=() tool threads part parts sides names folder logs
    folder="${LOGS:-$(mktemp -d)}"
    logs="$folder/$(cat "$here/tests/ops" "$here/tests/cuda" | cksum | tr ' ' '-')"
    mkdir -p "$logs"
    [ $# -gt 0 ] || set -- memcheck initcheck synccheck racecheck
    for tool in "$@"; do
        printf '\n== %s\n' "$tool"
        # racecheck loses track of launches that come from several threads, and may then wait for ever.
        threads=8
        [ "$tool" != racecheck ] || threads=1
        # memcheck takes longer for each op the more of them a process has run: in parts. A process keeps about one core busy, most of the time by preparing
        # kernels, and those of one op are in one part. racecheck has one thread: eight processes, since more of them take turns on the device (32 were slower).
        parts=24 sides=$(($(nproc) * 3 / 4))
        [ "$sides" -ge 4 ] || sides=4
        [ "$tool" != racecheck ] || parts=8 sides=8
        parts="${PARTS:-$parts}"
        mapfile -t names < <(seq "$parts")
        # racecheck follows what threads do to shared memory, which in most of these kernels copies write that no thread makes.
        [ "$tool" = racecheck ] || names=("${KERNELS[@]}" "${names[@]}")
        # SIDE parts at a time, each a process of its own.
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

# One part of what a tool runs: of the table by its number, of tests/kernels by its name. The checks that are skipped run the same kernels; those of what must
# be rejected give them indices out of range, for memcheck to see.
sanitize_part() {
    local tool="$1" part="$2" parts="$3" threads="$4" log="$5-$2"
    local skipped=(--skip ::hostile:: --skip ::twice:: --skip ::composed::)
    [ "$tool" = memcheck ] || skipped+=(--skip ::rejects::)
    local program=("$here/tests/cuda" "kernels::$part::")
    case "$part" in
        [0-9]*)
            export TERNION_PART="$part/$parts"
            program=("$here/tests/ops" ::cuda "${skipped[@]}")
            ;;
        *)
            # initcheck does not see what the tensor memory accelerator stores, and most of these kernels store by it: fresh memory is NaN, so that
            # what is read before it is written shows in the results, which the tests compare.
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
        # One executable, which runs the program by whose name it is called.
        exec -a "$name" "$here/all_apps" "$@"
        ;;
    "") usage ;;
    *) printf 'error: no command %s\n' "$command" >&2; usage >&2; exit 2 ;;
esac
