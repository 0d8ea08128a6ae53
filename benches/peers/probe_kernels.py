#!/usr/bin/env python3
"""Compiles variants of gemm/wgmma.cu and gemm/wgmma_split_k.cu for probe.py: other tiles, kernels
of another folder, changed source text, clock stamps.

    TERNION_NVRTC=DIR probe_kernels.py [DIR] [--only PATTERN..] [--list FILE.py] [--layouts nn,nt]
        [--kroot NAME=FOLDER ..] [--trace] [--check]

Needs no GPU. DIR (default: target/probe) gets a cubin for each variant and layout, and
variants.json with everything that a launch needs. Registers, spills and warnings are printed.

--list   a file that sets VARIANTS (it can use everything of this file: variant(), tile(), TRACE,
         KROOT ..)
--kroot  also compiles every variant with the kernels of FOLDER, as variant@NAME
--trace  also compiles every variant with the stamps of TRACE, as variant+trace
--check  only checks whether parameters are at the offsets that probe.py uses
"""
import argparse, ctypes, fnmatch, glob, json, multiprocessing, os, re, sys

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KROOT = os.path.join(REPOSITORY, "kernels")
# The folder of NVRTC's libraries, as everywhere in this repository.
NVRTC = os.environ.get("TERNION_NVRTC", "/usr/local/cuda/lib64")
# As in modules.rs.
OPTIONS = ["--std=c++17", "-DNDEBUG", "-diag-suppress=177", "-diag-suppress=186"]
ARCHITECTURE = "sm_90a"

# ------------------------------------------------------------------------------------------- stamps

STAMPS = {
    0: "entry", 1: "barriers met", 2: "waited for earlier", 3: "first stages asked", 4: "all stages asked",
    8: "c0 begins", 9: "c0 first full", 10: "c0 products issued", 11: "c0 sums done", 12: "c0 stored", 13: "c0 end",
    16: "c1 begins", 17: "c1 first full", 18: "c1 products issued", 19: "c1 sums done", 20: "c1 stored", 21: "c1 end",
}
# In a block with several tiles, the stamps of the last one remain. Slots from 56 on belong to the
# probe: 60 globaltimer at the entry, 61 and 62 the same at the end of consumer 0 and 1, 63 the
# multiprocessor.
_STAMP = """
// STAMP(i): the clock of the multiprocessor into slot i of the block. By one thread of a role.
INLINE void stamp_of(u64 t, PARAMETERS, u32 i) {
    asm volatile("st.global.u64 [%0], %1;" ::"l"((u64*)WHERE + (u64(blockIdx.x) * 64 + i)), "l"(t) : "memory");
}
INLINE void stamp(PARAMETERS, u32 i) {
    u64 t;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
    stamp_of(t, p, i);
}
INLINE void stamp_global(PARAMETERS, u32 i) {
    u64 t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
    stamp_of(t, p, i);
}
INLINE void stamp_place(PARAMETERS, u32 i) {
    u32 t;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(t));
    stamp_of(t, p, i);
}
#define STAMP(i) stamp(p, i)
// By the leading thread of each consumer.
#define STAMP_CONSUMER(i) \\
    if (threadIdx.x % 128 == 0) stamp(p, 8 + threadIdx.x / 128 * 8 + (i))

"""
_W, _T, _L, _S = "gemm/wgmma.cu", "gemm/wgmma_tile.cuh", "gemm/wgmma_loop.cuh", "gemm/wgmma_split_k.cu"


def _stamps(parameters, where):
    return _STAMP.replace("PARAMETERS", parameters).replace("WHERE", where)


