#!/usr/bin/env python3
"""Measures the errors of Ternion's and PyTorch's attention relative to float64, with bit-identical
operands. FlashAttention's rule allows at most twice the error of PyTorch's attention.

    attention_errors.py run --bundle DIR [--out errors.jsonl]
        on the GPU machine, with PyTorch: measures case by case
    attention_errors.py write errors.jsonl.. docs/kernels/attention.md
        on any machine: writes the tables between the page's markers

Cases `shapes/..` are those of the benchmark plus f16 and head_dim 192: 16384 tokens, forward and
backward, compared with scaled_dot_product_attention by cuDNN and by flash attention. The reference
is computed in float64 on the GPU from the same operands (attention_reference.py), for all heads and
queries. With dropout, each program drops different weights and is compared with a reference that
drops the same ones: attention of the identity with the same seed returns the dropout mask. The mask
is computed only for the first sequence of the batch, and only its results are compared.

Cases `rows/..` are the attention rows of the op table (attention_rows.jsonl) in f16 and bf16, with
several draws of operands each. They are compared with the same attention by single ops in PyTorch,
each of which rounds to the operands' dtype.

Ternion runs as `ternion-bench attend`; tensors are exchanged as safetensors files in memory.
--resume continues an interrupted run.
"""

import argparse
import contextlib
import ctypes
import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from attention_tables import MARKERS, render
from compare import Results, describe_machine, duration, positive, read_single_run, write_atomically
from pages import replace_between_markers

HERE = pathlib.Path(__file__).resolve().parent
ROWS = HERE / "attention_rows.jsonl"
# Folder in memory for exchanged tensors. It is used only if it has enough free space; in containers
# it may have only a few MiB.
SHARED_MEMORY = pathlib.Path("/dev/shm")
MIN_SHARED_MEMORY_BYTES = 2 << 30
DEVICE = "cuda"
TOKENS, WIDTH = 16384, 2048
DROPOUT = 0.1
GRADIENTS = ("dq", "dk", "dv")


@dataclasses.dataclass(frozen=True)
class Case:
    """An attention call to compare. Shapes are those of q, k, v and the mask, if any."""

    name: str
    dtype: str
    shapes: tuple
    # Options of `ternion-bench attend`: causal, window, scale, dropout.
    options: dict
    mask: str | None = None
    draws: int = 1

    @property
    def is_row(self):
        return self.name.startswith("rows/")

    @property
    def dropout(self):
        return self.options.get("dropout", 0.0)


def shape_cases():
    """Returns the cases of the benchmark."""
    cases = []
    for dtype in ("bf16", "f16"):
        for head_dim in (64, 128, 192, 256):
            for tokens in (512, 1024, 4096, 16384):
                for mask, dropout in (("full", 0.0), ("causal", 0.0), ("causal-dropout", DROPOUT)):
                    if dropout and tokens not in (1024, 4096):
                        continue
                    shape = (TOKENS // tokens, WIDTH // head_dim, tokens, head_dim)
                    options = dict(causal=mask != "full", scale=head_dim**-0.5, dropout=dropout)
                    cases.append(Case(f"shapes/{dtype}/d{head_dim}/t{tokens}/{mask}", dtype, (shape,) * 3, options))
    return cases


def row_cases(text, draws):
    """Returns the cases of the op table from lines of JSON. Cases that drop all weights are
    omitted, because they have no rounding errors.
    """
    cases = []
    for line in map(json.loads, text.splitlines()):
        for dtype in line["dtypes"]:
            for index, shapes in enumerate(line["shapes"]):
                if line["options"]["dropout"] < 1 and all(size for shape in shapes for size in shape):
                    name = f"rows/{dtype}/{line['parameters'] or 'plain'}/{index}"
                    cases.append(Case(name, dtype, tuple(map(tuple, shapes)), line["options"], line["mask"], draws))
    return cases


# ---------------------------------------------------------------- tensors in files

DTYPE_NAMES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "BOOL": "bool"}


def write_tensors(path, tensors):
    """Writes a safetensors file."""
    entries, end, parts = {}, 0, []
    dtype_names = {f"torch.{torch_name}": name for name, torch_name in DTYPE_NAMES.items()}
    for name, tensor in tensors.items():
        tensor = tensor.detach().contiguous().cpu()
        size = tensor.numel() * tensor.element_size()
        entries[name] = dict(dtype=dtype_names[str(tensor.dtype)], shape=list(tensor.shape), data_offsets=[end, end + size])
        parts.append(tensor)
        end += size
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for tensor in parts:
            size = tensor.numel() * tensor.element_size()
            if size:
                file.write((ctypes.c_char * size).from_address(tensor.data_ptr()))


