#!/usr/bin/env python3
"""Measures the errors of Ternion's and PyTorch's attention relative to float64, with bit-identical
operands. FlashAttention's rule allows at most twice the error of PyTorch's attention.

    attention_errors.py run --bundle DIR [--out errors.jsonl]
        on the GPU machine, with PyTorch: measures case by case
    attention_errors.py write errors.jsonl.. docs/kernels/attention.md
        on any machine: writes the tables between the page's markers

The reference is computed in float64 on the GPU from the same operands (attention_reference.py), for
all heads and queries. The cases (attention_cases.py) are those of the benchmark, in bf16 and f16:

- `shapes/..`: 16384 tokens, with head_dim 192 added, compared with scaled_dot_product_attention by
  cuDNN and by flash attention. With dropout, each program drops different weights and is compared
  with a reference that drops the same ones: attention of the identity with the same seed returns
  the dropout mask. The mask is computed only for the first sequence of the batch, and only its
  results are compared.
- `varlen/..`: sequences of different lengths, compared with varlen_attn, which is flash attention,
  and with cuDNN's attention of one sequence after another.
- `decode/..`: forward of few queries of many keys, with grouped heads.
- `bias/..`: an additive mask that needs a gradient, compared with memory-efficient attention and
  with cuDNN. Flash attention does not support it.
- `forward/..`: forward of the lengths of the attention ladder and of the study of forward tiles
  that `shapes/..` lacks, in bf16.

Cases `rows/..` are the attention rows of the op table (attention_rows.jsonl) in f16 and bf16, with
several draws of operands each. They are compared with the same attention by single ops in PyTorch,
each of which rounds to the operands' dtype.

Ternion runs as `ternion-bench attend`; tensors are exchanged as safetensors files in memory.
--resume continues an interrupted run.
"""

import argparse
import contextlib
import json
import pathlib
import time

from attention_cases import all_cases, draw_operands
from attention_programs import Ternion, Torch, TorchVarlen, attend_op_by_op
from attention_tables import MARKERS, render
from compare import Results, describe_machine, duration, positive, read_single_run, write_atomically
from pages import replace_between_markers

HERE = pathlib.Path(__file__).resolve().parent
ROWS = HERE / "attention_rows.jsonl"
DEVICE = "cuda"


def list_baselines():
    """Returns kind of cases -> the programs of PyTorch that Ternion is compared with."""
    cudnn, flash = Torch("torch/cudnn", "CUDNN_ATTENTION"), Torch("torch/flash", "FLASH_ATTENTION")
    both = [cudnn, flash]
    return dict(shapes=both, decode=both, forward=both, varlen=[TorchVarlen(), cudnn], bias=[Torch("torch/efficient", "EFFICIENT_ATTENTION"), cudnn])


# ---------------------------------------------------------------- measurements


def reference_options(case, operands):
    from attention_reference import Options

    window = case.options.get("window")
    # A window that masks nothing may be larger than an integer can be.
    window = None if window is None else min(window, sum(map(sum, case.shapes)))
    return Options(
        case.options["scale"],
        case.options["causal"],
        window,
        operands.get("mask"),
        case.dropout,
        case.options.get("upper_left", False),
        case.mask_gradient,
    )


def compute_exact(case, operands, dy, dropout_mask, batches=None):
    """Returns the float64 results of a case by name, of the first `batches` if given."""
    from attention_reference import reference, reference_varlen

    options = reference_options(case, operands)
    if case.ends is not None:
        return reference_varlen(*(operands[name] for name in "qkv"), case.ends, options, dy, dropout_mask).to_dict()
    q, k, v = (operands[name][:batches] for name in "qkv")
    return reference(q, k, v, options, None if dy is None else dy[:batches], dropout_mask).to_dict()


def find_case_dropout_mask(program, case, operands, seed, batches):
    """Returns the dropout mask of a program; None without dropout."""
    from attention_reference import find_dropout_mask, heads_first, rows_first

    if not case.dropout:
        return None
    others = {name: operand for name, operand in operands.items() if name not in "qkv"}

    def attend(q, k, v):
        return program.attend(dict(q=q, k=k, v=v, **others), case, seed, batches)["y"]

    def attend_to_rows(q, k, v):
        return heads_first(attend(*map(rows_first, (q, k, v))))

    q, k, v = (operands[name] for name in "qkv")
    if case.ends is not None:
        return find_dropout_mask(attend_to_rows, *map(heads_first, (q, k, v)), 1)
    return find_dropout_mask(attend, q, k, v, batches or q.shape[0])


class ExactResults:
    """The float64 results of a case. Without dropout they are computed once for all programs."""

    def __init__(self, case, operands, dy):
        self.case, self.operands, self.dy, self.without_dropout = case, operands, dy, None

    def compute(self, dropout_mask, batches):
        if dropout_mask is None and self.without_dropout is not None:
            return self.without_dropout
        results = compute_exact(self.case, self.operands, self.dy, dropout_mask, batches)
        if dropout_mask is None:
            self.without_dropout = results
        return results


