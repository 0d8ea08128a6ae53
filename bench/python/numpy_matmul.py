"""Median time of an f32 matrix product in NumPy, as JSON."""

import json
import statistics
import time

import numpy as np

size = 1024
rng = np.random.default_rng(0)
a = rng.standard_normal((size, size), dtype=np.float32)
b = rng.standard_normal((size, size), dtype=np.float32)
for _ in range(10):
    a @ b
times = []
for _ in range(100):
    start = time.perf_counter()
    a @ b
    times.append(time.perf_counter() - start)
print(json.dumps({"numpy": np.__version__, "matmul_1024_seconds": statistics.median(times)}))
