"""The measurements of `ternion-bench tiles`, and the time that the CUDA backend predicts for a
product with a tile (crates/backend-cuda/src/ops/matmul/prediction.rs).
"""

import json
import math
import statistics

from compare import refuse_mixed

# The constants of prediction.rs and choice.rs: the costs of split-K; MICROSECONDS_OF are per split.
SPLIT_MICROSECONDS = 1.27
ARRIVAL_MICROSECONDS = 2.28
ARRIVAL_MICROSECONDS_OF_PART = 0.155
CLUSTER_SPLIT_MICROSECONDS = 1.9
CLUSTER_SPLIT_MICROSECONDS_OF_PART = 0.179
SUMMED_BYTES_PER_MICROSECOND = 3.35e6
MOST_COUNTS = 4096
COPY_MICROSECONDS = 4.0
PADDED_COPY_MICROSECONDS = 6.0
PARTS_MICROSECONDS = 0.897
SPLIT_BYTES = 4 + 3 * 2
BYTES_PER_MICROSECOND = 2e6
# Bytes of device memory that a product on tensor cores reads and writes per microsecond: by tensor
# maps, and by other copies. And the bytes that its blocks read from the L2 cache.
MAPPED_BYTES_PER_MICROSECOND = 4e6
LOADED_BYTES_PER_MICROSECOND = 2.99e6
CACHED_BYTES_PER_MICROSECOND = 1.8e7
# The factor of cache traffic for operands whose lines are not aligned to 128 bytes.
STRADDLING_FACTOR = 2.3

# Extension -> the constants that are fitted with it.
EXTENSIONS = {
    "pad": [],
    "parts": ["SPLIT_MICROSECONDS", "ARRIVAL_MICROSECONDS", "ARRIVAL_MICROSECONDS_OF_PART", "CLUSTER_SPLIT_MICROSECONDS", "CLUSTER_SPLIT_MICROSECONDS_OF_PART", "PARTS_MICROSECONDS"],
    "traffic": ["SUMMED_BYTES_PER_MICROSECOND", "MAPPED_BYTES_PER_MICROSECOND", "LOADED_BYTES_PER_MICROSECOND", "CACHED_BYTES_PER_MICROSECOND", "STRADDLING_FACTOR"],
}
CONSTANTS = {name: globals()[name] for names in EXTENSIONS.values() for name in names}

# Kind of operands -> bytes of an element of an operand and of the result.
BYTES = {"bf16": (2, 2), "f16": (2, 2), "f32": (4, 4), "tf32": (4, 4), "bf16x6": (4, 4)}
# Kinds of lines of ternion-bench that are not the time of a tile.
SKIPPED_KINDS = ("fused",)
PARTS_TILE = "wgmmabf16x6_"
# Kinds of tensor cores: operands are read in pieces of 128 bytes of lines, as they are stored, and
# memory is a limit.
LINED_KINDS = ("bf16", "f16", "tf32")
L2_LINE = 128
REGISTERS_TILE = "wgmmatf32_"
MAPPED_TILE = "wgmma"
# The blocks of a cluster add the partial sums: there is no second kernel.
CLUSTER_TILE = "wgmmasplitk_"
# The number of costs of a tile.
COSTS = 4


