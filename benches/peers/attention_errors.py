#!/usr/bin/env python3
"""Errors of attention relative to float64, for Ternion and PyTorch on bit-identical operands.
FlashAttention's rule allows an error of at most twice that of PyTorch's attention.

    attention_errors.py run --bundle DIR [--out errors.jsonl]
        on the GPU machine, which needs PyTorch: measures, case by case
    attention_errors.py write errors.jsonl.. docs/kernels/attention.md
        anywhere: writes the tables between the page's markers

Cases `shapes/..` are those of the benchmark, and also f16 and width 192: 16384 tokens, forward and
backward, compared with scaled_dot_product_attention by cuDNN and by flash attention. The reference
is computed in float64 on the GPU from the same operands (attention_reference.py), for every head
and query. With dropout, different programs drop different weights, so each program is compared with
a reference that drops the same ones. Attention of the identity under the same seed shows which
weights these are. They are determined only for the first sequence of the batch, and only its
results are compared.

Cases `rows/..` are the rows of attention in the op table (attention_rows.jsonl) in f16 and bf16,
with several draws of operands each. They are compared with the same attention op by op in PyTorch,
where every op rounds to the operands' dtype.

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

from attention_tables import MARKERS, body
from compare import Results, duration, header, positive, read_one_run, replace
from pages import between_markers

HERE = pathlib.Path(__file__).resolve().parent
ROWS = HERE / "attention_rows.jsonl"
# A folder in memory, if it exists and has room for a case: in containers it may have only a few
# MiB.
SHARED_MEMORY = pathlib.Path("/dev/shm")
ROOM_BYTES = 2 << 30
DEVICE = "cuda"
TOKENS, WIDTH = 16384, 2048
DROPOUT = 0.1
GRADIENTS = ("dq", "dk", "dv")


@dataclasses.dataclass(frozen=True)
class Case:
    """An attention to compare. Shapes are those of q, k and v, and of a mask if there is one."""

    name: str
    dtype: str
    shapes: tuple
    # As `ternion-bench attend` takes them: causal, window, scale, dropout.
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
    made = []
    for dtype in ("bf16", "f16"):
        for head_dim in (64, 128, 192, 256):
            for tokens in (512, 1024, 4096, 16384):
                for mask, dropout in (("full", 0.0), ("causal", 0.0), ("causal-dropout", DROPOUT)):
                    if dropout and tokens not in (1024, 4096):
                        continue
                    shape = (TOKENS // tokens, WIDTH // head_dim, tokens, head_dim)
                    options = dict(causal=mask != "full", scale=head_dim**-0.5, dropout=dropout)
                    made.append(Case(f"shapes/{dtype}/d{head_dim}/t{tokens}/{mask}", dtype, (shape,) * 3, options))
    return made


def row_cases(text, draws):
    """Returns the cases of the op table, one line of JSON each. If all weights are dropped, nothing
    is rounded.
    """
    made = []
    for line in map(json.loads, text.splitlines()):
        for dtype in line["dtypes"]:
            for number, shapes in enumerate(line["shapes"]):
                if line["options"]["dropout"] < 1 and all(size for shape in shapes for size in shape):
                    name = f"rows/{dtype}/{line['parameters'] or 'plain'}/{number}"
                    made.append(Case(name, dtype, tuple(map(tuple, shapes)), line["options"], line["mask"], draws))
    return made


# ---------------------------------------------------------------- tensors in files

NAMES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "BOOL": "bool"}


def write_tensors(path, tensors):
    """Writes a safetensors file."""
    entries, end, parts = {}, 0, []
    of_dtype = {f"torch.{theirs}": name for name, theirs in NAMES.items()}
    for name, tensor in tensors.items():
        tensor = tensor.detach().contiguous().cpu()
        size = tensor.numel() * tensor.element_size()
        entries[name] = dict(dtype=of_dtype[str(tensor.dtype)], shape=list(tensor.shape), data_offsets=[end, end + size])
        parts.append(tensor)
        end += size
    head = json.dumps(entries).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for tensor in parts:
            size = tensor.numel() * tensor.element_size()
            if size:
                file.write((ctypes.c_char * size).from_address(tensor.data_ptr()))


def read_tensors(path, device):
    """Reads the tensors of a safetensors file."""
    import torch

    data = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(data[:8], "little")
    found = {}
    for name, entry in json.loads(data[8:start]).items():
        if name == "__metadata__":
            continue
        dtype, (begin, end) = getattr(torch, NAMES[entry["dtype"]]), entry["data_offsets"]
        flat = torch.frombuffer(data[start + begin : start + end], dtype=dtype) if end > begin else torch.empty(0, dtype=dtype)
        found[name] = flat.reshape(entry["shape"]).to(device)
    return found


# ---------------------------------------------------------------- who attends


class Ternion:
    """`ternion-bench attend`, which answers one request per line."""

    impl = "ternion"

    def __init__(self, command, device):
        self.device = device
        has_room = SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free >= ROOM_BYTES
        self.folder = tempfile.TemporaryDirectory(dir=SHARED_MEMORY if has_room else None)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer("ready")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # The process may have ended before.
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.folder.cleanup()

    def answer(self, key):
        text = self.process.stdout.readline()
        if not text:
            raise SystemExit(f"error: {self.process.args[0]} ended with exit status {self.process.wait()}")
        line = json.loads(text)
        if key not in line:
            raise ValueError(line.get("error", text.strip()))

    def attend(self, operands, case, seed, batches=None, dy=None):
        """Returns {"y"}, and the gradients if dy is given; with dropout only for the first
        `batches` of the batch.
        """
        inputs, outputs = (pathlib.Path(self.folder.name, name) for name in ("inputs", "outputs"))
        more = {} if dy is None else dict(dy=dy)
        write_tensors(inputs, {**operands, **more})
        request = dict(case.options, inputs=str(inputs), outputs=str(outputs), seed=seed, batches=batches)
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        self.answer("done")
        return read_tensors(outputs, self.device)


class Torch:
    """scaled_dot_product_attention by one of PyTorch's backends."""

    def __init__(self, impl, backend):
        self.impl, self.backend = impl, backend

    def attend(self, operands, case, seed, batches=None, dy=None):
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        # Leaves even if no gradient is needed: another graph might draw other random numbers.
        leaves = [operands[name].detach().requires_grad_() for name in "qkv"]
        torch.manual_seed(seed)
        with sdpa_kernel(getattr(SDPBackend, self.backend)):
            options = dict(dropout_p=case.dropout, is_causal=case.options["causal"], scale=case.options["scale"])
            y = torch.nn.functional.scaled_dot_product_attention(*leaves, **options)
            made = dict(y=y.detach())
            if dy is not None:
                made.update(zip(GRADIENTS, torch.autograd.grad(y, leaves, dy)))
        return {name: value[:batches] for name, value in made.items()}