_PLACE = "// SUMS_OF_A: the warps of the producer's warpgroup that sum rows of a, a slab each.\n"
_LEAD = "if (threadIdx.x == CONSUMERS * WARPGROUP) "
TRACE = [
    (_T, _PLACE, _stamps("const TensorMapProduct& p", "p.sums") + _PLACE),
    (_L, "    if (leads) {\n        prefetch_tensormap(p.a);",
     "    if (leads) {\n        STAMP(0);\n        stamp_global(p, 60);\n        stamp_place(p, 63);\n        prefetch_tensormap(p.a);"),
    (_L, "    wait_for_earlier_launches();\n    wait_barriers_ready();\n",
     "    if (leads) STAMP(1);\n    wait_for_earlier_launches();\n    wait_barriers_ready();\n    if (leads) STAMP(2);\n"),
    (_W, "    if (warp == PRODUCER_WARP) stages = load_first_stages(p, shared);\n",
     f"    if (warp == PRODUCER_WARP) {{\n        stages = load_first_stages(p, shared);\n        {_LEAD}STAMP(3);\n    }}\n"),
    (_W, "        producer_loop(p, shared, stages);\n", "        producer_loop(p, shared, stages);\n        STAMP(4);\n"),
    (_W, "    Ring ring(shared);\n    if (CLUSTER > 1) ring.peer = peer_of_lane();\n",
     "    STAMP_CONSUMER(0);\n    Ring ring(shared);\n    if (CLUSTER > 1) ring.peer = peer_of_lane();\n"),
    (_W, "    if (out.leads()) cp_async_bulk_wait_group_read<0>();\n",
     "    if (out.leads()) cp_async_bulk_wait_group_read<0>();\n    STAMP_CONSUMER(5);\n"
     "    if (out.leads()) stamp_global(p, 61 + consumer);\n"),
    (_W, "#if BF16X6\n    mainloop_bf16x6(sums, ring, k_tiles, row);",
     "    const TensorMapProduct& p = out.p;\n    mbarrier_wait_parity(ring.full(), ring.parity);\n    STAMP_CONSUMER(1);\n"
     "#if BF16X6\n    mainloop_bf16x6(sums, ring, k_tiles, row);"),
    (_W, "        if (!BF16X6) await_sums(sums, ring, work.k_tiles);\n        store(sums, out, work, row, is_last);\n",
     "        STAMP_CONSUMER(2);\n        if (!BF16X6) await_sums(sums, ring, work.k_tiles);\n        STAMP_CONSUMER(3);\n        store(sums, out, work, row, is_last);\n"
     "        STAMP_CONSUMER(4);\n"),
    (_W, "        // Its last stages have been full: the other consumer may wait for those that follow.\n",
     "        STAMP_CONSUMER(2);\n        // Its last stages have been full: the other consumer may wait for those that follow.\n"),
    (_W, "        await_sums(sums, ring, work.k_tiles);\n        // Recomputed, so that it takes no registers during the main loop.\n"
         "        store(sums, out, WorkTile(p, opaque(tile_index)), 0,\n              next_tile_index(next_tile_index(tile_index)) >= p.tiles.count);\n",
     "        await_sums(sums, ring, work.k_tiles);\n        STAMP_CONSUMER(3);\n"
     "        store(sums, out, WorkTile(p, opaque(tile_index)), 0,\n              next_tile_index(next_tile_index(tile_index)) >= p.tiles.count);\n"
     "        STAMP_CONSUMER(4);\n"),
]
# Stamps whose source text another worktree has changed are skipped, with a note: all but the first.
TRACE = TRACE[:1] + [(*patch, True) for patch in TRACE[1:]]
# The same for split-K: the leading thread of the producer, and thread 0.
TRACE_SPLIT_K = [
    (_S, "// A position in the ring of stages, each of which holds one k-tile of a and of b: the index of the\n",
     _stamps("const SplitKProduct& p", "p.product.partial") + "// A position in the ring of stages, each of which holds one k-tile of a and of b: the index of the\n"),
    (_S, "    if (leads) {\n        prefetch_tensormap(p.b);\n",
     "    if (leads) {\n        STAMP(0);\n        stamp_global(p, 60);\n        stamp_place(p, 63);\n        prefetch_tensormap(p.b);\n"),
    (_S, "    __syncthreads();\n    wait_for_earlier_launches();\n    Range range(p);\n    if (leads) producer_loop(p, shared, range);\n",
     "    __syncthreads();\n    if (leads) STAMP(1);\n    wait_for_earlier_launches();\n    if (leads) STAMP(2);\n    Range range(p);\n"
     "    if (leads) {\n        STAMP(3);\n        producer_loop(p, shared, range);\n        STAMP(4);\n    }\n"),
    (_S, "        Sums sums;\n        mainloop(sums, shared, range.k_tiles);\n",
     "        Sums sums;\n        STAMP_CONSUMER(0);\n        if (range.k_tiles) mbarrier_wait_parity(Ring(shared).full(), 0);\n"
     "        STAMP_CONSUMER(1);\n        mainloop(sums, shared, range.k_tiles);\n        STAMP_CONSUMER(3);\n"),
    (_S, "    cluster_sync();\n    if (consumes) finish_rows(p.product, shared, range.tile, bias);\n",
     "    cluster_sync();\n    if (consumes) {\n        STAMP_CONSUMER(4);\n        finish_rows(p.product, shared, range.tile, bias);\n"
     "        STAMP_CONSUMER(5);\n        if (threadIdx.x == 0) stamp_global(p, 61);\n    }\n"),
]

