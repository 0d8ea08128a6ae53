"""Reads the measurements of `ternion-bench tiles` and predicts the time of a matrix product with a
tile as the CUDA backend does (crates/backend-cuda/src/ops/matmul/prediction.rs).
"""

import json
import math
import statistics

from compare import reject_mixed_runs

# Constants of prediction.rs and choice.rs. Costs of split-K; those named OF_PART are per split.
SPLIT_MICROSECONDS = 1.27
ARRIVAL_MICROSECONDS = 2.28
ARRIVAL_MICROSECONDS_OF_PART = 0.155
CLUSTER_SPLIT_MICROSECONDS = 1.9
CLUSTER_SPLIT_MICROSECONDS_OF_PART = 0.179
SUMMED_BYTES_PER_MICROSECOND = 3.35e6
ARRIVAL_COUNTERS = 4096
COPY_MICROSECONDS = 4.0
PADDED_COPY_MICROSECONDS = 6.0
PARTS_MICROSECONDS = 0.897
SPLIT_BYTES = 4 + 3 * 2
BYTES_PER_MICROSECOND = 2e6
# Bandwidths of products on tensor cores, in bytes per microsecond: device memory accessed by tensor
# maps, by other copies, and the L2 cache.
MAPPED_BYTES_PER_MICROSECOND = 4e6
LOADED_BYTES_PER_MICROSECOND = 2.99e6
CACHED_BYTES_PER_MICROSECOND = 1.8e7
# Factor of the L2 traffic of operands whose lines are not aligned to 128 bytes.
STRADDLING_FACTOR = 2.3

# Extension -> the constants that are fitted with it.
EXTENSIONS = {
    "pad": [],
    "parts": [
        "SPLIT_MICROSECONDS",
        "ARRIVAL_MICROSECONDS",
        "ARRIVAL_MICROSECONDS_OF_PART",
        "CLUSTER_SPLIT_MICROSECONDS",
        "CLUSTER_SPLIT_MICROSECONDS_OF_PART",
        "PARTS_MICROSECONDS",
    ],
    "traffic": [
        "SUMMED_BYTES_PER_MICROSECOND",
        "MAPPED_BYTES_PER_MICROSECOND",
        "LOADED_BYTES_PER_MICROSECOND",
        "CACHED_BYTES_PER_MICROSECOND",
        "STRADDLING_FACTOR",
    ],
}
CONSTANTS = {name: globals()[name] for names in EXTENSIONS.values() for name in names}

# Kind of operands -> bytes per element of an operand and of the result.
BYTES = {"bf16": (2, 2), "f16": (2, 2), "f32": (4, 4), "tf32": (4, 4), "bf16x6": (4, 4)}
# Kinds of ternion-bench's output lines that are not times of tiles.
SKIPPED_KINDS = ("fused",)
PARTS_TILE = "wgmmabf16x6_"
# Kinds whose operands are read by tensor cores as they are stored, in lines of 128 bytes. Memory
# traffic is part of their predicted time.
TENSOR_CORE_KINDS = ("bf16", "f16", "tf32")
L2_LINE = 128
REGISTERS_TILE = "wgmmatf32_"
MAPPED_TILE = "wgmma"
# Tiles whose partial sums are added by the blocks of a cluster, without a second kernel.
CLUSTER_TILE = "wgmmasplitk_"
# Number of costs of a tile.
COST_COUNT = 4