def read_tensors(path, device):
    """Reads the tensors of a safetensors file."""
    import torch

    data = bytearray(path.read_bytes())
    data_start = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:data_start]).items():
        if name == "__metadata__":
            continue
        dtype, (start, end) = getattr(torch, DTYPE_NAMES[entry["dtype"]]), entry["data_offsets"]
        flat = torch.frombuffer(data[data_start + start : data_start + end], dtype=dtype) if end > start else torch.empty(0, dtype=dtype)
        tensors[name] = flat.reshape(entry["shape"]).to(device)
    return tensors


# ---------------------------------------------------------------- implementations


class Ternion:
    """`ternion-bench attend`, which answers one request per line."""

    impl = "ternion"

    def __init__(self, command, device):
        self.device = device
        has_room = SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free >= MIN_SHARED_MEMORY_BYTES
        self.folder = tempfile.TemporaryDirectory(dir=SHARED_MEMORY if has_room else None)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.read_answer("ready")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # The process may have exited before.
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.folder.cleanup()

    def read_answer(self, key):
        text = self.process.stdout.readline()
        if not text:
            raise SystemExit(f"error: {self.process.args[0]} ended with exit status {self.process.wait()}")
        line = json.loads(text)
        if key not in line:
            raise ValueError(line.get("error", text.strip()))

    def attend(self, operands, case, seed, batches=None, dy=None):
        """Returns y, and the gradients if dy is given, by name. With dropout, results are limited
        to the first `batches` of the batch.
        """
        inputs, outputs = (pathlib.Path(self.folder.name, name) for name in ("inputs", "outputs"))
        gradient_inputs = {} if dy is None else dict(dy=dy)
        write_tensors(inputs, {**operands, **gradient_inputs})
        request = dict(case.options, inputs=str(inputs), outputs=str(outputs), seed=seed, batches=batches)
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        self.read_answer("done")
        return read_tensors(outputs, self.device)


class Torch:
    """scaled_dot_product_attention by one of PyTorch's backends."""

    def __init__(self, impl, backend):
        self.impl, self.backend = impl, backend

    def attend(self, operands, case, seed, batches=None, dy=None):
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        # Gradients are always required, because another graph might draw other random numbers.
        leaves = [operands[name].detach().requires_grad_() for name in "qkv"]
        torch.manual_seed(seed)
        with sdpa_kernel(getattr(SDPBackend, self.backend)):
            options = dict(dropout_p=case.dropout, is_causal=case.options["causal"], scale=case.options["scale"])
            y = torch.nn.functional.scaled_dot_product_attention(*leaves, **options)
            results = dict(y=y.detach())
            if dy is not None:
                results.update(zip(GRADIENTS, torch.autograd.grad(y, leaves, dy)))
        return {name: value[:batches] for name, value in results.items()}


def attend_op_by_op(operands, options, dropout_mask, dy):
    """Computes attention with single ops, each of which rounds to the operands' dtype. Scores of
    masked keys are finite, so that fully masked queries have no NaN; the last factor sets their
    output to 0.
    """
    import torch

    leaves = [operands[name].detach().requires_grad_() for name in "qkv"]
    q, k, v = leaves
    group, queries, keys = q.shape[1] // k.shape[1], q.shape[2], k.shape[2]
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    scores = (q @ k.transpose(-1, -2)) * options.scale
    attended = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    band = options.attended_keys(0, queries, queries, keys, q.device)
    attended = attended if band is None else band
    if options.mask is not None and options.mask.dtype == torch.bool:
        attended = attended & options.mask
    elif options.mask is not None:
        scores = scores + options.mask
    weights = scores.masked_fill(~attended, -1e4).softmax(-1)
    if dropout_mask is not None:
        weights = weights * dropout_mask / (1 - options.dropout)
    y = weights @ v * attended.any(-1, keepdim=True)
    return dict(y=y.detach(), **dict(zip(GRADIENTS, torch.autograd.grad(y, leaves, dy))))


# ---------------------------------------------------------------- measurements


def draw_operands(case, seed, device):
    """Returns {q, k, v, and mask if any} and dy: normally distributed as in the benchmark, or
    uniform from -2 to 2 as in the op table.
    """
    import torch

    dtype = getattr(torch, {"bf16": "bfloat16", "f16": "float16"}[case.dtype])
    generator = torch.Generator(device).manual_seed(seed)

    def draw(shape):
        if case.is_row:
            return (torch.rand(shape, device=device, generator=generator) * 4 - 2).to(dtype)
        return torch.randn(shape, device=device, generator=generator).to(dtype)

    operands = dict(zip("qkv", map(draw, case.shapes[:3])))
    if case.mask is not None:
        mask = draw(case.shapes[3])
        operands["mask"] = mask > -1 if case.mask == "bool" else mask
    (*rows, _), (*_, value_dim) = case.shapes[0], case.shapes[2]
    return operands, draw((*rows, value_dim))