# ----------------------------------------------------------------------------------------- variants


def variant(name, macros, file="gemm/wgmma.cu", kroot=KROOT, layouts=("nn", "nt"), type="bf16", output=None, patches=(), trace=False,
            ranks=(1, 2, 4, 8), blocks=None, persistent=None, l2_promotion=3, dependent=True, shared=None, options=()):
    """
    macros        TILE_M, TILE_N, STAGES, PINGPONG, CLUSTER_DOWN, CLUSTER_ACROSS (split-K:
                  BLOCKS_PER_SM), and any others; A_K_MAJOR and B_K_MAJOR follow from the layout
                  unless given
    patches       [(file, old, new)]: texts that occur once; with a fourth element, true, a patch is
                  skipped if its text does not
    ranks         split-K: blocks of a cluster; each number is timed
    persistent    whether blocks loop over tiles; None: as Tile::blocks, not in clusters of more
                  than two
    blocks        the maximum number of blocks of a persistent grid; None: multiprocessors
    l2_promotion  0 none, 1 64 bytes, 2 128, 3 256
    dependent     DEPENDENT 1 and programmatic stream serialization, as all products have
    shared        bytes of dynamic shared memory; None: as computed from the kernel's constants
    """
    return dict(name=name, macros=dict(macros), file=file, kroot=kroot, layouts=list(layouts), type=type, output=output or type,
                patches=list(patches), trace=trace, ranks=list(ranks), blocks=blocks, persistent=persistent, l2_promotion=l2_promotion,
                dependent=dependent, shared=shared, options=list(options))


def tile(m, n, stages, ping_pong, down=1, across=1, **more):
    return dict(TILE_M=m, TILE_N=n, STAGES=stages, PINGPONG=int(ping_pong), CLUSTER_DOWN=down, CLUSTER_ACROSS=across, **more)


def traced(of, patches=None):
    """Returns the variant with stamps."""
    default = TRACE_SPLIT_K if of["file"] == _S else TRACE
    return dict(of, name=of["name"] + "+trace", trace=True, patches=of["patches"] + list(patches or default))


VARIANTS = [
    variant("wgmma_128x256x64", tile(128, 256, 4, False)),
    variant("wgmma_128x256x64_cluster", tile(128, 256, 4, False, 2)),
    variant("wgmma_128x192x64_ping_pong", tile(128, 192, 4, True)),
    variant("wgmma_128x128x64_ping_pong", tile(128, 128, 6, True)),
    variant("wgmma_128x128x64_cluster4", tile(128, 128, 6, False, 2, 2)),
    variant("wgmma_64x128x64_ping_pong", tile(64, 128, 8, True)),
    variant("wgmma_64x128x64_cluster", tile(64, 128, 8, True, 2)),
    variant("wgmma_64x64x64_ping_pong", tile(64, 64, 8, True)),
    variant("wgmmasplitk_64x64x64", dict(TILE_M=64, TILE_N=64, STAGES=6, BLOCKS_PER_SM=2), file=_S),
    variant("wgmmasplitk_32x64x64", dict(TILE_M=32, TILE_N=64, STAGES=9, BLOCKS_PER_SM=2), file=_S),
    variant("wgmmasplitk_16x64x64", dict(TILE_M=16, TILE_N=64, STAGES=11, BLOCKS_PER_SM=2), file=_S),
    #  Other variants, as in a file for --list:
    #  traced(variant("wgmma_128x128x64_ping_pong", tile(128, 128, 6, True))),
    #  variant("five_stages", tile(128, 128, 5, True), kroot="../other/kernels",
    #          patches=[("gemm/wgmma_loop.cuh", "STAGES < 4 ? STAGES : 4", "STAGES")]),
]

# -------------------------------------------------------------------------------------------- NVRTC


