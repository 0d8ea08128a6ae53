#!/usr/bin/env python3
"""The cases of ternion-bench in PyTorch: the same names, inputs, counted bytes, method and output
lines.

Prints one JSON object per line: {"case", "impl", "ms", "value", "unit"}; a case that cannot run
prints {"case", "impl", "error"}.

Kernel cases: events around one call, before each a kernel that writes 256 MiB so that the L2 cache
contains none of its inputs, 10 warm-ups, median of the calls that fit into --rep milliseconds (at
least 20, at most 400), random inputs. Train cases: wall clock over --steps steps between two
synchronizations, after 5 warm-ups; median of 5 rounds.

An "impl" states how PyTorch ran: "torch" op by op, "torch/compile" through torch.compile,
"torch/graph" as a recorded CUDA graph, others name the requested library or layout. Float32
products use TF32 only if a case's name says so.

With --serve the script measures a case whenever a line of its input is the case's name (turns.py),
each time with new inputs.
"""

import argparse
import gc
import itertools
import json
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import torch_attention_ladder
import torch_training
import turns
from torch_clock import DEVICE, Clock

ROWS, COLUMNS = 8192, 4096
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def emit(case, impl, milliseconds, value, unit, **more):
    line = dict(case=case, impl=impl, ms=round(milliseconds, 5), value=round(value, 3), unit=unit, **more)
    print(json.dumps(line), flush=True)


def emit_error(case, impl, error):
    print(json.dumps(dict(case=case, impl=impl, error=f"{type(error).__name__}: {error}"[:300])), flush=True)


# Name of a case -> the function that measures and prints it.
CASES = {}


def guarded(case, impl, measure):
    """Runs `measure`. An exception is printed as the line of `case`, and the run continues."""
    try:
        measure()
    except Exception as error:
        emit_error(case, impl, error)


def kernel(name, amount, unit, make):
    """Adds a case that moves `amount` bytes or does `amount` operations. `make()` returns a dict of
    impl -> call.
    """
    scale = {"GB/s": 1e6, "TFLOP/s": 1e9}[unit]

    def run(clock, compiling):
        for impl, call in make().items():
            if impl.endswith("compile"):
                if not compiling:
                    continue
                torch.compiler.reset()
            guarded(name, impl, lambda: emit(name, impl, ms := clock.median(call), amount / ms / scale, unit))

    CASES[name] = run


def randn(*shape, dtype=torch.float32, leaf=False):
    return torch.randn(*shape, device=DEVICE, dtype=dtype, requires_grad=leaf)


def both(function, *inputs):
    """Returns the function op by op, and compiled; neither is recorded for gradients."""
    compiled = torch.compile(function, dynamic=False)
    return {"torch": unrecorded(function, *inputs), "torch/compile": unrecorded(compiled, *inputs)}


def unrecorded(function, *inputs):
    def call():
        with torch.no_grad():
            return function(*inputs)

    return call


def gradient(function, *inputs):
    """Returns a call of the gradients of a function that has run."""
    output = function(*inputs)
    grad_output = torch.randn_like(output)
    return lambda: torch.autograd.grad(output, inputs, grad_output, retain_graph=True)


# ---------------------------------------------------------------- Host


def host(name, make, measure="microseconds_of_op"):
    def run(clock, _):
        op = make()
        guarded(name, "torch", lambda: emit(name, "torch", (us := getattr(clock, measure)(op)) / 1e3, us, "us/op"))

    CASES[name] = run


def host_cases():
    def ones(*shape, leaf=False):
        return torch.ones(*shape, device=DEVICE, requires_grad=leaf)

    def squared(x):
        return lambda: torch.mm(x, x)

    def doubled(x):
        return lambda: torch.add(x, x)

    host("host/add", lambda: doubled(ones(1)))
    host("host/add_recorded", lambda: doubled(ones(1, leaf=True)))
    host("host/relu_expanded", lambda: (lambda x: lambda: torch.relu(x))(ones(1).expand(4, 4)))
    several = {
        "add": lambda: doubled(ones(1)),
        "sum": lambda: (lambda x: lambda: x.sum(0))(ones(16)),
        "matmul": lambda: squared(ones(16, 16)),
        "softmax": lambda: (lambda x: lambda: torch.softmax(x, 1))(ones(4, 16)),
    }
    for op in ("sum", "matmul", "softmax"):
        host(f"host/{op}", several[op])
    for op, make in several.items():
        host(f"host/{op}_sustained", make, "sustained_microseconds_of_op")