def op_by_op(operands, options, kept, dy):
    """Computes the same attention with single ops, each of which rounds to the operands' dtype.
    Scores of masked keys are finite, so that fully masked queries have weights, too, which the last
    factor sets to 0.
    """
    import torch

    leaves = [operands[name].detach().requires_grad_() for name in "qkv"]
    q, k, v = leaves
    group, queries, keys = q.shape[1] // k.shape[1], q.shape[2], k.shape[2]
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    scores = (q @ k.transpose(-1, -2)) * options.scale
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    band = options.seen(0, queries, queries, keys, q.device)
    seen = seen if band is None else band
    if options.mask is not None and options.mask.dtype == torch.bool:
        seen = seen & options.mask
    elif options.mask is not None:
        scores = scores + options.mask
    weights = scores.masked_fill(~seen, -1e4).softmax(-1)
    if kept is not None:
        weights = weights * kept / (1 - options.dropout)
    y = weights @ v * seen.any(-1, keepdim=True)
    return dict(y=y.detach(), **dict(zip(GRADIENTS, torch.autograd.grad(y, leaves, dy))))


# ---------------------------------------------------------------- what is measured


def operands_of(case, seed, device):
    """Returns q, k and v, a mask if there is one, and dy: normally distributed as in the benchmark,
    or from -2 to 2 as in the op table.
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


def options_of(case, operands):
    from attention_reference import Options

    (_, _, queries, _), (_, _, keys, _) = case.shapes[:2]
    window = case.options.get("window")
    # A window that masks nothing may be larger than an integer can be.
    window = None if window is None else min(window, queries + keys)
    return Options(case.options["scale"], case.options["causal"], window, operands.get("mask"), case.dropout)


def kept_by(program, case, operands, seed, batches):
    """Returns the weights that dropout keeps; None without dropout."""
    from attention_reference import kept_weights

    if not case.dropout:
        return None
    mask = {name: operands[name] for name in ("mask",) if name in operands}

    def attend(q, k, v):
        return program.attend(dict(q=q, k=k, v=v, **mask), case, seed, batches)["y"]

    return kept_weights(attend, *(operands[name] for name in "qkv"), batches or operands["q"].shape[0])


class Exact:
    """The float64 results of a case's operands, computed once for all programs without dropout."""

    def __init__(self, case, operands, dy):
        self.options, self.operands, self.dy, self.plain = options_of(case, operands), operands, dy, None

    def of(self, kept, batches):
        from attention_reference import reference

        if kept is None and self.plain is not None:
            return self.plain
        operands = [x[:batches] for x in (*(self.operands[name] for name in "qkv"), self.dy)]
        made = reference(*operands[:3], self.options, operands[3], kept).named()
        if kept is None:
            self.plain = made
        return made


def measure_shape(case, programs, seed, device):
    """Yields the line of each program: its errors, or why there are none."""
    import torch

    from attention_reference import check_share, differences

    operands, dy = operands_of(case, seed, device)
    exact, batches = Exact(case, operands, dy), 1 if case.dropout else None
    for program in programs:
        line = dict(case=case.name, impl=program.impl)
        try:
            found = program.attend(operands, case, seed, batches, dy)
            kept = kept_by(program, case, operands, seed, batches)
            if kept is not None:
                check_share(kept, exact.options)
            expected = exact.of(kept, batches)
            yield dict(line, errors={name: differences(found[name], value) for name, value in expected.items()})
        except (RuntimeError, ValueError) as error:
            yield dict(line, error=f"{type(error).__name__}: {error}"[:300])
        # The other programs need the memory.
        found = kept = expected = None
        torch.cuda.empty_cache()