def round_up(number, multiple):
    return -(-number // multiple) * multiple


def cluster_shape(blocks):
    """Returns the tiles of a cluster along m and n, like `Tile::cluster_shape` in
    crates/backend-cuda.
    """
    columns = 1 << (blocks.bit_length() - 1) // 2
    return blocks // columns, columns


# ---------------------------------------------------------------- measurements


class Tile:
    """A tile, and its costs in the program that measured it."""

    def __init__(self, name, block, resident, cluster, costs):
        self.name, self.block, self.resident, self.cluster = name, tuple(block), resident, cluster
        # Older measurements have a fifth cost, a factor for unaligned lines.
        self.costs, self.is_known = list(costs[:COST_COUNT]), len(costs) == COST_COUNT


class Measurement:
    """The time of a product with a tile and a number of splits."""

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
        self.kind, self.measurements, self.chosen = kind, {}, None

    def add(self, measurement, is_chosen):
        key = measurement.tile, measurement.splits, measurement.copies
        self.measurements.setdefault(key, []).append(measurement)
        # If several files contain the product, the last choice is used.
        self.chosen = key if is_chosen else self.chosen

    def take_medians(self):
        """Replaces repeated measurements by their medians."""
        for key, measurements in self.measurements.items():
            measurements[0].us = statistics.median(measurement.us for measurement in measurements)
            self.measurements[key] = measurements[0]
        self.best = min(measurement.us for measurement in self.measurements.values())

    def loss(self, measurement):
        """Returns the relative increase of a time over the fastest one."""
        return measurement.us / self.best - 1


class Data:
    """All tiles, products and runs of the files."""

    def __init__(self):
        self.tiles, self.products, self.runs = {}, {}, []

    def add_tile(self, line):
        tile = Tile(*(line[name] for name in ("tile", "block", "resident", "cluster", "costs")))
        known = self.tiles.get(tile.name, tile)
        known_shape, shape = ((entry.block, entry.resident, entry.cluster) for entry in (known, tile))
        if known_shape != shape:
            raise ValueError(f"expected {tile.name} with block, resident and cluster {known_shape} as before, got {shape}")
        self.tiles[tile.name] = tile

    def add(self, line):
        if "run" in line:
            run = line["run"]
            if not isinstance(run, dict) or not is_count(run.get("multiprocessors", 1)):
                raise ValueError(f"expected run to be an object, its multiprocessors an integer above 0, got {run!r}")
            self.runs.append(run)
        elif line.get("kind") not in SKIPPED_KINDS:
            fields = TILE_FIELDS if "costs" in line else MEASUREMENT_FIELDS
            for name, (is_valid, expected) in fields.items():
                if name not in line or not is_valid(line[name]):
                    raise ValueError(f"expected {name} to be {expected}, got {line.get(name)!r}")
            if "costs" in line:
                return self.add_tile(line)
            measurement = Measurement(line)
            self.products.setdefault(measurement.product(), Product(measurement.kind)).add(measurement, line["chosen"])

    def kinds(self):
        return list(dict.fromkeys(product.kind for product in self.products.values()))

    def products_of_kind(self, kind):
        return [product for product in self.products.values() if product.kind == kind]


def is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def is_number(value, minimum):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= minimum


def is_list(value, length, is_valid):
    return isinstance(value, list) and len(value) == length and all(map(is_valid, value))


COUNT_FIELD = (is_count, "an integer above 0")
KIND_FIELD = (lambda value: isinstance(value, str) and value in BYTES, f"one of {', '.join(BYTES)}")
NAME_FIELD = (lambda value: isinstance(value, str) and value != "", "a name")
TILE_FIELDS = {
    "kind": KIND_FIELD,
    "tile": NAME_FIELD,
    "block": (lambda value: is_list(value, 3, is_count), "three integers above 0"),
    "resident": COUNT_FIELD,
    "cluster": COUNT_FIELD,
    "costs": (lambda value: any(is_list(value, length, lambda cost: is_number(cost, 0)) for length in (COST_COUNT, COST_COUNT + 1)), "four numbers from 0 on"),
}
MEASUREMENT_FIELDS = {
    "kind": KIND_FIELD,
    **{name: COUNT_FIELD for name in ("m", "n", "k", "matrices")},
    "transposed": (lambda value: is_list(value, 2, lambda flag: isinstance(flag, bool)), "two of true and false"),
    "tile": NAME_FIELD,
    "splits": COUNT_FIELD,
    "copies": (lambda value: value in (0, 1, 2) and not isinstance(value, bool), "0, 1 or 2"),
    "chosen": (lambda value: isinstance(value, bool), "true or false"),
    "us": (lambda value: is_number(value, 1e-9), "microseconds above 0"),
}


def read_measurements(paths):
    """Returns the data of all files. Invalid lines are an error, except an incomplete last line.
    """
    data = Data()
    for path in paths:
        content = path.read_text(encoding="utf-8", errors="replace")
        lines = content.splitlines()
        for line_number, text in enumerate(lines, 1):
            try:
                line = json.loads(text)
                if not isinstance(line, dict):
                    raise ValueError(f"expected a JSON object, got {text[:60]!r}")
                data.add(line)
            except ValueError as error:
                if isinstance(error, json.JSONDecodeError):
                    if line_number == len(lines) and not content.endswith("\n"):
                        continue
                    error = f"expected a JSON object, got {text[:60]!r}: {error}"
                raise SystemExit(f"error: {path}:{line_number}: {error}") from None
    if not data.products:
        raise SystemExit(f"error: {', '.join(map(str, paths))}: no measurement")
    for run in data.runs[1:]:
        reject_mixed_runs(data.runs[0], run)
    for product in data.products.values():
        product.take_medians()
    return data


# ---------------------------------------------------------------- prediction


class Model:
    """Parameters of the cost model besides the costs of tiles."""

    def __init__(self, multiprocessors, extensions=(), constants=None):
        self.multiprocessors, self.extensions = multiprocessors, frozenset(extensions)
        self.constants = dict(CONSTANTS, **(constants or {}))

    def fitted_constants(self):
        return [name for extension in EXTENSIONS if extension in self.extensions for name in EXTENSIONS[extension]]

    def with_constant(self, name, value):
        return Model(self.multiprocessors, self.extensions, {**self.constants, name: value})


def copied_elements(measurement):
    """Returns the numbers of elements of the operands that are copied before the product: those
    that are not k-major, or the smaller one of two.
    """
    a, b = measurement.m * measurement.k * measurement.matrices, measurement.k * measurement.n * measurement.matrices
    return {0: [], 1: [min(a, b) if measurement.transposed == (True, False) else a if measurement.transposed[0] else b], 2: [a, b]}[measurement.copies]


def output_shape(measurement):
    """Returns rows and columns of the product that a kernel computes. They are exchanged if a TF32
    warpgroup kernel reads b, which is not k-major, from registers.
    """
    is_a_transposed, is_b_transposed = measurement.transposed
    reads_b_from_registers = measurement.copies == 1 and measurement.m < measurement.n if is_a_transposed else measurement.copies == 0
    is_swapped = not is_b_transposed and reads_b_from_registers
    return (measurement.n, measurement.m) if measurement.tile.startswith(REGISTERS_TILE) and is_swapped else (measurement.m, measurement.n)


def preparation_cost(measurement, has_split_operands):
    """Returns the microseconds for launching the kernels that run before the product, and the bytes
    that they read and write.
    """
    size, _ = BYTES[measurement.kind]
    elements = copied_elements(measurement)
    copy_time = COPY_MICROSECONDS if measurement.k % (16 // size) == 0 else PADDED_COPY_MICROSECONDS
    time, traffic = copy_time * len(elements), sum(elements) * 2 * size
    if has_split_operands:
        time += 2 * COPY_MICROSECONDS
        traffic += (measurement.m + measurement.n) * measurement.k * measurement.matrices * SPLIT_BYTES
    return time, traffic


def memory_bytes(measurement):
    """Returns the minimum traffic of a product to device memory in bytes: its operands once, and
    its result or partial sums.
    """
    operand, result = BYTES[measurement.kind]
    stored = 4 * measurement.splits if measurement.splits > 1 and not measurement.tile.startswith(CLUSTER_TILE) else result
    return ((measurement.m + measurement.n) * measurement.k * operand + measurement.m * measurement.n * stored) * measurement.matrices


def unaligned_operands(measurement):
    """Returns for a and b whether their lines are not aligned to 128 bytes."""
    a_line, b_line = (measurement.m if measurement.transposed[0] else measurement.k), (measurement.k if measurement.transposed[1] else measurement.n)
    return [line * BYTES[measurement.kind][0] % L2_LINE != 0 for line in (a_line, b_line)]


def cached_bytes(measurement, tile, model):
    """Returns the bytes that all blocks read from the L2 cache: each row of a once per column of
    clusters, and each column of b once per row of clusters.
    """
    factors = [model.constants["STRADDLING_FACTOR"] if is_unaligned else 1 for is_unaligned in unaligned_operands(measurement)]
    rows, columns = output_shape(measurement)
    if (rows, columns) != (measurement.m, measurement.n):
        factors.reverse()
    cluster_rows, cluster_columns = cluster_shape(tile.cluster)
    row_clusters, column_clusters = -(-rows // (tile.block[0] * cluster_rows)), -(-columns // (tile.block[1] * cluster_columns))
    return (rows * column_clusters * factors[0] + columns * row_clusters * factors[1]) * measurement.k * measurement.matrices * BYTES[measurement.kind][0]


def traffic_time(measurement, tile, model):
    """Returns the minimum microseconds for the memory traffic of a product, to device memory and to
    the L2 cache, which delay each other.
    """
    if measurement.kind not in TENSOR_CORE_KINDS:
        return 0.0
    method = "MAPPED" if tile.name.startswith(MAPPED_TILE) else "LOADED"
    memory = memory_bytes(measurement) / model.constants[f"{method}_BYTES_PER_MICROSECOND"]
    return math.hypot(memory, cached_bytes(measurement, tile, model) / model.constants["CACHED_BYTES_PER_MICROSECOND"])


def reduces_in_kernel(measurement, tile):
    """Returns whether the warpgroup kernel adds its partial sums itself: it does if there are
    enough counters for all tiles and consumers.
    """
    consumers = 1 if tile.name.endswith("_ping_pong") else 2
    return tile.name.startswith(MAPPED_TILE) and tile_count(measurement, tile) * consumers <= ARRIVAL_COUNTERS


def reduction_time(measurement, tile, model):
    """Returns the microseconds to add the partial sums."""
    if measurement.splits == 1:
        return 0.0
    constants = model.constants
    if tile.name.startswith(CLUSTER_TILE):
        return constants["CLUSTER_SPLIT_MICROSECONDS"] + measurement.splits * constants["CLUSTER_SPLIT_MICROSECONDS_OF_PART"]
    traffic = measurement.m * measurement.n * measurement.matrices * (measurement.splits + 1) * 4 / constants["SUMMED_BYTES_PER_MICROSECOND"]
    if reduces_in_kernel(measurement, tile):
        return constants["ARRIVAL_MICROSECONDS"] + measurement.splits * constants["ARRIVAL_MICROSECONDS_OF_PART"] + traffic
    return constants["SPLIT_MICROSECONDS"] + traffic


def tile_count(measurement, tile):
    """Returns the number of tiles of a product, rounded up to whole clusters."""
    rows, columns = output_shape(measurement)
    cluster_rows, cluster_columns = cluster_shape(tile.cluster)
    return round_up(-(-rows // tile.block[0]), cluster_rows) * round_up(-(-columns // tile.block[1]), cluster_columns) * measurement.matrices


def time_terms(measurement, tile, model):
    """Returns the terms of a time: k per split in units of 1000, blocks of full waves per
    multiprocessor, blocks of the last wave, waves, traffic time, and constant time.
    """
    has_split_operands = tile.name.startswith(PARTS_TILE)
    padded_k = round_up(measurement.k, tile.block[2]) if has_split_operands else measurement.k
    length = -(-padded_k // measurement.splits)
    if "pad" in model.extensions:
        length = round_up(length, tile.block[2])
    multiprocessors = model.multiprocessors if tile.cluster <= 2 else model.multiprocessors * 10 // 11 // tile.cluster * tile.cluster
    waves, remainder = divmod(tile_count(measurement, tile) * measurement.splits, multiprocessors * tile.resident)
    constant_time, traffic = preparation_cost(measurement, has_split_operands)
    constant_time += traffic / BYTES_PER_MICROSECOND + reduction_time(measurement, tile, model)
    constant_time += model.constants["PARTS_MICROSECONDS"] if has_split_operands else 0
    last_blocks, wave_count = -(-remainder // multiprocessors), waves + (remainder > 0)
    return length / 1000, waves * tile.resident, last_blocks, wave_count, traffic_time(measurement, tile, model), constant_time


def combine_terms(terms, costs):
    """Returns the microseconds of a product with these terms."""
    length, full_blocks, last_blocks, waves, traffic, constant_time = terms
    rate, start, lone_block_factor, wave_cost = costs
    last_blocks = max(last_blocks, lone_block_factor) if last_blocks else 0
    return start + math.hypot((full_blocks + last_blocks) * rate * length, traffic) + waves * wave_cost + constant_time


def predict_time(measurement, tile, model, costs=None):
    return combine_terms(time_terms(measurement, tile, model), costs or tile.costs)