# ---------------------------------------------------------------- Matrix products


def product(label, factors, layouts, m, n, k):
    product_case(f"gemm/{factors}/{layouts}/{label}", factors, layouts, m, n, k)


def product_case(name, factors, layouts, m, n, k):
    def make():
        torch.backends.cuda.matmul.allow_tf32 = factors == "tf32"
        # "f32" is float32 with any kind of products, "ieee" float32 by fused multiply-adds: they
        # are the same in PyTorch without TF32.
        dtype = DTYPES["f32" if factors in ("tf32", "ieee") else factors]
        a = randn(k, m, dtype=dtype).t() if layouts[0] == "t" else randn(m, k, dtype=dtype)
        b = randn(n, k, dtype=dtype).t() if layouts[1] == "t" else randn(k, n, dtype=dtype)
        out = torch.empty(m, n, device=DEVICE, dtype=dtype)
        return {"torch/cublas": lambda: torch.mm(a, b, out=out)}

    kernel(name, 2 * m * n * k, "TFLOP/s", make)


def product_cases():
    for size in (512, 1024, 2048, 4096, 8192):
        for factors in ("f32", "ieee", "tf32", "bf16", "f16"):
            product(str(size), factors, "nn", size, size, size)
    for layouts in ("nt", "tn", "tt"):
        for factors in ("bf16", "f32", "ieee", "tf32"):
            product("4096", factors, layouts, 4096, 4096, 4096)
    for m, n, k in ((16, 4096, 4096), (16384, 768, 3072), (16384, 3072, 768), (16384, 50304, 768)):
        product(f"{m}x{n}x{k}", "bf16", "nt", m, n, k)
    for m, n, k in ((16, 4096, 4096), (16384, 768, 3072)):
        product(f"{m}x{n}x{k}", "tf32", "nt", m, n, k)
    for m, n, k in ((16384, 768, 3072), (768, 3072, 16384)):
        for factors in ("f32", "ieee"):
            product(f"{m}x{n}x{k}", factors, "nt", m, n, k)
    for factors in ("f32", "tf32", "bf16"):
        product("1000x1000x1000", factors, "nn", 1000, 1000, 1000)
    for size in (255, 1023, 4095):
        product(str(size), "tf32", "nn", size, size, size)


def ladder_cases():
    """Adds the cases that the rungs of the ladder are compared with, at their sizes."""
    for factors in ("f32", "bf16"):
        for size in (256, 512, 1024, 2048, 4096, 8192):
            product_case(f"ladder/{factors}/cublas/{size}", factors, "nn", size, size, size)


# ---------------------------------------------------------------- Attention


def attention(head_dim, tokens, causal, backward, dropout=0.0, name=None):
    """Adds attention of 16,384 tokens of width 2,048. `dropout`: the dropout probability."""
    batch, heads = 16384 // tokens, 2048 // head_dim
    operations = 4 * batch * heads * tokens * tokens * head_dim * (0.5 if causal else 1.0) * (2.5 if backward else 1.0)
    passing, mask = "bwd" if backward else "fwd", ("causal" if causal else "full") + ("-dropout" if dropout else "")
    name = name or f"attention/{passing}/bf16/d{head_dim}/t{tokens}/{mask}"

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=causal)

    def measure(clock, impl, backend):
        q, k, v = (randn(batch, heads, tokens, head_dim, dtype=torch.bfloat16, leaf=True) for _ in range(3))
        with sdpa_kernel(backend):
            call = gradient(attend, q, k, v) if backward else unrecorded(attend, q, k, v)
            milliseconds = clock.median(call)
        emit(name, impl, milliseconds, operations / milliseconds / 1e9, "TFLOP/s")

    CASES[name] = lambda clock, _: by_both_backends(name, clock, measure)


