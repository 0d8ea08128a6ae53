"""What `ternion-bench tiles` measured, and the time that the CUDA backend predicts for a product by a tile (crates/backend-cuda/src/ops/matmul/choice.rs)."""

import json
import math
import statistics

from compare import refuse_mixed

# Those of choice.rs.
SPLIT_MICROSECONDS = 1.8
CLUSTER_SPLIT_MICROSECONDS = 0.8
COPY_MICROSECONDS = 4.0
PADDED_COPY_MICROSECONDS = 6.0
PARTS_MICROSECONDS = 6.0
SPLIT_BYTES = 4 + 3 * 2
BYTES_PER_MICROSECOND = 2e6
# What a product of half precision reads and writes at most: by tensor maps, and by other copies.
MAPPED_BYTES_PER_MICROSECOND = 3e6
LOADED_BYTES_PER_MICROSECOND = 2.4e6
# Where the fit of one for all tiles begins: three quarters of an H100's bandwidth.
FLOOR_BYTES_PER_MICROSECOND = 2.5e6
CONSTANTS = {"SPLIT_MICROSECONDS": SPLIT_MICROSECONDS, "BYTES_PER_MICROSECOND": BYTES_PER_MICROSECOND, "FLOOR_BYTES_PER_MICROSECOND": FLOOR_BYTES_PER_MICROSECOND}

# Extension -> the constants that are fitted with it.
EXTENSIONS = {"floor": ["FLOOR_BYTES_PER_MICROSECOND"], "pad": [], "traffic": ["SPLIT_MICROSECONDS", "BYTES_PER_MICROSECOND"]}

# Kind of operands -> bytes of an element of an operand and of the result.
BYTES = {"bf16": (2, 2), "f16": (2, 2), "f32": (4, 4), "tf32": (4, 4), "bf16x6": (4, 4)}
# Lines of ternion-bench that have no tile's time alone.
SKIPPED_KINDS = ("fused",)
PARTS_TILE = "wgmmabf16x6_"
# Kinds whose lines come in pieces of 128 bytes, as they are stored.
LINED_KINDS = ("bf16", "f16", "tf32")
HALF_KINDS = ("bf16", "f16")
L2_LINE = 128
REGISTERS_TILE = "wgmmatf32_"
MAPPED_TILE = "wgmma"
# Blocks of a cluster add up the parts of a sum: no second kernel.
CLUSTER_TILE = "wgmmasplitk_"
PARTS_BYTES = 3 * 2