class Nvrtc:
    def __init__(self, folder=NVRTC):
        for builtins in glob.glob(f"{folder}/libnvrtc-builtins.so.*"):
            ctypes.CDLL(builtins, ctypes.RTLD_GLOBAL)
        self.lib = ctypes.CDLL(sorted(glob.glob(f"{folder}/libnvrtc.so.*"))[-1])
        self.lib.nvrtcGetErrorString.restype = ctypes.c_char_p

    def _text(self, handle, what):
        size = ctypes.c_size_t()
        if getattr(self.lib, f"nvrtcGet{what}Size")(handle, ctypes.byref(size)):
            return b""
        out = ctypes.create_string_buffer(max(1, size.value))
        getattr(self.lib, f"nvrtcGet{what}")(handle, out)
        return out.raw[:size.value]

    def compile(self, name, text, headers, options, what="CUBIN"):
        """Returns the code, or None, and the log."""
        handle, count = ctypes.c_void_p(), len(headers)
        strings = lambda all: (ctypes.c_char_p * max(1, len(all)))(*[s.encode() for s in all])
        code = self.lib.nvrtcCreateProgram(ctypes.byref(handle), text.encode(), name.encode(), count, strings(headers.values()),
                                           strings(headers.keys()))
        assert code == 0, self.lib.nvrtcGetErrorString(code)
        code = self.lib.nvrtcCompileProgram(handle, len(options), strings(options))
        log = self._text(handle, "ProgramLog").rstrip(b"\0").decode(errors="replace").strip()
        out = self._text(handle, what) if code == 0 else None
        self.lib.nvrtcDestroyProgram(ctypes.byref(handle))
        return out, log


# -------------------------------------------------------------------------------------------- files


def read_kernels(root):
    files = {}
    for folder, _, names in os.walk(root):
        for name in names:
            if name.endswith((".cu", ".cuh")):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    files[os.path.relpath(path, root)] = file.read()
    if not files:
        raise SystemExit(f"no kernels in {root}")
    return files


def patched(files, patches):
    """Applies patches. Also returns the optional patches that were skipped."""
    files, left_out = dict(files), []
    for path, old, new, *optional in patches:
        if path not in files:
            raise ValueError(f"patch of {path}, which is not a file")
        count = files[path].count(old)
        if count != 1 and optional:
            left_out.append(f"a patch of {path} left out, {count} times there: {old.strip()[:90]!r}")
            continue
        if count != 1:
            raise ValueError(f"patch of {path}: {count} times, not once: {old!r}")
        files[path] = files[path].replace(old, new)
    return files, left_out


def closure(files, root):
    """Returns the root and everything that it includes (files.rs)."""
    found, rest = {root: files[root]}, [root]
    while rest:
        for line in files[rest.pop(0)].splitlines():
            match = re.match(r'\s*#\s*include\s*"([^"]*)"', line)
            if match and match[1] in files and match[1] not in found:
                found[match[1]] = files[match[1]]
                rest.append(match[1])
    return found


def macros_of(v, layout):
    """Returns the macros of a variant, as source/gemm.rs."""
    m, split_k = v["macros"], v["file"] == _S
    macros = {"TYPE": v["type"], "TYPE_Y": v["output"]}
    macros.update({key: m[key] for key in ("TILE_M", "TILE_N", "STAGES")})
    macros["ACTIVATION"] = "(k.first ? unary_relu(x, k) : x)"
    inner = {"A_K_MAJOR": int(layout[0] == "n"), "B_K_MAJOR": int(layout[1] == "t")}
    rest = {"BLOCKS_PER_SM": 1} if split_k else {"PINGPONG": 0, "CLUSTER_DOWN": 1, "CLUSTER_ACROSS": 1}
    macros.update({**rest, **inner})
    macros.update(m)
    if v["dependent"]:
        macros["DEPENDENT"] = 1
    return {key: str(value) for key, value in macros.items() if value is not None}


def program(v, layout):
    files, left_out = patched(read_kernels(v["kroot"]), v["patches"])
    text = "".join(f"#define {key} {value}\n" for key, value in macros_of(v, layout).items())
    return text + f'#include "{v["file"]}"\n', closure(files, v["file"]), left_out


# ---------------------------------------------------------------------------- what a launcher needs