def by_both_backends(name, clock, measure, other=("torch/flash", SDPBackend.FLASH_ATTENTION)):
    for impl, backend in (other, ("torch/cudnn", SDPBackend.CUDNN_ATTENTION)):
        guarded(name, impl, lambda: measure(clock, impl, backend))


# Sequences of 16,384 tokens in total, as in ternion-bench.
LENGTHS = (4096, 256, 1024, 2048, 512, 3072, 128, 768, 1536, 64, 2368, 512)


def varlen_attention(head_dim, causal, backward):
    """Adds attention of sequences of different lengths in one tensor, of width 2,048."""
    tokens, heads = sum(LENGTHS), 2048 // head_dim
    squares = sum(length * length for length in LENGTHS)
    operations = 4 * heads * squares * head_dim * (0.5 if causal else 1.0) * (2.5 if backward else 1.0)
    name = f"attention/{'bwd' if backward else 'fwd'}/bf16/d{head_dim}/varlen/{'causal' if causal else 'full'}"

    def measure(clock):
        from torch.nn.attention.varlen import varlen_attn

        ends = torch.tensor((0, *itertools.accumulate(LENGTHS)), dtype=torch.int32, device=DEVICE)
        q, k, v = (randn(tokens, heads, head_dim, dtype=torch.bfloat16, leaf=True) for _ in range(3))

        def attend(q, k, v):
            return varlen_attn(q, k, v, ends, ends, max(LENGTHS), max(LENGTHS), window_size=(-1, 0) if causal else (-1, -1))

        milliseconds = clock.median(gradient(attend, q, k, v) if backward else unrecorded(attend, q, k, v))
        emit(name, "torch/flash", milliseconds, operations / milliseconds / 1e9, "TFLOP/s")

    CASES[name] = lambda clock, _: guarded(name, "torch/flash", lambda: measure(clock))


# Batch, heads, key heads, queries, keys, as in ternion-bench.
DECODE = ((1, 32, 8, 1, 8192), (1, 32, 32, 1, 8192), (16, 32, 8, 1, 8192), (4, 32, 8, 8, 32768))


def decode_attention(batch, heads, kv_heads, queries, keys):
    """Adds attention of a few queries of many keys, counted in the bytes of keys and values."""
    name = f"attention/decode/bf16/d128/b{batch}h{heads}kv{kv_heads}q{queries}k{keys}"
    bytes_read = 2 * batch * kv_heads * keys * 128 * 2

    def measure(clock, impl, backend):
        q = randn(batch, heads, queries, 128, dtype=torch.bfloat16)
        k, v = (randn(batch, kv_heads, keys, 128, dtype=torch.bfloat16) for _ in range(2))
        with sdpa_kernel(backend), torch.no_grad():
            milliseconds = clock.median(lambda: F.scaled_dot_product_attention(q, k, v, enable_gqa=heads != kv_heads))
        emit(name, impl, milliseconds, bytes_read / milliseconds / 1e6, "GB/s")

    CASES[name] = lambda clock, _: by_both_backends(name, clock, measure)


def biased_attention(head_dim, tokens, backward):
    """Adds a pass with a bias that all sequences of the batch share, counted as without it.
    Backward computes its gradient, too.
    """
    batch, heads = 16384 // tokens, 2048 // head_dim
    operations = (10 if backward else 4) * batch * heads * tokens * tokens * head_dim
    name = f"attention/{'bwd' if backward else 'fwd'}/bf16/d{head_dim}/t{tokens}/bias"

    def attend(q, k, v, bias):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(batch, heads, tokens, tokens))

    def measure(clock, impl, backend):
        q, k, v = (randn(batch, heads, tokens, head_dim, dtype=torch.bfloat16, leaf=True) for _ in range(3))
        bias = randn(1, heads, tokens, tokens, dtype=torch.bfloat16, leaf=True)
        with sdpa_kernel(backend):
            milliseconds = clock.median((gradient if backward else unrecorded)(attend, q, k, v, bias))
        emit(name, impl, milliseconds, operations / milliseconds / 1e9, "TFLOP/s")

    # Flash attention does not support a bias.
    other = ("torch/efficient", SDPBackend.EFFICIENT_ATTENTION)
    CASES[name] = lambda clock, _: by_both_backends(name, clock, measure, other)


