#!/usr/bin/env bash
# Runs all CPU comparisons. Arguments are passed to the MNIST programs (for example --data DIR).
set -euo pipefail
cd "$(dirname "$0")"
threads="${BENCH_THREADS:-2}"
export RAYON_NUM_THREADS="$threads" OPENBLAS_NUM_THREADS="$threads" OMP_NUM_THREADS="$threads"
mkdir -p target/results
cargo build --release --bins
cargo bench --bench ops
python3 python/numpy_matmul.py > target/results/numpy.json
# Alternating, so that a slow period of the machine affects both.
for round in 1 2 3; do
    ./target/release/ternion_mnist "$@" > "target/results/ternion_mnist_$round.json"
    ./target/release/candle_mnist "$@" > "target/results/candle_mnist_$round.json"
done
./target/release/ratios --results target/results --criterion target/criterion --into ../docs/benchmarks.md