def round_up(number, multiple):
    return -(-number // multiple) * multiple


def cluster_shape(blocks):
    """Returns the tiles of a cluster along m and n, as `Tile::cluster_shape` of
    crates/backend-cuda.
    """
    across = 1 << (blocks.bit_length() - 1) // 2
    return blocks // across, across


# ---------------------------------------------------------------- what was measured


class Tile:
    """A tile of a kind's list, and its costs in the program that measured."""

    def __init__(self, name, block, resident, cluster, costs):
        self.name, self.block, self.resident, self.cluster = name, tuple(block), resident, cluster
        # Older measurements have a fifth cost, the factor by which each tile's products took longer
        # with unaligned lines.
        self.costs, self.is_known = list(costs[:COSTS]), len(costs) == COSTS


class Measurement:
    """The time of a product with one tile and a number of splits."""

    def __init__(self, line):
        self.kind, self.tile, self.splits, self.copies, self.us = (line[name] for name in ("kind", "tile", "splits", "copies", "us"))
        self.m, self.n, self.k, self.matrices = (line[name] for name in ("m", "n", "k", "matrices"))
        self.transposed = tuple(line["transposed"])

    def product(self):
        return self.kind, self.m, self.n, self.k, self.matrices, self.transposed

    def __str__(self):
        orders = "".join("t" if transposed else "n" for transposed in self.transposed)
        batch = f"{self.matrices} x " if self.matrices > 1 else ""
        return f"{batch}{self.m} x {self.n} x {self.k} {orders}"


class Product:
    """The measurements of a product."""

    def __init__(self, kind):
        self.kind, self.ones, self.chosen = kind, {}, None

    def add(self, one, is_chosen):
        key = one.tile, one.splits, one.copies
        self.ones.setdefault(key, []).append(one)
        # If several files contain the product, the choice in the last one counts.
        self.chosen = key if is_chosen else self.chosen

    def close(self):
        """Takes medians of what was measured several times."""
        for key, ones in self.ones.items():
            ones[0].us = statistics.median(one.us for one in ones)
            self.ones[key] = ones[0]
        self.best = min(one.us for one in self.ones.values())

    def loss(self, one):
        """Returns how much longer it takes than the fastest one."""
        return one.us / self.best - 1


class Data:
    """All tiles by name, all products by kind."""

    def __init__(self):
        self.tiles, self.products, self.runs = {}, {}, []

    def add_tile(self, line):
        tile = Tile(*(line[name] for name in ("tile", "block", "resident", "cluster", "costs")))
        known = self.tiles.get(tile.name, tile)
        of_known, of_tile = ((one.block, one.resident, one.cluster) for one in (known, tile))
        if of_known != of_tile:
            raise ValueError(f"expected {tile.name} with block, resident and cluster {of_known} as before, got {of_tile}")
        self.tiles[tile.name] = tile

    def add(self, line):
        if "run" in line:
            run = line["run"]
            if not isinstance(run, dict) or not is_count(run.get("multiprocessors", 1)):
                raise ValueError(f"expected run to be an object, its multiprocessors an integer above 0, got {run!r}")
            self.runs.append(run)
        elif line.get("kind") not in SKIPPED_KINDS:
            fields = TILE_FIELDS if "costs" in line else MEASUREMENT_FIELDS
            for name, (suits, expected) in fields.items():
                if name not in line or not suits(line[name]):
                    raise ValueError(f"expected {name} to be {expected}, got {line.get(name)!r}")
            if "costs" in line:
                return self.add_tile(line)
            one = Measurement(line)
            self.products.setdefault(one.product(), Product(one.kind)).add(one, line["chosen"])

    def kinds(self):
        return list(dict.fromkeys(product.kind for product in self.products.values()))

    def of_kind(self, kind):
        return [product for product in self.products.values() if product.kind == kind]


def is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def is_number(value, least):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= least


def is_list(value, length, suits):
    return isinstance(value, list) and len(value) == length and all(map(suits, value))


COUNT = (is_count, "an integer above 0")
KIND = (lambda value: isinstance(value, str) and value in BYTES, f"one of {', '.join(BYTES)}")
NAME = (lambda value: isinstance(value, str) and value != "", "a name")
TILE_FIELDS = {
    "kind": KIND,
    "tile": NAME,
    "block": (lambda value: is_list(value, 3, is_count), "three integers above 0"),
    "resident": COUNT,
    "cluster": COUNT,
    "costs": (lambda value: any(is_list(value, length, lambda cost: is_number(cost, 0)) for length in (COSTS, COSTS + 1)), "four numbers from 0 on"),
}
MEASUREMENT_FIELDS = {
    "kind": KIND,
    **{name: COUNT for name in ("m", "n", "k", "matrices")},
    "transposed": (lambda value: is_list(value, 2, lambda one: isinstance(one, bool)), "two of true and false"),
    "tile": NAME,
    "splits": COUNT,
    "copies": (lambda value: value in (0, 1, 2) and not isinstance(value, bool), "0, 1 or 2"),
    "chosen": (lambda value: isinstance(value, bool), "true or false"),
    "us": (lambda value: is_number(value, 1e-9), "microseconds above 0"),
}


def read(paths):
    """Returns the data of all files. Lines that ternion-bench did not write are an error, except a
    last one that was cut off.
    """
    data = Data()
    for path in paths:
        text = path.read_text(encoding="utf-8", errors="replace")
        lines = text.splitlines()
        for number, one in enumerate(lines, 1):
            try:
                line = json.loads(one)
                if not isinstance(line, dict):
                    raise ValueError(f"expected a JSON object, got {one[:60]!r}")
                data.add(line)
            except ValueError as error:
                if isinstance(error, json.JSONDecodeError):
                    if number == len(lines) and not text.endswith("\n"):
                        continue
                    error = f"expected a JSON object, got {one[:60]!r}: {error}"
                raise SystemExit(f"error: {path}:{number}: {error}") from None
    if not data.products:
        raise SystemExit(f"error: {', '.join(map(str, paths))}: no measurement")
    for run in data.runs[1:]:
        refuse_mixed(data.runs[0], run)
    for product in data.products.values():
        product.close()
    return data


# ---------------------------------------------------------------- the prediction


class Model:
    """What times depend on in addition to the tiles' costs."""

    def __init__(self, multiprocessors, extensions=(), constants=None):
        self.multiprocessors, self.extensions = multiprocessors, frozenset(extensions)
        self.constants = dict(CONSTANTS, **(constants or {}))

    def fitted(self):
        return [name for extension in EXTENSIONS if extension in self.extensions for name in EXTENSIONS[extension]]

    def with_constant(self, name, value):
        return Model(self.multiprocessors, self.extensions, {**self.constants, name: value})


def copied(one):
    """Returns the elements of the operands that are copied first: those that are not k-major, or
    the smaller one of two.
    """
    a, b = one.m * one.k * one.matrices, one.k * one.n * one.matrices
    return {0: [], 1: [min(a, b) if one.transposed == (True, False) else a if one.transposed[0] else b], 2: [a, b]}[one.copies]


def extents(one):
    """Returns rows and columns of the product that a kernel computes. They are exchanged if TF32 on
    warpgroups reads b, which is not k-major, from registers.
    """
    is_b_across = not one.transposed[1] and (one.copies == 0 if not one.transposed[0] else one.copies == 1 and one.m < one.n)
    return (one.n, one.m) if one.tile.startswith(REGISTERS_TILE) and is_b_across else (one.m, one.n)


def before_sums(one, parts):
    """Returns the microseconds to queue what runs before the product, and the bytes that it reads
    and writes.
    """
    size, _ = BYTES[one.kind]
    elements = copied(one)
    queued = COPY_MICROSECONDS if one.k % (16 // size) == 0 else PADDED_COPY_MICROSECONDS
    time, traffic = queued * len(elements), sum(elements) * 2 * size
    if parts:
        time += 2 * COPY_MICROSECONDS
        traffic += (one.m + one.n) * one.k * one.matrices * SPLIT_BYTES
    return time, traffic


def memory_bytes(one):
    """Returns the minimum bytes of device memory that the product itself reads and writes: its
    operands once, its results or partial sums.
    """
    operand, result = BYTES[one.kind]
    stored = 4 * one.splits if one.splits > 1 and not one.tile.startswith(CLUSTER_TILE) else result
    return ((one.m + one.n) * one.k * operand + one.m * one.n * stored) * one.matrices


def straddling(one):
    """Returns whether lines of a and of b are not aligned to 128 bytes."""
    a_line, b_line = (one.m if one.transposed[0] else one.k), (one.k if one.transposed[1] else one.n)
    return [line * BYTES[one.kind][0] % L2_LINE != 0 for line in (a_line, b_line)]


def cached_bytes(one, tile, model):
    """Returns the bytes that all blocks read from the L2 cache: every row of a once for each column
    of clusters, and every column of b once for each row of clusters.
    """
    factors = [model.constants["STRADDLING_FACTOR"] if straddles else 1 for straddles in straddling(one)]
    rows, columns = extents(one)
    if (rows, columns) != (one.m, one.n):
        factors.reverse()
    down, across = cluster_shape(tile.cluster)
    high, wide = -(-rows // (tile.block[0] * down)), -(-columns // (tile.block[1] * across))
    return (rows * wide * factors[0] + columns * high * factors[1]) * one.k * one.matrices * BYTES[one.kind][0]


def traffic_time(one, tile, model):
    """Returns the minimum microseconds for a product to read and write: from device memory and from
    the cache, which delay each other.
    """
    if one.kind not in LINED_KINDS:
        return 0.0
    way = "MAPPED" if tile.name.startswith(MAPPED_TILE) else "LOADED"
    memory = memory_bytes(one) / model.constants[f"{way}_BYTES_PER_MICROSECOND"]
    return math.hypot(memory, cached_bytes(one, tile, model) / model.constants["CACHED_BYTES_PER_MICROSECOND"])


def adds_up_parts(one, tile):
    """Returns whether the warpgroup kernel adds its partial sums itself: if there is a word for
    every consumer's part of a tile.
    """
    consumers = 1 if tile.name.endswith("_ping_pong") else 2
    return tile.name.startswith(MAPPED_TILE) and tiles_of(one, tile) * consumers <= MOST_COUNTS


def time_of_parts(one, tile, model):
    """Returns the microseconds to add the partial sums."""
    if one.splits == 1:
        return 0.0
    constants = model.constants
    if tile.name.startswith(CLUSTER_TILE):
        return constants["CLUSTER_SPLIT_MICROSECONDS"] + one.splits * constants["CLUSTER_SPLIT_MICROSECONDS_OF_PART"]
    traffic = one.m * one.n * one.matrices * (one.splits + 1) * 4 / constants["SUMMED_BYTES_PER_MICROSECOND"]
    if adds_up_parts(one, tile):
        return constants["ARRIVAL_MICROSECONDS"] + one.splits * constants["ARRIVAL_MICROSECONDS_OF_PART"] + traffic
    return constants["SPLIT_MICROSECONDS"] + traffic


def tiles_of(one, tile):
    """Returns the tiles of a product, including those that complete clusters."""
    rows, columns = extents(one)
    down, across = cluster_shape(tile.cluster)
    return round_up(-(-rows // tile.block[0]), down) * round_up(-(-columns // tile.block[1]), across) * one.matrices


def terms(one, tile, model):
    """Returns a time as terms: k in units of 1000, blocks of full waves on a multiprocessor, those
    of the last wave, waves, time of reading and writing, and what is added to all of them.
    """
    parts = tile.name.startswith(PARTS_TILE)
    inner = round_up(one.k, tile.block[2]) if parts else one.k
    length = -(-inner // one.splits)
    if "pad" in model.extensions:
        length = round_up(length, tile.block[2])
    multiprocessors = model.multiprocessors if tile.cluster <= 2 else model.multiprocessors * 10 // 11 // tile.cluster * tile.cluster
    waves, rest = divmod(tiles_of(one, tile) * one.splits, multiprocessors * tile.resident)
    added, traffic = before_sums(one, parts)
    added += traffic / BYTES_PER_MICROSECOND + time_of_parts(one, tile, model)
    added += model.constants["PARTS_MICROSECONDS"] if parts else 0
    return length / 1000, waves * tile.resident, -(-rest // multiprocessors), waves + (rest > 0), traffic_time(one, tile, model), added


def time_of(of, costs):
    """Returns the microseconds of these terms."""
    length, full, last, waves, traffic, added = of
    rate, start, lone, wave = costs
    last = max(last, lone) if last else 0
    return start + math.hypot((full + last) * rate * length, traffic) + waves * wave + added


def predicted(one, tile, model, costs=None):
    return time_of(terms(one, tile, model), costs or tile.costs)