def attention_rung(rung):
    """Adds the case that the rungs of the attention ladder are compared with."""

    def measure(clock):
        milliseconds, more = rung.measure(clock)
        emit(rung.name, rung.impl, milliseconds, rung.operations / milliseconds / 1e9, "TFLOP/s", **more)

    CASES[rung.name] = lambda clock, _: guarded(rung.name, rung.impl, lambda: measure(clock))


def attention_cases():
    for sizes in DECODE:
        decode_attention(*sizes)
    for head_dim, causal, backward in itertools.product((64, 128), (False, True), (False, True)):
        varlen_attention(head_dim, causal, backward)
    for head_dim, tokens, backward in itertools.product((64, 128), (512, 2048), (False, True)):
        biased_attention(head_dim, tokens, backward)
    for head_dim, causal, backward in itertools.product((64, 128, 256), (False, True), (False, True)):
        for tokens in (512, 1024, 4096, 16384) if head_dim <= 128 else (1024, 4096):
            attention(head_dim, tokens, causal, backward)
            if causal and tokens in (1024, 4096):
                attention(head_dim, tokens, causal, backward, dropout=0.1)
            if backward and head_dim <= 128:
                attention(head_dim, tokens, causal, backward, name=f"order/bf16/d{head_dim}/t{tokens}/{'causal' if causal else 'full'}")
    for head_dim, tokens, causal in itertools.product((64, 192), (512, 1024, 2048, 4096, 16384), (False, True)):
        attention(head_dim, tokens, causal, backward=False, name=f"forward_tiles/bf16/d{head_dim}/t{tokens}/{'causal' if causal else 'full'}")


# ---------------------------------------------------------------- Convolutions


def convolution(dtype, batch, channels, size, filters, window, stride, padding):
    label = f"{dtype}/n{batch}c{channels}hw{size}k{filters}r{window}s{stride}"
    side = (size + 2 * padding - window) // stride + 1
    operations = 2 * batch * filters * side * side * channels * window * window

    def convolve(x, weight):
        return F.conv2d(x, weight, stride=stride, padding=padding)

    def calls(make_call):
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        made = {}
        for impl, form in (("torch/nchw", torch.contiguous_format), ("torch/nhwc", torch.channels_last)):
            x = randn(batch, channels, size, size, dtype=DTYPES[dtype]).to(memory_format=form).requires_grad_()
            weight = randn(filters, channels, window, window, dtype=DTYPES[dtype]).to(memory_format=form).requires_grad_()
            made[impl] = make_call(convolve, x, weight)
        return made

    kernel(f"conv/fwd/{label}", operations, "TFLOP/s", lambda: calls(unrecorded))
    kernel(f"conv/bwd/{label}", 2 * operations, "TFLOP/s", lambda: calls(gradient))


def convolution_cases():
    for dtype in ("f32", "bf16"):
        convolution(dtype, 64, 64, 56, 64, 3, 1, 1)
        convolution(dtype, 64, 128, 28, 128, 3, 1, 1)
        convolution(dtype, 64, 256, 14, 256, 3, 1, 1)
        convolution(dtype, 64, 3, 224, 64, 7, 2, 3)
        convolution(dtype, 256, 3, 32, 64, 5, 1, 2)


# ---------------------------------------------------------------- Memory-bound ops


def moving(name, count, make):
    kernel(name, count, "GB/s", make)


def copy_case():
    def make():
        source, target = (torch.empty(ROWS, COLUMNS, device=DEVICE) for _ in range(2))
        return {"torch": lambda: target.copy_(source)}

    moving("copy/d2d", 2 * ROWS * COLUMNS * 4, make)


def over_matrices(name, dtype, passes, function, matrices):
    """Adds `function` of some matrices, which moves `passes` times the bytes of one."""

    def make():
        return both(function, *(randn(ROWS, COLUMNS, dtype=DTYPES[dtype]) for _ in range(matrices)))

    moving(f"{name}/{dtype}", passes * ROWS * COLUMNS * DTYPES[dtype].itemsize, make)


