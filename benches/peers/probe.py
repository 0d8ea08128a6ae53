#!/usr/bin/env python3
"""Checks, times and traces the matrix products that probe_kernels.py has compiled, compared with
cuBLAS in one process. Needs PyTorch with CUDA.

    probe.py --cubins DIR --cases nn:1024x1024x1024 nt:4096x4096x4096 [--only PATTERN..]
        [--calls 60] [--rounds 6] [--out FILE] [--trace]

A case is LAYOUT:MxNxK. The first letter of LAYOUT is a's layout, the second one b's: n row-major, t
transposed in storage (x.t()). Times are of one call with a cold L2 cache, in microseconds between
two events, medians of --calls with all kernels alternating; `/cuBLAS` above 1 is slower. Results
are compared with sums in f64, with cuBLAS's bits, and with those of --repeats runs.

This is for open questions about one kernel before it is part of the backend; claims are measured by
compare.py.
"""
import argparse, ctypes, fnmatch, json, os, statistics, struct, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
SIZES = {"f16": 2, "bf16": 2, "float": 4}
MAP_TYPES = {"f16": 6, "float": 7, "bf16": 9}  # CU_TENSOR_MAP_DATA_TYPE_..
TRACE_BYTES, TRACE_SLOTS = 4 << 20, 64
CLUSTER_DIMENSION, STREAM_SERIALIZATION = 4, 6  # CU_LAUNCH_ATTRIBUTE_..
ceil = lambda a, b: -(-a // b)
up = lambda a, b: ceil(a, b) * b

# ----------------------------------------------------------------------------- as on the Rust side


def divisor(d):
    """As space.rs: Divisor::new."""
    d = min(max(d, 1), 2**31 - 1)
    shift = (d - 1).bit_length()
    factor = ((1 << 32) * ((1 << shift) - d) // d + 1) & 0xFFFFFFFF
    return d, factor, shift


def tile_grid(m, n, tile_m, tile_n, matrices=1, splits=1, fast=1, band=8):
    """As tile_grid.rs: TileGrid::new."""
    rows, columns = ceil(m, tile_m), ceil(n, tile_n)
    return dict(matrix=divisor(rows * columns), band=divisor(band * columns), last_band=divisor(rows % band), splits=divisor(splits),
                fast=divisor(fast), rows=rows, count=rows * columns * matrices * splits)


def map_axes(run, lines, line_stride, extents, size):
    """As tensor_maps.rs: Mapped::map, and Axes of driver/tensor_map.rs: (size, stride in bytes,
    extent); one matrix.
    """
    axes, filled = [(run, size, extents[0])], up(run * size, 16)
    for count, stride, extent in ((lines, line_stride, extents[1]), (1, 0, 1), (1, 0, 1)):
        count = 1 if stride == 0 else max(count, 1)
        bytes_ = filled if count == 1 else stride * size
        filled = max(filled, bytes_ * count)
        axes.append((count, bytes_, extent))
    return axes


def operand_axes(e, which, shape, strides):
    """As tensor_maps.rs: operand_maps. a is [m, k], b is [k, n]; strides in elements."""
    size = SIZES[e["type"]]
    tile_m, tile_n, tile_k = e["tile"]
    down, across = e["cluster"]
    inner = e["a_inner"] if which == "a" else e["b_inner"]
    # The axis of k, and the other one.
    k_axis, line_axis = (1, 0) if which == "a" else (0, 1)
    lines, sharing = (tile_m, across) if which == "a" else (tile_n, down)
    run_axis, across_axis = (k_axis, line_axis) if inner else (line_axis, k_axis)
    if strides[run_axis] != 1 and shape[run_axis] > 1:
        raise ValueError(f"{which} is not a run along axis {run_axis}: strides {strides}")
    extents = [tile_k, lines // sharing] if inner else [128 // size, tile_k // sharing]
    stride = 0 if shape[across_axis] <= 1 else strides[across_axis]
    return map_axes(shape[run_axis], shape[across_axis], strides[across_axis] if stride else 0, extents, size)


def output_axes(e, m, n):
    return map_axes(n, m, n, [128 // SIZES[e["output"]], 64], SIZES[e["output"]])


def pack(e, values):
    """Packs parameters by name, at the offsets that the compiler reported; other fields are 0."""
    offsets = e["params"]
    out = bytearray(offsets[""])
    for name, (form, *data) in values.items():
        if name not in offsets:
            if any(any(x) if isinstance(x, (bytes, bytearray)) else x for x in data):
                print(f"# {e['name']}: no parameter {name}", file=sys.stderr)
            continue
        struct.pack_into("<" + form, out, offsets[name], *data)
    return out


def pack_grid(e, grid):
    at, of = e["grid"], e["divisor"]
    out = bytearray(at[""])
    for name, value in grid.items():
        if name not in at:
            continue
        if isinstance(value, tuple):
            for part, number in zip(("divisor", "factor", "shift"), value):
                struct.pack_into("<I", out, at[name] + of[part], number)
        else:
            struct.pack_into("<I", out, at[name], value)
    return bytes(out)


def split_of(k, ranks, tile_k):
    """Returns the length of a split, and the number of splits, as choice.rs."""
    length = up(ceil(max(k, 1), ranks), tile_k)
    return length, max(1, ceil(k, length))


def plan(e, m, n, k, ranks, multiprocessors):
    """Returns the grid, the cluster of the launch, and the length of a split."""
    tile_m, tile_n, tile_k = e["tile"]
    if e["kind"] == "split_k":
        length, splits = split_of(k, ranks, tile_k)
        return ceil(m, tile_m) * ceil(n, tile_n) * splits, splits, length
    down, across = e["cluster"]
    size = down * across
    tiles = up(ceil(m, tile_m), down) * up(ceil(n, tile_n), across)
    persistent = size <= 2 if e["persistent"] is None else e["persistent"]
    most = (e["blocks"] or multiprocessors) // size * size
    return min(tiles, most) if persistent else tiles, 1, split_of(k, 1, tile_k)[0]


def parameters(e, m, n, k, ranks, addresses, strides, maps, sums, multiprocessors):
    """As tensor_maps.rs: launch; split_k.rs: launch. `addresses`, `strides` and `maps` are of a, b,
    y.
    """
    tile_m, tile_n, tile_k = e["tile"]
    _, _, length = plan(e, m, n, k, ranks, multiprocessors)
    one = struct.unpack("<I", struct.pack("<f", 1.0))[0]
    values = {"a": ("128s", maps[0]), "b": ("128s", maps[1]), "k": ("I", k), "split_length": ("I", length)}
    down, across = e["cluster"]
    grid = pack_grid(e, tile_grid(m, n, tile_m * down, tile_n * across))
    values["tiles"] = (f"{len(grid)}s", grid)
    if e["kind"] == "wgmma":
        values.update({
            "y": ("128s", maps[2]), "m": ("I", m), "n": ("I", n), "splits": ("I", 1), "alpha": ("I", one), "sums": ("Q", sums),
        })
        return pack(e, values)
    stride = lambda view, axis: 0 if view[0][axis] <= 1 else view[1][axis]
    a, b, y = (((m, k), strides[0]), ((k, n), strides[1]), ((m, n), strides[2]))
    dims = [number for _ in range(8) for number in (1, 1, 0)]
    batch_strides = [1, 0, 0, 0, 0, 0, 0, 0] * 3
    product = {
        "y": ("Q", addresses[2]), "a": ("Q", addresses[0]), "b": ("Q", addresses[1]), "partial": ("Q", sums), "a_row": ("q", stride(a, 0)),
        "a_k": ("q", stride(a, 1)), "b_k": ("q", stride(b, 0)), "b_column": ("q", stride(b, 1)), "y_row": ("q", stride(y, 0)),
        "y_column": ("q", stride(y, 1)), "alpha": ("Q", one), "m": ("I", m), "n": ("I", n), "k": ("I", k), "matrices": ("I", 1),
        "splits": ("I", 1), "split_length": ("I", length), "batch.rank": ("I", 1), "batch.dims": ("24I", *dims),
        "batch.sizes": ("8q", *[1] * 8), "batch.strides": ("24q", *batch_strides),
    }
    values.update({f"product.{name}": value for name, value in product.items()})
    values["reads_b_once"] = ("I", int(m <= tile_m))
    return pack(e, values)


def fits(e, layout, m, n, k):
    """Returns None, or why the kernel does not support the case."""
    pack_ = 16 // SIZES[e["type"]]
    if e["layout"] != layout:
        return "layout"
    if (k if layout[0] == "n" else m) % pack_ or (n if layout[1] == "n" else k) % pack_ or n * SIZES[e["output"]] % 16:
        return "lines are not multiples of 16 bytes"
    if e["kind"] == "split_k" and e["tile"][0] < 64 and m > e["tile"][0]:
        return "more rows than the tile"
    return None


# --------------------------------------------------------------------------------------- the driver


class LaunchConfig(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")] + [
        ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint)]


class LaunchAttribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16)]


class Driver:
    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.lib.cuLaunchKernelEx.argtypes = [ctypes.c_void_p] * 4
        context = ctypes.c_void_p()
        self("cuCtxGetCurrent", ctypes.byref(context))
        assert context.value, "torch has no context"

    def __call__(self, name, *arguments):
        code = getattr(self.lib, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'?').decode()} ({code})")

    def function(self, path, kernel, shared):
        with open(path, "rb") as file:
            image = file.read()
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self("cuModuleLoadData", ctypes.byref(module), image)
        self("cuModuleGetFunction", ctypes.byref(function), module, kernel.encode())
        # 8: CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.
        self("cuFuncSetAttribute", function, 8, ctypes.c_int(shared))
        return function

    def tensor_map(self, address, type, axes, l2_promotion):
        memory = ctypes.create_string_buffer(128 + 64)
        at = up(ctypes.addressof(memory), 64)
        rank = len(axes)
        sizes = (ctypes.c_uint64 * rank)(*[axis[0] for axis in axes])
        strides = (ctypes.c_uint64 * (rank - 1))(*[axis[1] for axis in axes[1:]])
        extents = (ctypes.c_uint32 * rank)(*[axis[2] for axis in axes])
        steps = (ctypes.c_uint32 * rank)(*[1] * rank)
        # No interleave, swizzle of 128 bytes, no special fill value.
        self("cuTensorMapEncodeTiled", ctypes.c_void_p(at), ctypes.c_int(MAP_TYPES[type]), ctypes.c_uint32(rank), ctypes.c_void_p(address),
             sizes, strides, extents, steps, ctypes.c_int(0), ctypes.c_int(3), ctypes.c_int(l2_promotion), ctypes.c_int(0))
        return ctypes.string_at(at, 128)


class Launch:
    """A kernel with its parameters, ready to be launched."""

    def __init__(self, driver, e, function, blocks, cluster, parameters, stream, dependent):
        self.driver = driver
        self.memory = ctypes.create_string_buffer(len(parameters) + 64)
        at = up(ctypes.addressof(self.memory), 64)
        ctypes.memmove(at, bytes(parameters), len(parameters))
        self.arguments = (ctypes.c_void_p * 1)(at)
        self.attributes = (LaunchAttribute * 2)()
        count = 0
        if cluster > 1:
            self.attributes[count].id = CLUSTER_DIMENSION
            self.attributes[count].value[0:3] = [cluster, 1, 1]
            count += 1
        if dependent:
            self.attributes[count].id = STREAM_SERIALIZATION
            self.attributes[count].value[0] = 1
            count += 1
        self.config = LaunchConfig(blocks, 1, 1, e["threads"], 1, 1, e["shared"], stream, ctypes.addressof(self.attributes), count)
        self.pointer, self.function = ctypes.addressof(self.config), function
        self.launch = driver.lib.cuLaunchKernelEx

    def __call__(self):
        code = self.launch(self.pointer, self.function, self.arguments, None)
        if code:
            raise RuntimeError(f"cuLaunchKernelEx: {code}")


# ------------------------------------------------------------------------------------------- a case


def wait(event, name, seconds=20):
    """Waits until the event has completed; ends the program if a kernel hangs."""
    end = time.perf_counter() + seconds
    while not event.query():
        if time.perf_counter() > end:
            print(f"{name} HANGS", flush=True)
            os._exit(3)


class Case:
    def __init__(self, torch, driver, stream, args, layout, m, n, k, entries):
        self.torch, self.driver, self.stream, self.args = torch, driver, stream, args
        self.layout, self.m, self.n, self.k = layout, m, n, k
        self.name = f"{layout}:{m}x{n}x{k}"
        self.multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
        self.start, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.groups = {}
        self.contestants = []  # (label, call, entry or None, ranks, key)
        for e in entries:
            reason = fits(e, layout, m, n, k)
            if reason:
                if reason != "layout":
                    print(f"# {e['name']}: {reason}")
                continue
            ranks = {1: 1}
            if e["kind"] == "split_k":
                # Ranks with the same number of splits are measured once.
                asked = args.ranks or e["ranks"]
                ranks = {split_of(k, of, e["tile"][2])[1]: of for of in reversed(asked)}
            for splits in sorted(ranks):
                label = e["name"] + (f"/r{splits}" if e["kind"] == "split_k" else "")
                self.add(e, label, ranks[splits])

    def tensors(self, key):
        """Returns the operands, y between guards, and the result of cuBLAS."""
        if key in self.groups:
            return self.groups[key]
        torch, (type_, output) = self.torch, key
        dtypes = {"bf16": torch.bfloat16, "f16": torch.float16, "float": torch.float32}
        generator = torch.Generator("cuda").manual_seed(1)

        def operand(rows, columns, letter):
            shape = (rows, columns) if letter == "n" else (columns, rows)
            x = torch.randn(shape, device="cuda", generator=generator).to(dtypes[type_])
            return x if letter == "n" else x.t()

        a, b = operand(self.m, self.k, self.layout[0]), operand(self.k, self.n, self.layout[1])
        guard, count = 4096, self.m * self.n
        buffer = torch.full((count + 2 * guard,), 77.0, device="cuda", dtype=dtypes[output])
        y = buffer[guard:guard + count].view(self.m, self.n)
        mine = torch.empty_like(y)
        if output == type_:
            cublas = lambda: torch.mm(a, b, out=mine)
        else:
            cublas = lambda: torch.mm(a, b, out_dtype=dtypes[output])
        expected = cublas().clone()
        exact = torch.float64 if self.m * self.n * self.k <= 1 << 40 else torch.float32
        reference = a.to(exact) @ b.to(exact)
        scale = reference.norm().item()
        error = lambda result: ((result.to(exact) - reference).norm() / scale).item()
        group = dict(a=a, b=b, y=y, buffer=buffer, guard=guard, expected=expected, reference=reference, error=error,
                     cublas_error=error(expected), bits=torch.int16 if SIZES[output] == 2 else torch.int32)
        self.groups[key] = group
        label = "cuBLAS" if output == type_ == "bf16" else f"cuBLAS {type_}->{output}"
        self.contestants.append((label, cublas, None, 1, key))
        return group

    def add(self, e, label, ranks):
        torch, key = self.torch, (e["type"], e["output"])
        g = self.tensors(key)
        a, b, y = g["a"], g["b"], g["y"]
        maps = [self.driver.tensor_map(x.data_ptr(), e["type"], operand_axes(e, which, x.shape, x.stride()), e["l2_promotion"])
                for which, x in (("a", a), ("b", b))]
        maps.append(self.driver.tensor_map(y.data_ptr(), e["output"], output_axes(e, self.m, self.n), e["l2_promotion"])
                    if e["kind"] == "wgmma" else bytes(128))
        sums = 0
        if e["trace"]:
            self.trace = getattr(self, "trace", None)
            if self.trace is None:
                self.trace = torch.zeros(TRACE_BYTES // 8, dtype=torch.int64, device="cuda")
            sums = self.trace.data_ptr()
        blocks, cluster, _ = plan(e, self.m, self.n, self.k, ranks, self.multiprocessors)
        if e["trace"] and blocks * TRACE_SLOTS * 8 > TRACE_BYTES:
            print(f"# {label}: too many blocks to trace")
            return
        data = parameters(e, self.m, self.n, self.k, ranks, [x.data_ptr() for x in (a, b, y)], [x.stride() for x in (a, b, y)], maps, sums,
                          self.multiprocessors)
        if "function" not in e:
            e["function"] = self.driver.function(os.path.join(self.args.cubins, e["cubin"]), e["kernel"], e["shared"])
        dependent = e["dependent"] and not self.args.plain_launch
        call = Launch(self.driver, e, e["function"], blocks, cluster, data, self.stream.cuda_stream, dependent)
        self.contestants.append((label, call, e, cluster, key))

    # --------------------------------------------------------------------------------------- checks

    def check(self):
        """Returns for each contestant: relative error, elements that differ from cuBLAS's, whether
        repeats are bit-identical.
        """
        found = {}
        for label, call, e, ranks, key in self.contestants:
            g = self.groups[key]
            if e is None:
                found[label] = dict(error=g["cublas_error"], differing=0, verdict="")
                continue
            torch, y, first, faults = self.torch, g["y"], None, []
            for _ in range(self.args.repeats):
                g["buffer"].fill_(77.0)
                y.view(g["bits"]).fill_(-1)  # a NaN
                call()
                self.end.record(self.stream)
                wait(self.end, label)
                g_ = g["guard"]
                if not (bool((g["buffer"][:g_] == 77.0).all()) and bool((g["buffer"][-g_:] == 77.0).all())):
                    faults.append("WRITES OUTSIDE")
                bits = y.view(g["bits"])
                if first is None:
                    first = bits.clone()
                elif not torch.equal(first, bits):
                    faults.append("REPEATS DIFFER")
            error = g["error"](y)
            if not error <= 1.5 * g["cublas_error"] + 1e-6:
                faults.append("WRONG")
            differing = int((first != g["expected"].view(g["bits"])).sum())
            found[label] = dict(error=error, differing=differing, verdict=" ".join(sorted(set(faults))))
        return found

    # ----------------------------------------------------------------------------------------- time

    def cold(self, flush, call, label):
        flush.zero_()
        self.start.record(self.stream)
        call()
        self.end.record(self.stream)
        wait(self.end, label)
        rest = time.perf_counter() + self.args.rest * 1e-3
        while time.perf_counter() < rest:
            pass
        return self.start.elapsed_time(self.end) * 1e3

    def time(self, flush):
        times = {label: [] for label, *_ in self.contestants}
        per_round = ceil(self.args.calls, self.args.rounds)
        for round_ in range(self.args.rounds):
            order = self.contestants if round_ % 2 == 0 else self.contestants[::-1]
            for label, call, *_ in order:
                for _ in range(self.args.warmups if round_ == 0 else min(3, self.args.warmups)):
                    self.cold(flush, call, label)
                times[label] += [self.cold(flush, call, label) for _ in range(per_round)]
        return times

    # --------------------------------------------------------------------------------------- traces

    def traces(self, flush, out):
        for label, call, e, ranks, key in self.contestants:
            if e is None or not e["trace"]:
                continue
            blocks = call.config.gx
            launches = []
            for _ in range(3):
                self.cold(flush, call, label)
            for _ in range(self.args.trace_calls):
                self.trace.zero_()
                self.cold(flush, call, label)
                launches.append(self.trace[:blocks * TRACE_SLOTS].view(blocks, TRACE_SLOTS).tolist())
            show_trace(f"{self.name} {label}", e, launches)
            if out:
                record = dict(kind="trace", case=self.name, variant=label, blocks=blocks, stamps=e["stamps"], launches=launches)
                out.write(json.dumps(record) + "\n")


def quantile(values, q):
    values = sorted(values)
    at = q * (len(values) - 1)
    low = int(at)
    return values[low] + (values[min(low + 1, len(values) - 1)] - values[low]) * (at - low)


def show_trace(name, e, launches):
    """Prints medians over blocks and launches of clocks relative to the block's slot 0."""
    rows = [row for launch in launches for row in launch if row[0]]
    if not rows:
        print(f"trace of {name}: no stamps")
        return
    rates = [(row[13] - row[0]) / (row[61] - row[60]) for row in rows if row[13] and row[61] > row[60]]
    rate = statistics.median(rates) if rates else float("nan")
    spans = [max(max(row[61], row[62]) for row in launch) - min(row[60] for row in launch if row[60]) for launch in launches]
    starts = [[row[60] - min(r[60] for r in launch if r[60]) for row in launch if row[60]] for launch in launches]
    print(f"trace of {name}: {len(launches)} launches of {len(launches[0])} blocks on {len({row[63] for row in rows})} multiprocessors, "
          f"{rate:.2f} clocks/ns by globaltimer; from the first entry to the last end {statistics.median(spans) / 1e3:.2f} us, entries within "
          f"{statistics.median(max(s) for s in starts) / 1e3:.2f} us (globaltimer)")
    print(f"  {'slot':>4} {'stamp':24} {'blocks':>6} {'clocks':>8} {'p10':>8} {'p90':>8} {'us':>8} {'from the one above':>18}")
    before = None
    for slot in range(56):
        clocks = [row[slot] - row[0] for row in rows if row[slot]]
        if not clocks:
            continue
        median = statistics.median(clocks)
        step = "" if before is None else f"{median - before:+.0f}"
        text = e["stamps"].get(str(slot), "?")
        print(f"  {slot:4} {text:24} {len(clocks) // len(launches):6} {median:8.0f} {quantile(clocks, .1):8.0f} {quantile(clocks, .9):8.0f} "
              f"{median / rate / 1e3:8.2f} {step:>18}")
        before = median


# --------------------------------------------------------------------------------------------- main


def smi():
    try:
        query = "--query-gpu=name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu"
        return subprocess.run(["nvidia-smi", query, "--format=csv,noheader"], capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "no nvidia-smi"


def self_test(entries):
    """Tests what needs no GPU: divisions, tile indices, parameters."""
    import random
    random.seed(3)
    for _ in range(20000):
        d = random.choice([random.randint(1, 300), random.randint(1, 2**31 - 1)])
        _, factor, shift = divisor(d)
        for n in (0, 1, d - 1, d, 2**31 - 1, random.randint(0, 2**31 - 1)):
            assert (((n * factor >> 32) + n) & 0xFFFFFFFF) >> shift == n // d, (n, d)
    for rows, columns in ((1, 1), (3, 5), (8, 4), (9, 3), (21, 7)):
        g, number = tile_grid(rows * 64 - 5, columns * 128, 64, 128), 0
        by = lambda n, d: ((n * d[1] >> 32) + n) >> d[2]
        for first in range(0, rows, 8):
            for column in range(columns):
                for row in range(first, min(rows, first + 8)):
                    band = by(number, g["band"])
                    left = number - band * g["band"][0]
                    height = (8, 1, 3) if band * 8 + 8 <= g["rows"] else g["last_band"]
                    c = by(left, height)
                    assert (band * 8 + left - c * height[0], c) == (row, column)
                    number += 1
        assert number == g["count"]
    assert ctypes.sizeof(LaunchConfig) == 56 and ctypes.sizeof(LaunchAttribute) == 72
    assert LaunchConfig.stream.offset == 32 and LaunchConfig.attributes.offset == 40 and LaunchAttribute.value.offset == 8
    for e in entries:
        m, n, k = 192, 384, 512
        a, b = (k, 1) if e["layout"][0] == "n" else (1, m), (n, 1) if e["layout"][1] == "n" else (1, k)
        axes = [operand_axes(e, "a", (m, k), a), operand_axes(e, "b", (k, n), b), output_axes(e, m, n)]
        data = parameters(e, m, n, k, 2, [1 << 40, 2 << 40, 3 << 40], [a, b, (n, 1)], [b"\1" * 128, b"\2" * 128, b"\3" * 128], 7 << 40, 132)
        grid, cluster, length = plan(e, m, n, k, 2, 132)
        box = lambda of: of[0][2] * of[1][2] * SIZES[e["type"]]
        print(f"{e['name']}.{e['layout']}: {len(data)} bytes of parameters, a {axes[0]} ({box(axes[0])} B), b {axes[1]} ({box(axes[1])} B), "
              f"grid {grid}, cluster {cluster}, length {length}")
    print("self-test passed")


def read_variants(folder):
    """Returns the description that probe_kernels.py wrote of the kernels that it compiled into a
    folder.
    """
    path = os.path.join(folder, "variants.json")
    try:
        with open(path) as file:
            return json.load(file)
    except FileNotFoundError:
        raise SystemExit(f"error: {path}: expected what probe_kernels.py writes, found no file; --cubins names its folder") from None
    except (OSError, ValueError) as error:
        raise SystemExit(f"error: {path}: expected what probe_kernels.py writes, found {error}") from error


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cubins", default=os.path.join(HERE, "cubins"), help="the folder of probe_kernels.py")
    parser.add_argument("--cases", nargs="*", default=["nn:1024x1024x1024"])
    parser.add_argument("--only", nargs="*", default=[], help="names or patterns of variants")
    parser.add_argument("--ranks", nargs="*", type=int, help="of split-K, instead of the variants' own")
    parser.add_argument("--calls", type=int, default=60, help="timed calls of each contestant; 0: none")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--warmups", type=int, default=10)
    parser.add_argument("--rest", type=float, default=0.35, help="milliseconds after each call")
    parser.add_argument("--repeats", type=int, default=5, help="checked launches; 0: no checks")
    parser.add_argument("--plain-launch", action="store_true", help="without programmatic stream serialization")
    parser.add_argument("--full-reductions", action="store_true", help="cuBLAS without reductions in half precision")
    parser.add_argument("--trace", action="store_true", help="dump stamps of the variants that have some; these are timed with it only")
    parser.add_argument("--trace-calls", type=int, default=5)
    parser.add_argument("--out", help="JSON lines")
    parser.add_argument("--self-test", action="store_true", help="without a GPU")
    args = parser.parse_args()
    entries = read_variants(args.cubins)
    if args.only:
        entries = [e for e in entries if any(fnmatch.fnmatch(e["name"], pattern) for pattern in args.only)]
    if args.self_test:
        return self_test(entries)
    if not args.trace:
        entries = [e for e in entries if not e["trace"]]
    import gc
    import torch
    torch.cuda.init()
    torch.backends.cuda.matmul.allow_tf32 = False
    if args.full_reductions:
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.zeros(1, device="cuda")
    driver, stream = Driver(), torch.cuda.Stream()
    out = open(args.out, "a") if args.out else None
    print(f"# {smi()}; torch {torch.__version__}; {'plain' if args.plain_launch else 'dependent'} launches; L2 cold; us of one call, "
          f"medians of {args.calls}")
    gc.disable()
    failed = 0
    with torch.cuda.stream(stream):
        flush = torch.zeros(256 << 20, dtype=torch.uint8, device="cuda")
        for case in args.cases:
            layout, _, sizes = case.partition(":")
            m, n, k = map(int, sizes.split("x"))
            c = Case(torch, driver, stream, args, layout, m, n, k, entries)
            if not c.contestants:
                print(f"{case}: no variant")
                continue
            stream.synchronize()
            checks = c.check() if args.repeats else {}
            times = c.time(flush) if args.calls else {}
            print(f"\n{case}")
            print(f"  {'variant':44} {'blocks':>6} {'median':>8} {'q1':>8} {'q3':>8} {'/cuBLAS':>8} {'TFLOP/s':>8} {'rel error':>10} "
                  f"{'bits differ':>11}")
            base = {key: statistics.median(times[label]) for label, _, e, _, key in c.contestants if e is None and times}
            for label, call, e, ranks, key in c.contestants:
                found, of = checks.get(label, {}), times.get(label)
                record = dict(kind="time", case=case, variant=label, layout=layout, m=m, n=n, k=k, type=key[0], output=key[1], ranks=ranks,
                              blocks=call.config.gx if e else None, device=torch.cuda.get_device_name(), plain_launch=args.plain_launch, **found)
                text = ""
                if of:
                    median, q1, q3 = statistics.median(of), quantile(of, .25), quantile(of, .75)
                    record.update(median=median, q1=q1, q3=q3, least=min(of), ratio=median / base[key], times=[round(t, 3) for t in of])
                    text = f"{median:8.2f} {q1:8.2f} {q3:8.2f} {median / base[key]:8.3f} {2e-6 * m * n * k / median:8.1f}"
                failed += bool(found.get("verdict"))
                print(f"  {label:44} {record['blocks'] or '':>6} {text:44} {found.get('error', float('nan')):10.2e} "
                      f"{found.get('differing', ''):>11} {found.get('verdict', '')}", flush=True)
                if out:
                    out.write(json.dumps(record) + "\n")
            if args.trace:
                c.traces(flush, out)
            if out:
                out.flush()
            del c
            gc.collect()
    print(f"# {smi()}")
    if failed:
        print(f"{failed} FAILED")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