def round_up(number, multiple):
    return -(-number // multiple) * multiple


def cluster_shape(blocks):
    """Tiles of a cluster below each other and side by side, as `Tile::cluster_shape` of crates/backend-cuda has them."""
    across = 1 << (blocks.bit_length() - 1) // 2
    return blocks // across, across


# ---------------------------------------------------------------- what was measured


class Tile:
    """A tile of a kind's list, and what the program that measured took it to cost."""

    def __init__(self, name, block, resident, cluster, costs):
        self.name, self.block, self.resident, self.cluster, self.costs = name, tuple(block), resident, cluster, list(costs)


class Measurement:
    """The time of a product by one tile, with its sums in so many parts."""

    def __init__(self, line):
        self.kind, self.tile, self.splits, self.copies, self.us = (line[name] for name in ("kind", "tile", "splits", "copies", "us"))
        self.m, self.n, self.k, self.matrices = (line[name] for name in ("m", "n", "k", "matrices"))
        self.turned = tuple(line["turned"])

    def product(self):
        return self.kind, self.m, self.n, self.k, self.matrices, self.turned

    def __str__(self):
        orders = "".join("t" if turned else "n" for turned in self.turned)
        batch = f"{self.matrices} x " if self.matrices > 1 else ""
        return f"{batch}{self.m} x {self.n} x {self.k} {orders}"


class Product:
    """What was measured of a product."""

    def __init__(self, kind):
        self.kind, self.ones, self.chosen = kind, {}, None

    def add(self, one, is_chosen):
        key = one.tile, one.splits, one.copies
        self.ones.setdefault(key, []).append(one)
        # Where several files have the product, that of the last one counts.
        self.chosen = key if is_chosen else self.chosen

    def close(self):
        """Medians of what was measured several times."""
        for key, ones in self.ones.items():
            ones[0].us = statistics.median(one.us for one in ones)
            self.ones[key] = ones[0]
        self.best = min(one.us for one in self.ones.values())

    def loss(self, one):
        """How much longer than the fastest it takes."""
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
                raise ValueError(f"expected run to be an object, its multiprocessors a whole number above 0, got {run!r}")
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


COUNT = (is_count, "a whole number above 0")
KIND = (lambda value: isinstance(value, str) and value in BYTES, f"one of {', '.join(BYTES)}")
NAME = (lambda value: isinstance(value, str) and value != "", "a name")
TILE_FIELDS = {
    "kind": KIND,
    "tile": NAME,
    "block": (lambda value: is_list(value, 3, is_count), "three whole numbers above 0"),
    "resident": COUNT,
    "cluster": COUNT,
    "costs": (lambda value: is_list(value, 5, lambda cost: is_number(cost, 0)), "five numbers from 0 on"),
}
MEASUREMENT_FIELDS = {
    "kind": KIND,
    **{name: COUNT for name in ("m", "n", "k", "matrices")},
    "turned": (lambda value: is_list(value, 2, lambda one: isinstance(one, bool)), "two of true and false"),
    "tile": NAME,
    "splits": COUNT,
    "copies": (lambda value: value in (0, 1, 2) and not isinstance(value, bool), "0, 1 or 2"),
    "chosen": (lambda value: isinstance(value, bool), "true or false"),
    "us": (lambda value: is_number(value, 1e-9), "microseconds above 0"),
}


def read(paths):
    """The data of all files; what is no line of ternion-bench is refused, except for a last one that was cut off."""
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
    """What times depend on beside the tiles' costs."""

    def __init__(self, multiprocessors, extensions=(), constants=None):
        self.multiprocessors, self.extensions = multiprocessors, frozenset(extensions)
        self.constants = dict(CONSTANTS, **(constants or {}))

    def fitted(self):
        return [name for extension in EXTENSIONS if extension in self.extensions for name in EXTENSIONS[extension]]

    def with_constant(self, name, value):
        return Model(self.multiprocessors, self.extensions, {**self.constants, name: value})


def copied(one):
    """Elements of the operands that are copied first: those that are not stored along k, or the smaller one of two."""
    a, b = one.m * one.k * one.matrices, one.k * one.n * one.matrices
    return {0: [], 1: [min(a, b) if one.turned == (True, False) else a if one.turned[0] else b], 2: [a, b]}[one.copies]


def extents(one):
    """Rows and columns of what a kernel multiplies: the other way around where TF32 on warpgroups has b, which is not along k, in registers."""
    is_b_across = not one.turned[1] and (one.copies == 0 if not one.turned[0] else one.copies == 1 and one.m < one.n)
    return (one.n, one.m) if one.tile.startswith(REGISTERS_TILE) and is_b_across else (one.m, one.n)


def before_sums(one, parts):
    """Microseconds to queue what runs before the product, and the bytes that it reads and writes."""
    size, _ = BYTES[one.kind]
    elements = copied(one)
    queued = COPY_MICROSECONDS if one.k % (16 // size) == 0 else PADDED_COPY_MICROSECONDS
    time, traffic = queued * len(elements), sum(elements) * 2 * size
    if parts:
        time += PARTS_MICROSECONDS + 2 * COPY_MICROSECONDS
        traffic += (one.m + one.n) * one.k * one.matrices * SPLIT_BYTES
    return time, traffic


def memory_bytes(one, parts):
    """Bytes that the product itself reads and writes at least: its operands once, its results or partial sums."""
    operand, result = BYTES[one.kind]
    operand = PARTS_BYTES if parts else operand
    stored = 4 * one.splits if one.splits > 1 and not one.tile.startswith(CLUSTER_TILE) else result
    return ((one.m + one.n) * one.k * operand + one.m * one.n * stored) * one.matrices


def straddles(one):
    """Whether lines of an operand of tensor cores begin beside multiples of 128 bytes."""
    if one.kind not in LINED_KINDS:
        return False
    a_line, b_line = (one.m if one.turned[0] else one.k), (one.k if one.turned[1] else one.n)
    return any(line * BYTES[one.kind][0] % L2_LINE for line in (a_line, b_line))


def bandwidth(one, tile, model):
    """Bytes that a product by this tile reads and writes in a microsecond at most."""
    if "floor" in model.extensions:
        return model.constants["FLOOR_BYTES_PER_MICROSECOND"]
    if one.kind not in HALF_KINDS:
        return math.inf
    return MAPPED_BYTES_PER_MICROSECOND if tile.name.startswith(MAPPED_TILE) else LOADED_BYTES_PER_MICROSECOND


def terms(one, tile, model):
    """A time as terms: length of a sum in units of 1000, blocks of full waves on a multiprocessor, those of the last wave, waves, least time of the sums, what is
    added to all of them, whether lines straddle."""
    parts = tile.name.startswith(PARTS_TILE)
    inner = round_up(one.k, tile.block[2]) if parts else one.k
    length = -(-inner // one.splits)
    if "pad" in model.extensions:
        length = round_up(length, tile.block[2])
    rows, columns = extents(one)
    down, across = cluster_shape(tile.cluster)
    blocks = round_up(-(-rows // tile.block[0]), down) * round_up(-(-columns // tile.block[1]), across) * one.matrices * one.splits
    waves, rest = divmod(blocks, model.multiprocessors * tile.resident)
    added, traffic = before_sums(one, parts)
    if one.splits > 1 and one.tile.startswith(CLUSTER_TILE):
        added += CLUSTER_SPLIT_MICROSECONDS
    elif one.splits > 1:
        added += model.constants["SPLIT_MICROSECONDS"]
        traffic += one.m * one.n * one.matrices * (one.splits + 1) * 4
    added += traffic / model.constants["BYTES_PER_MICROSECOND"]
    least = memory_bytes(one, parts) / bandwidth(one, tile, model)
    return length / 1000, waves * tile.resident, -(-rest // model.multiprocessors), waves + (rest > 0), least, added, straddles(one)


def time_of(of, costs):
    """Microseconds of these terms."""
    length, full, last, waves, least, added, is_straddling = of
    rate, start, lone, wave, straddling = costs
    last = max(last, lone) if last else 0
    rate *= straddling if is_straddling else 1
    return start + max((full + last) * rate * length + waves * wave, least) + added


def predicted(one, tile, model, costs=None):
    return time_of(terms(one, tile, model), costs or tile.costs)