def elementwise_cases(dtype):
    over_matrices("elementwise/add", dtype, 3, torch.add, 2)
    over_matrices("elementwise/gelu", dtype, 2, lambda x: F.gelu(x, approximate="tanh"), 1)
    over_matrices("elementwise/add_relu", dtype, 3, lambda a, b: torch.relu(a + b), 2)
    over_matrices("elementwise/multiply_add", dtype, 4, lambda a, b, c: torch.addcmul(c, a, b), 3)
    over_matrices("elementwise/scale_add", dtype, 3, lambda a, b: torch.add(b, a, alpha=2.5), 2)

    def bias_relu():
        x, bias = randn(ROWS, COLUMNS, dtype=DTYPES[dtype]), randn(COLUMNS, dtype=DTYPES[dtype])
        return both(lambda x, bias: torch.relu(x + bias), x, bias)

    moving(f"elementwise/bias_relu/{dtype}", 2 * ROWS * COLUMNS * DTYPES[dtype].itemsize, bias_relu)
    over_matrices("layout/transpose", dtype, 2, lambda x: x.t().contiguous(), 1)


def reduction_cases(dtype):
    over_matrices("reduce/sum_all", dtype, 1, lambda x: x.sum(), 1)
    over_matrices("reduce/sum_last", dtype, 1, lambda x: x.sum(-1), 1)
    over_matrices("reduce/sum_first", dtype, 1, lambda x: x.sum(0), 1)
    over_matrices("reduce/max_last", dtype, 1, lambda x: x.amax(-1), 1)
    # The PyTorch functions that read their input once.
    over_matrices("reduce/sum_squares_all", dtype, 1, lambda x: torch.linalg.vector_norm(x).square(), 1)
    over_matrices("reduce/max_abs_all", dtype, 1, lambda x: torch.linalg.vector_norm(x, ord=math.inf), 1)


def row_cases(dtype):
    size = ROWS * COLUMNS * DTYPES[dtype].itemsize

    def softmax(x):
        return torch.softmax(x, -1)

    def layer_norm(x, weight, bias):
        return F.layer_norm(x, (COLUMNS,), weight, bias)

    def inputs(leaf):
        shapes = ((ROWS, COLUMNS), (COLUMNS,), (COLUMNS,))
        return [randn(*shape, dtype=DTYPES[dtype], leaf=leaf) for shape in shapes]

    over_matrices("softmax/fwd", dtype, 2, softmax, 1)
    moving(f"softmax/bwd/{dtype}", 3 * size, lambda: {"torch": gradient(softmax, inputs(True)[0])})
    moving(f"layernorm/fwd/{dtype}", 2 * size, lambda: both(layer_norm, *inputs(False)))
    moving(f"layernorm/bwd/{dtype}", 3 * size, lambda: {"torch": gradient(layer_norm, *inputs(True))})


def cross_entropy_case():
    rows, classes = 8192, 50257

    def make():
        x = randn(rows, classes, dtype=torch.bfloat16, leaf=True)
        targets = torch.randint(0, classes, (rows,), device=DEVICE)
        compiled = torch.compile(lambda: F.cross_entropy(x, targets), dynamic=False)
        return {
            "torch": lambda: torch.autograd.grad(F.cross_entropy(x, targets), x),
            "torch/compile": lambda: torch.autograd.grad(compiled(), x),
        }

    moving(f"cross_entropy/fwd_bwd/bf16/{rows}x{classes}", 2 * rows * classes * 2, make)


def embedding_case():
    rows, width, tokens = 50257, 768, 16384

    def make():
        table = randn(rows, width, leaf=True)
        indices = torch.randint(0, rows, (16, 1024), device=DEVICE)
        return {"torch": gradient(lambda table: F.embedding(indices, table), table)}

    moving(f"embedding/bwd/f32/{tokens}x{width}", (2 * tokens * width + rows * width) * 4, make)


