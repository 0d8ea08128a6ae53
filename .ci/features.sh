#!/usr/bin/env bash
# Prints the packages that are built twice because their features differ: between the Python module
# and the workspace's tests, and between the documentation and clippy. The module's feature
# `as-in-workspace` keeps both lists short.
set -euo pipefail
cd "$(dirname "$0")/.."

# A line for each package: its name, version and features.
packages() {
    cargo tree --locked "$@" -f '{p} {f}' --prefix none --no-dedupe | sed -E 's/ \((\/[^)]*|\*|proc-macro)\)//g' | sort -u
}

module=(-p ternion-python --features cuda,wgpu,as-in-workspace -e normal,build)
echo "built for the Python module in addition to the tests:"
comm -13 <(packages --workspace -e normal,build,dev) <(packages "${module[@]}")
echo "checked for the documentation in addition to clippy:"
comm -13 <(packages --workspace --all-features -e normal,build,dev) <(packages --workspace --all-features -e normal,build)