def members(headers, struct):
    """Returns the names of the members of a struct, from its text."""
    for text in headers.values():
        match = re.search(r"^(?:template <[^>]*> )?struct (?:alignas\(\d+\) )?%s \{\n(.*?)^\};" % struct, text, re.S | re.M)
        if not match:
            continue
        names = []
        body = re.sub(r"//[^\n]*", "", match[1])
        for statement in body.split("{")[0].split(";") if "{" in body else body.split(";"):
            if not statement.strip() or "(" in statement or "=" in statement:
                continue
            for part in statement.split(","):
                names.append(re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$", part)[1])
        return names
    raise ValueError(f"no struct {struct}")


# The offsets in kernels/, which probe.py fills.
WGMMA_OFFSETS = {
    "a": 0, "b": 128, "y": 256, "z": 384, "tiles": 512, "k": 580, "split_length": 584, "a_axes": 588, "b_axes": 592, "a_term_stride": 596,
    "b_term_stride": 600, "m": 604, "n": 608, "splits": 612, "is_partial": 616, "alpha": 620, "bias": 624, "sums": 632, "constants": 640,
    "not_splittable": 656, "parts": 664, "states": 672, "": 704,
}
PRODUCT_OFFSETS = {
    "y": 0, "a": 8, "b": 16, "bias": 24, "partial": 32, "condition": 40, "condition_value": 48, "a_row": 56, "a_k": 64, "b_k": 72,
    "b_column": 80, "y_row": 88, "y_column": 96, "bias_stride": 104, "alpha": 112, "constants": 120, "m": 136, "n": 140, "k": 144,
    "matrices": 148, "splits": 152, "split_length": 156, "batch": 160, "batch.rank": 160, "batch.dims": 164, "batch.sizes": 264,
    "batch.strides": 328, "": 520,
}
SPLIT_K_OFFSETS = {"a": 0, "b": 128, "tiles": 256, "k": 324, "split_length": 328, "a_axes": 332, "b_axes": 336, "reads_b_once": 340,
                   "product": 344, "": 896}
SPLIT_K_OFFSETS.update({f"product.{name}": 344 + at for name, at in PRODUCT_OFFSETS.items() if name})
TILE_GRID_OFFSETS = {"matrix": 0, "band": 12, "last_band": 24, "splits": 36, "fast": 48, "rows": 60, "count": 64, "": 68}
DIVISOR_OFFSETS = {"divisor": 0, "factor": 4, "shift": 8, "": 12}


def offset_of(struct, member):
    """Returns the compiler's own form of offsetof, for which there is no header."""
    return f"__INTADDR__(&((({struct}*)0)->{member}))"


def layout_of(nvrtc, name, text, headers, v):
    """Returns the offsets of the parameters, and the constants of the kernel, as the compiler sees
    them. A separate program determines them, so that the kernel's program is not changed.
    """
    split_k = v["file"] == _S
    struct = "SplitKProduct" if split_k else "TensorMapProduct"
    names = members(headers, struct)
    if split_k:
        names += [f"product.{member}" for member in members(headers, "GemmParams")]
        names += [f"product.batch.{member}" for member in members(headers, "Space")]
    grid, divisor = members(headers, "TileGrid"), members(headers, "Divisor")
    offset = offset_of
    asked = [("params", at, offset(struct, at)) for at in names] + [("params", "", f"sizeof({struct})")]
    asked += [("grid", at, offset("TileGrid", at)) for at in grid] + [("grid", "", "sizeof(TileGrid)")]
    asked += [("divisor", at, offset("Divisor", at)) for at in divisor] + [("divisor", "", "sizeof(Divisor)")]
    if split_k:
        asked += [("constants", "threads", "THREADS"), ("constants", "shared", "BARRIERS_OFFSET + 8 * 2 * STAGES + SWIZZLE_ALIGNMENT")]
    else:
        shared = "BARRIERS_OFFSET + 8 * (2 * STAGES + CONSUMERS + STRIP_BARRIERS + CONSUMERS) + SWIZZLE_ALIGNMENT"
        asked += [("constants", "threads", "THREADS"), ("constants", "shared", shared)]
    asked += [("constants", "tile_k", "TILE_K"), ("constants", "output_bytes", "sizeof(Output)")]
    # The error message contains the numbers; it occurs before any code is generated.
    text += "template <u32... N> struct ProbeLayout;\nstatic_assert(sizeof(ProbeLayout<%s>), \"\");\n" % ", ".join(
        f"u32({of})" for _, _, of in asked)
    _, log = nvrtc.compile(name + " (layout)", text, headers, OPTIONS + v["options"] + ["--gpu-architecture=compute_90a"], "PTX")
    match = re.search(r"incomplete type [^\n]*ProbeLayout<([0-9U, ]+)>", log)
    if not match:
        raise ValueError(f"the layout of {name}: {log[:2000]}")
    numbers = [int(number.strip(" U")) for number in match[1].split(",")]
    assert len(numbers) == len(asked)
    found = {}
    for (group, key, _), number in zip(asked, numbers):
        found.setdefault(group, {})[key] = number
    return found


def rust_shared(v):
    """As Tile::shared on the Rust side."""
    m = v["macros"]
    if v["file"] == _S:
        return m["STAGES"] * ((m["TILE_M"] + m["TILE_N"]) * 128 + 16) + 1024
    return m["STAGES"] * (m["TILE_M"] + m["TILE_N"]) * 128 + 2 * 2 * 64 * 128 + 8 * (2 * m["STAGES"] + 4) + 1024


def notes_of(v, found):
    """Returns how the kernels differ from those that this script was written for."""
    notes = []
    expected = SPLIT_K_OFFSETS if v["file"] == _S else WGMMA_OFFSETS
    for group, known in (("params", expected), ("grid", TILE_GRID_OFFSETS), ("divisor", DIVISOR_OFFSETS)):
        for key in {**known, **found[group]}:
            if known.get(key) != found[group].get(key):
                what = "filled with zeros" if key not in known else "not there" if key not in found[group] else "moved: filled where it is"
                notes.append(f"{group} {key or 'size'}: {known.get(key)} -> {found[group].get(key)} ({what})")
    if found["constants"]["shared"] != rust_shared(v):
        notes.append(f"shared memory: {found['constants']['shared']}, the Rust side's formula says {rust_shared(v)}")
    return notes


def report_of(log):
    """Returns registers, spills and shared memory of `product`, and all other messages of the
    compiler.
    """
    facts, rest, kernel = {}, [], None
    for line in log.splitlines():
        if match := re.search(r"Compiling entry function '(\w+)'|Function properties for (\w+)", line):
            kernel = match[1] or match[2]
        elif match := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            if kernel == "product":
                facts.update(stack=int(match[1]), spill_stores=int(match[2]), spill_loads=int(match[3]))
        elif match := re.search(r"Used (\d+) registers(.*)", line):
            if kernel == "product":
                facts.update(registers=int(match[1]), used=match[2].strip(", "))
        elif line.strip() and not re.search(r"bytes gmem|Compile time", line):
            rest.append(line)
    return facts, rest


def build(job):
    v, layout, folder = job
    name = f"{v['name']}.{layout}"
    try:
        nvrtc = Nvrtc()
        text, headers, left_out = program(v, layout)
        options = OPTIONS + v["options"] + [f"--gpu-architecture={ARCHITECTURE}", "--ptxas-options=-v"]
        cubin, log = nvrtc.compile(name, text, headers, options)
        if cubin is None:
            return name, None, f"does not compile:\n{log}"
        found = layout_of(nvrtc, name, text, headers, v)
    except ValueError as error:
        return name, None, str(error)
    facts, rest = report_of(log)
    notes = notes_of(v, found) + left_out
    file = name.replace("/", "_") + ".cubin"
    with open(os.path.join(folder, file), "wb") as out:
        out.write(cubin)
    m = v["macros"]
    entry = dict(
        name=v["name"], layout=layout, cubin=file, kernel="product", kind="split_k" if v["file"] == _S else "wgmma", kroot=v["kroot"],
        tile=[m["TILE_M"], m["TILE_N"], found["constants"]["tile_k"]], stages=m["STAGES"], ping_pong=bool(m.get("PINGPONG", 0)),
        cluster=[m.get("CLUSTER_DOWN", 1), m.get("CLUSTER_ACROSS", 1)], threads=found["constants"]["threads"],
        shared=v["shared"] or found["constants"]["shared"], type=v["type"], output=v["output"], a_inner=int(macros_of(v, layout)["A_K_MAJOR"]),
        b_inner=int(macros_of(v, layout)["B_K_MAJOR"]), ranks=v["ranks"], blocks=v["blocks"], persistent=v["persistent"],
        l2_promotion=v["l2_promotion"], dependent=v["dependent"], trace=v["trace"], params=found["params"], grid=found["grid"],
        divisor=found["divisor"], macros=macros_of(v, layout), compiler=facts,
        stamps={str(i): text for i, text in v.get("stamps", STAMPS).items()} if v["trace"] else {},
    )
    lines = [f"registers {facts.get('registers', '?')}, spills {facts.get('spill_stores', '?')}/{facts.get('spill_loads', '?')}, stack "
             f"{facts.get('stack', '?')}, dynamic smem {entry['shared']}, {facts.get('used', '')}"] + [f"  note: {note}" for note in notes]
    return name, entry, "\n".join(lines + [f"  | {line}" for line in rest])


def check(nvrtc):
    """Checks the offsets of this file and of probe.py by static_assert, in a program with the
    kernels' headers.
    """
    for file, struct, offsets in ((_W, "TensorMapProduct", WGMMA_OFFSETS), (_S, "SplitKProduct", SPLIT_K_OFFSETS)):
        of = next(v for v in VARIANTS if v["file"] == file and v["kroot"] == KROOT)
        text, headers, _ = program(of, "nn")
        groups = ((struct, offsets), ("TileGrid", TILE_GRID_OFFSETS), ("Divisor", DIVISOR_OFFSETS))
        if file == _S:
            groups += (("GemmParams", PRODUCT_OFFSETS), ("Space<3>", {"": 360}))
        asserts = 0
        for name, known in groups:
            for key, at in known.items():
                of_key = offset_of(name, key) if key else f"sizeof({name})"
                text += f"static_assert({of_key} == {at}, \"{name}.{key} at {at}\");\n"
                asserts += 1
        text += "static_assert(alignof(TensorMap) == 64 && sizeof(TensorMap) == 128, \"TensorMap\");\n"
        text += f"static_assert(alignof({struct}) == 64, \"alignment\");\n"
        _, log = nvrtc.compile(f"check {struct}", text, headers, OPTIONS + ["--gpu-architecture=compute_90a"], "PTX")
        failed = [line for line in log.splitlines() if "error" in line]
        print(f"{struct}: {asserts + 2} static_asserts, {len(failed)} failed")
        for line in failed:
            print("  ", line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default=os.path.join(REPOSITORY, "target", "probe"))
    parser.add_argument("--only", nargs="*", default=[], help="names or patterns of variants")
    parser.add_argument("--list", help="a file that sets VARIANTS")
    parser.add_argument("--layouts", help="for all variants: nn,nt,tn,tt")
    parser.add_argument("--kroot", nargs="*", default=[], help="NAME=FOLDER: every variant once more, as variant@NAME")
    parser.add_argument("--trace", action="store_true", help="every variant once more with stamps")
    parser.add_argument("--check", action="store_true", help="static_asserts of all offsets, nothing else")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep", action="store_true", help="add to variants.json instead of rewriting it")
    args = parser.parse_args()
    if args.check:
        return check(Nvrtc())
    variants = VARIANTS
    if args.list:
        space = dict(globals())
        with open(args.list) as file:
            exec(compile(file.read(), args.list, "exec"), space)
        variants = space["VARIANTS"]
    if args.only:
        variants = [v for v in variants if any(fnmatch.fnmatch(v["name"], pattern) for pattern in args.only)]
    for pair in args.kroot:
        name, _, root = pair.partition("=")
        variants = variants + [dict(v, name=f"{v['name']}@{name}", kroot=root) for v in variants if "@" not in v["name"]]
    if args.trace:
        variants = variants + [traced(v) for v in variants if not v["trace"]]
    os.makedirs(args.folder, exist_ok=True)
    jobs = []
    for v in variants:
        for layout in args.layouts.split(",") if args.layouts else v["layouts"]:
            if v["file"] == _S and layout[0] == "t" and v["macros"]["TILE_M"] < 64:
                continue
            jobs.append((v, layout, args.folder))
    names = [f"{v['name']}.{layout}" for v, layout, _ in jobs]
    if len(set(names)) != len(names):
        raise SystemExit("two variants of one name: " + ", ".join(sorted({name for name in names if names.count(name) > 1})))
    entries, failed = [], 0
    path = os.path.join(args.folder, "variants.json")
    if args.keep and os.path.exists(path):
        entries = [e for e in json.load(open(path)) if f"{e['name']}.{e['layout']}" not in names]
    with multiprocessing.Pool(max(1, min(args.jobs, len(jobs) or 1))) as pool:
        for name, entry, text in pool.imap(build, jobs):
            print(f"{name}: {text}", flush=True)
            failed += entry is None
            if entry:
                entries.append(entry)
    with open(path, "w") as out:
        json.dump(entries, out, indent=1)
    print(f"{len(entries)} in {path}" + (f", {failed} FAILED" if failed else ""))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