def measure_row(case, ternion, seed, device):
    """Yields the lines of Ternion and of PyTorch's single ops: errors of all draws, with the
    weights that Ternion drops.
    """
    from attention_reference import differences, reference

    found = {ternion.impl: [], "torch/ops": []}
    for draw in range(case.draws):
        operands, dy = operands_of(case, seed + draw, device)
        options = options_of(case, operands)
        try:
            ours = ternion.attend(operands, case, seed + draw, None, dy)
            kept = kept_by(ternion, case, operands, seed + draw, None)
            exact = reference(*(operands[name] for name in "qkv"), options, dy, kept).named()
            found[ternion.impl].append({name: differences(ours[name], value) for name, value in exact.items()})
            theirs = op_by_op(operands, options, kept, dy)
            found["torch/ops"].append({name: differences(theirs[name], value) for name, value in exact.items()})
        except (RuntimeError, ValueError) as error:
            yield dict(case=case.name, impl=ternion.impl, error=f"{type(error).__name__}: {error}"[:300])
            return
    for impl, draws in found.items():
        yield dict(case=case.name, impl=impl, errors=together(draws))


def together(draws):
    """Combines the errors of all draws, which have the same shapes."""

    def of(name):
        def rms(key):
            return (sum(one[name][key] ** 2 for one in draws) / len(draws)) ** 0.5

        return dict(max=max(one[name]["max"] for one in draws), rms=rms("rms"), scale=rms("scale"))

    return {name: of(name) for name in draws[0]}


def run(given):
    import torch

    if not (given.bundle / "ternion-bench").is_file():
        raise SystemExit(f"error: {given.bundle}: holds no ternion-bench")
    begun = time.monotonic()
    cases = [*shape_cases(), *row_cases(ROWS.read_text(encoding="utf-8"), given.draws)]
    cases = [case for case in cases if not given.only or case.name.startswith(tuple(given.only))]
    if not cases:
        raise SystemExit(f"error: no case begins with {' or '.join(given.only)}")
    results = Results(given.out, given.resume, header(given.bundle.resolve()))
    results.add(versions=dict(torch=torch.__version__, cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version()))
    failed = 0
    with contextlib.closing(results.file), Ternion([str(given.bundle.resolve() / "ternion-bench"), "attend"], DEVICE) as ternion:
        programs = [ternion, Torch("torch/cudnn", "CUDNN_ATTENTION"), Torch("torch/flash", "FLASH_ATTENTION")]
        for case in cases:
            if case.name in results.finished:
                continue
            if given.time_limit and time.monotonic() - begun > given.time_limit:
                print(f"stopped before {case.name}: --time-limit {given.time_limit:.0f} is over; --resume continues there")
                break
            lines = measure_row(case, ternion, given.seed, DEVICE) if case.is_row else measure_shape(case, programs, given.seed, DEVICE)
            failed += not keep(results, case, lines)
            print(f"[{time.monotonic() - begun:.0f} s] {case.name}", flush=True)
    if failed:
        raise SystemExit(f"error: {failed} cases of Ternion failed")


def keep(results, case, lines):
    """Stores the lines of a case as they arrive, and that it was measured. Returns whether
    Ternion's was; that a peer lacks a case is a result.
    """
    is_whole = True
    for line in lines:
        results.add(**line)
        if "error" in line:
            is_whole = is_whole and line["impl"] != Ternion.impl
            print(f"  {line['impl']}: {line['error']}", flush=True)
    if is_whole:
        results.add(finished=case.name)
    return is_whole


def write(given):
    lines = read_one_run(given.results)
    if not any("errors" in line for line in lines):
        raise SystemExit(f"error: {', '.join(map(str, given.results))}: no measured error")
    replace(given.page, between_markers(given.page.read_text(encoding="utf-8"), MARKERS, body(lines)))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    ran = commands.add_parser("run", help="measures on this machine")
    ran.add_argument("--bundle", type=pathlib.Path, required=True, help="the folder that holds ternion-bench")
    ran.add_argument("--out", type=pathlib.Path, default=pathlib.Path("errors.jsonl"))
    ran.add_argument("--only", nargs="+", metavar="PREFIX", help="cases whose names begin with one of these: shapes/bf16, rows/")
    ran.add_argument("--draws", type=positive, default=16, help="of the operands of each row of the op table")
    ran.add_argument("--seed", type=int, default=1)
    ran.add_argument("--resume", action="store_true", help="continues where a run into the same file was cut off")
    ran.add_argument("--time-limit", type=duration, default=None, help="seconds after which no other case is begun")
    written = commands.add_parser("write", help="writes the tables into the page")
    written.add_argument("results", type=pathlib.Path, nargs="+")
    written.add_argument("page", type=pathlib.Path)
    return parser.parse_args()


def main():
    given = arguments()
    try:
        {"run": run, "write": write}[given.command](given)
    except OSError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