def adamw_case():
    def make():
        parameters = [nn.Parameter(randn(1024, 1024)) for _ in range(124)]
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        return {"torch": torch.optim.AdamW(parameters, lr=1e-4, fused=True).step}

    moving("adamw/f32/124x1M", 124 * (1 << 20) * 4 * 7, make)


def total_norm_case():
    def make():
        gradients = [randn(1024, 1024) for _ in range(124)]
        return {"torch": lambda: nn.utils.get_total_norm(gradients, foreach=True)}

    moving("total_norm/f32/124x1M", 124 * (1 << 20) * 4, make)


# ---------------------------------------------------------------- Training


def training_case(training):
    """Adds the steps of a model in its modes, with the peak memory relative to what was in use
    before.
    """

    def measure(clock, mode):
        # Objects of an earlier mode in reference cycles could be freed while this mode measures
        # memory relative to them.
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step = training.step(mode)
        seconds = clock.seconds_of_step(step)
        peak = (torch.cuda.max_memory_allocated() - before) >> 20
        emit(training.name, f"torch/{mode}", seconds * 1e3, training.amount / seconds, training.unit, peak_mib=peak)

    def run(clock, compiling):
        for mode in training.modes:
            if compiling or mode != "compile":
                guarded(training.name, f"torch/{mode}", lambda: measure(clock, mode))

    CASES[training.name] = run


def all_cases():
    host_cases()
    product_cases()
    ladder_cases()
    attention_cases()
    for rung in torch_attention_ladder.rungs():
        attention_rung(rung)
    convolution_cases()
    copy_case()
    for dtype in ("f32", "bf16"):
        elementwise_cases(dtype)
        reduction_cases(dtype)
        row_cases(dtype)
    cross_entropy_case()
    embedding_case()
    adamw_case()
    total_norm_case()
    for training in torch_training.training_cases():
        training_case(training)


def small_result():
    """Computes the same as `ternion-bench start result`, for the time from process start to first
    result.
    """
    x = torch.ones(64, 64, device=DEVICE)
    print(json.dumps(dict(first=torch.softmax(x @ x, 1)[0, 0].item())), flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], help="only cases whose names begin with one of these")
    parser.add_argument("--rep", type=float, default=60.0, help="milliseconds to measure a case for")
    parser.add_argument("--steps", type=int, default=20, help="steps of a round of a train case")
    parser.add_argument("--skip-compile", action="store_true", help="leaves out torch.compile, which takes seconds for each case")
    parser.add_argument("--list", action="store_true", help="prints the names of the cases, in the order in which they are measured")
    parser.add_argument("--serve", action="store_true", help="measures a case whenever a line of the input is its name, until the input ends")
    parser.add_argument("--start", action="store_true", help="computes one small result and ends")
    return parser.parse_args()


def selected(only):
    """Returns the names of the cases that begin with one of these, or all names without any; an
    error if there are none.
    """
    all_cases()
    wanted = [name for name in CASES if not only or name.startswith(tuple(only))]
    if not wanted:
        raise SystemExit(f"error: no case begins with {' or '.join(only)}")
    return wanted


def measure(name, clock, compiling):
    """Measures a case. Afterward nothing of it is left on the device, neither memory nor work."""
    guarded(name, "torch", lambda: CASES[name](clock, compiling))
    guarded(name, "torch", rest)


def rest():
    """Frees the memory of what was measured and waits for the device."""
    # Resets the compiler only if it was used, because the call would load it.
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def main():
    args = arguments()
    if args.start:
        return small_result()
    wanted = selected(args.only)
    if args.list:
        return print("\n".join(wanted))
    torch.manual_seed(0)
    versions = dict(torch=torch.__version__, cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version())
    print(json.dumps(dict(versions=versions)), flush=True)
    clock = Clock(args.rep, args.steps)
    if args.serve:
        # Garbage collection considers only objects that are created from here on, so that the
        # device is not idle longer after this program's turn than after the other's.
        gc.freeze()
        return turns.serve(wanted, lambda name: measure(name, clock, not args.skip_compile), sys.stdin, sys.stdout)
    for name in wanted:
        measure(name, clock, not args.skip_compile)


if __name__ == "__main__":
    main()