def measure_shape(case, programs, seed, device):
    """Yields a line for each program, with its errors or with the reason why it failed."""
    import torch

    from attention_reference import check_kept_fraction, measure_error

    operands, dy = draw_operands(case, seed, device)
    exact, batches = ExactResults(case, operands, dy), 1 if case.dropout else None
    for program in programs:
        line = dict(case=case.name, impl=program.impl)
        try:
            results = program.attend(operands, case, seed, batches, dy)
            dropout_mask = find_case_dropout_mask(program, case, operands, seed, batches)
            if dropout_mask is not None:
                check_kept_fraction(dropout_mask, reference_options(case, operands))
            expected = exact.compute(dropout_mask, batches)
            yield dict(line, errors={name: measure_error(results[name], value) for name, value in expected.items()})
        # A PyTorch that lacks a baseline raises an ImportError.
        except (RuntimeError, ValueError, ImportError) as error:
            yield dict(line, error=f"{type(error).__name__}: {error}"[:300])
        # Free memory for the next program.
        results = dropout_mask = expected = None
        torch.cuda.empty_cache()


def measure_row(case, ternion, seed, device):
    """Yields a line for Ternion and one for PyTorch's single ops, which use Ternion's dropout mask,
    with the errors over all draws.
    """
    from attention_reference import measure_error

    errors = {ternion.impl: [], "torch/ops": []}
    for draw in range(case.draws):
        operands, dy = draw_operands(case, seed + draw, device)
        try:
            own_results = ternion.attend(operands, case, seed + draw, None, dy)
            dropout_mask = find_case_dropout_mask(ternion, case, operands, seed + draw, None)
            exact = compute_exact(case, operands, dy, dropout_mask)
            errors[ternion.impl].append({name: measure_error(own_results[name], value) for name, value in exact.items()})
            torch_results = attend_op_by_op(operands, reference_options(case, operands), dropout_mask, dy, case.ends)
            errors["torch/ops"].append({name: measure_error(torch_results[name], value) for name, value in exact.items()})
        except (RuntimeError, ValueError) as error:
            yield dict(case=case.name, impl=ternion.impl, error=f"{type(error).__name__}: {error}"[:300])
            return
    for impl, draws in errors.items():
        yield dict(case=case.name, impl=impl, errors=combine_errors(draws))


def combine_errors(draws):
    """Combines the errors of all draws, which have the same shapes."""

    def combine(name):
        def rms(key):
            return (sum(errors[name][key] ** 2 for errors in draws) / len(draws)) ** 0.5

        return dict(max=max(errors[name]["max"] for errors in draws), rms=rms("rms"), scale=rms("scale"))

    return {name: combine(name) for name in draws[0]}


def run(args):
    import torch

    if not (args.bundle / "ternion-bench").is_file():
        raise SystemExit(f"error: {args.bundle}: expected a folder with ternion-bench")
    started = time.monotonic()
    cases = [case for case in all_cases(ROWS.read_text(encoding="utf-8"), args.draws) if not args.only or case.name.startswith(tuple(args.only))]
    if not cases:
        raise SystemExit(f"error: no case begins with {' or '.join(args.only)}")
    results = Results(args.out, args.resume, describe_machine(args.bundle.resolve()))
    results.add(versions=dict(torch=torch.__version__, cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version()))
    failed, baselines = 0, list_baselines()
    with contextlib.closing(results.file), Ternion([str(args.bundle.resolve() / "ternion-bench"), "attend"], DEVICE) as ternion:
        for case in cases:
            if case.name in results.finished:
                continue
            if args.time_limit and time.monotonic() - started > args.time_limit:
                print(f"stopped before {case.name}: --time-limit {args.time_limit:.0f} has expired; --resume continues there")
                break
            failed += not store_lines(results, case, measure(case, ternion, baselines, args.seed))
            print(f"[{time.monotonic() - started:.0f} s] {case.name}", flush=True)
    if failed:
        raise SystemExit(f"error: {failed} cases of Ternion failed")


def measure(case, ternion, baselines, seed):
    """Returns the lines of a case."""
    if case.is_row:
        return measure_row(case, ternion, seed, DEVICE)
    return measure_shape(case, [ternion, *baselines[case.kind]], seed, DEVICE)


def store_lines(results, case, lines):
    """Stores the lines of a case as they arrive. If Ternion succeeded, the case is marked as
    finished and True is returned; an error of a baseline is a result.
    """
    is_complete = True
    for line in lines:
        results.add(**line)
        if "error" in line:
            is_complete = is_complete and line["impl"] != Ternion.impl
            print(f"  {line['impl']}: {line['error']}", flush=True)
    if is_complete:
        results.add(finished=case.name)
    return is_complete


def write_page(args):
    lines = read_single_run(args.results)
    if not any("errors" in line for line in lines):
        raise SystemExit(f"error: {', '.join(map(str, args.results))}: no measured error")
    write_atomically(args.page, replace_between_markers(args.page.read_text(encoding="utf-8"), MARKERS, render(lines)))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run_parser = commands.add_parser("run", help="measure on this machine")
    run_parser.add_argument("--bundle", type=pathlib.Path, required=True, help="folder with ternion-bench")
    run_parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("errors.jsonl"))
    run_parser.add_argument("--only", nargs="+", metavar="PREFIX", help="prefixes of the names of cases, such as shapes/bf16, varlen/ or rows/")
    run_parser.add_argument("--draws", type=positive, default=16, help="draws of operands for each row of the op table")
    run_parser.add_argument("--seed", type=int, default=1)
    run_parser.add_argument("--resume", action="store_true", help="continue an interrupted run with the same file")
    run_parser.add_argument("--time-limit", type=duration, default=None, help="seconds after which no further case is started")
    write_parser = commands.add_parser("write", help="write the tables to the page")
    write_parser.add_argument("results", type=pathlib.Path, nargs="+")
    write_parser.add_argument("page", type=pathlib.Path)
    return parser.parse_args()


def main():
    args = parse_arguments()
    try:
        {"run": run, "write": write_page}[args.command](args)
    except OSError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