def reference_options(case, operands):
    from attention_reference import Options

    (_, _, queries, _), (_, _, keys, _) = case.shapes[:2]
    window = case.options.get("window")
    # A window that masks nothing may be larger than an integer can be.
    window = None if window is None else min(window, queries + keys)
    return Options(case.options["scale"], case.options["causal"], window, operands.get("mask"), case.dropout)


def find_case_dropout_mask(program, case, operands, seed, batches):
    """Returns the dropout mask of a program; None without dropout."""
    from attention_reference import find_dropout_mask

    if not case.dropout:
        return None
    mask = {name: operands[name] for name in ("mask",) if name in operands}

    def attend(q, k, v):
        return program.attend(dict(q=q, k=k, v=v, **mask), case, seed, batches)["y"]

    return find_dropout_mask(attend, *(operands[name] for name in "qkv"), batches or operands["q"].shape[0])


class ExactResults:
    """The float64 results of a case. Without dropout they are computed once for all programs."""

    def __init__(self, case, operands, dy):
        self.options, self.operands, self.dy, self.without_dropout = reference_options(case, operands), operands, dy, None

    def compute(self, dropout_mask, batches):
        from attention_reference import reference

        if dropout_mask is None and self.without_dropout is not None:
            return self.without_dropout
        operands = [x[:batches] for x in (*(self.operands[name] for name in "qkv"), self.dy)]
        results = reference(*operands[:3], self.options, operands[3], dropout_mask).to_dict()
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
                check_kept_fraction(dropout_mask, exact.options)
            expected = exact.compute(dropout_mask, batches)
            yield dict(line, errors={name: measure_error(results[name], value) for name, value in expected.items()})
        except (RuntimeError, ValueError) as error:
            yield dict(line, error=f"{type(error).__name__}: {error}"[:300])
        # Free memory for the next program.
        results = dropout_mask = expected = None
        torch.cuda.empty_cache()


def measure_row(case, ternion, seed, device):
    """Yields a line for Ternion and one for PyTorch's single ops, which use Ternion's dropout mask,
    with the errors over all draws.
    """
    from attention_reference import measure_error, reference

    errors = {ternion.impl: [], "torch/ops": []}
    for draw in range(case.draws):
        operands, dy = draw_operands(case, seed + draw, device)
        options = reference_options(case, operands)
        try:
            own_results = ternion.attend(operands, case, seed + draw, None, dy)
            dropout_mask = find_case_dropout_mask(ternion, case, operands, seed + draw, None)
            exact = reference(*(operands[name] for name in "qkv"), options, dy, dropout_mask).to_dict()
            errors[ternion.impl].append({name: measure_error(own_results[name], value) for name, value in exact.items()})
            torch_results = attend_op_by_op(operands, options, dropout_mask, dy)
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
    cases = [*shape_cases(), *row_cases(ROWS.read_text(encoding="utf-8"), args.draws)]
    cases = [case for case in cases if not args.only or case.name.startswith(tuple(args.only))]
    if not cases:
        raise SystemExit(f"error: no case begins with {' or '.join(args.only)}")
    results = Results(args.out, args.resume, describe_machine(args.bundle.resolve()))
    results.add(versions=dict(torch=torch.__version__, cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version()))
    failed = 0
    with contextlib.closing(results.file), Ternion([str(args.bundle.resolve() / "ternion-bench"), "attend"], DEVICE) as ternion:
        programs = [ternion, Torch("torch/cudnn", "CUDNN_ATTENTION"), Torch("torch/flash", "FLASH_ATTENTION")]
        for case in cases:
            if case.name in results.finished:
                continue
            if args.time_limit and time.monotonic() - started > args.time_limit:
                print(f"stopped before {case.name}: --time-limit {args.time_limit:.0f} has expired; --resume continues there")
                break
            lines = measure_row(case, ternion, args.seed, DEVICE) if case.is_row else measure_shape(case, programs, args.seed, DEVICE)
            failed += not store_lines(results, case, lines)
            print(f"[{time.monotonic() - started:.0f} s] {case.name}", flush=True)
    if failed:
        raise SystemExit(f"error: {failed} cases of Ternion failed")


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
    run_parser.add_argument("--only", nargs="+", metavar="PREFIX", help="prefixes of the names of cases, such as shapes/bf16 or rows/")
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
