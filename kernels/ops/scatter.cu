// Scatter along an axis: writes or adds sources to y. index.cu has computed the destination (key)
// of each source, and sort.cu has sorted them stably: keys[..] ascends, and numbers[..] are the
// indices of the sources.
//
//   keys      3 3 3 | 5 | 8 8 | nowhere ...      a run: all sources of one destination in y
//   scatter   the thread of a run's first key writes the run's last source, or (SCATTER_ADD) adds
//             all of them to the existing element, rounded once
//   add_rows  the same for rows: the warp of a run's first key, with lanes along the row
//   add_rows_packed  the same with 16 bytes per lane
//
//            columns ->   lane 0      lane 1    ...       A warp compares 31 keys at once. The
//   key 3, source 7      [pack]      [pack]              whole block adds a run of 31 or more keys,
//   key 3, source 9    + [pack]    + [pack]              each warp one source in turn: if all
//                                                        sources had one destination, a single warp
//                                                        would take long.
//
// TYPE is the element type (without SCATTER_ADD, a type of its size). Limits: fewer than 2^31
// sources.

#include "lib/functions.cuh"
#include "lib/index_space.cuh"
#include "lib/launch.cuh"
#include "lib/vec.cuh"

typedef TYPE E;
constexpr int THREADS = 256;

struct Scatter {
    E* y;
    const E* source;
    const u32* keys;
    const u32* indices;
    u32 count;
    u32 out_of_range;       // the key of sources without a destination
    Space<1> destinations;  // of y, in row-major order of its shape
    Space<1> sources;       // of source, likewise
};

extern "C" __global__ void __launch_bounds__(THREADS) scatter(const __grid_constant__ Scatter p) {
    wait_for_earlier_launches();
    u32 first = blockIdx.x * THREADS + threadIdx.x;
    if (first >= p.count) return;
    u32 key = p.keys[first];
    if (key == p.out_of_range || (first > 0 && p.keys[first - 1] == key)) return;
    i64 destination[1], at[1];
    locate(p.destinations, u64(key), destination);
#ifdef SCATTER_ADD
    auto sum = widen(p.y[destination[0]]);
    for (u32 number = first; number < p.count && p.keys[number] == key; ++number) {
        locate(p.sources, p.indices[number], at);
        sum = sum_of(sum, widen(p.source[at[0]]));
    }
    p.y[destination[0]] = narrow<E>(sum);
#else
    u32 last = first;
    while (last + 1 < p.count && p.keys[last + 1] == key) ++last;
    locate(p.sources, p.indices[last], at);
    p.y[destination[0]] = p.source[at[0]];
#endif
}

#ifdef SCATTER_ADD
// y[outer, key, column] += sum of source[outer, number, column] over the run of `key`.
struct AddRows {
    E* y;
    const E* source;
    const u32* keys;
    const u32* indices;
    u32 count;
    u32 out_of_range;
    u32 columns;
    i64 y_outer, y_row, y_column;
    i64 source_outer, source_row, source_column;
};

constexpr int WARPS = THREADS / WARP;
// Keys that a warp compares: its own (lane 1) and the 30 after it.
constexpr int KEYS_COMPARED = WARP - 1;

template <int V> INLINE void add_pack(const E* from, Compute<E> (&sums)[V]) {
    Pack<E, V> pack = load<E, V>(from);
#pragma unroll
    for (int v = 0; v < V; ++v) sums[v] = sum_of(sums[v], widen(pack.of[v]));
}

template <int V> INLINE void add_sums(E* y, const Compute<E> (&sums)[V]) {
    Pack<E, V> pack = load<E, V>(y);
#pragma unroll
    for (int v = 0; v < V; ++v) pack.of[v] = narrow<E>(sum_of(widen(pack.of[v]), sums[v]));
    store(y, pack);
}

template <int V> INLINE void add_rows_of_block(const AddRows& p) {
    typedef Compute<E> C;
    __shared__ C tile[WARPS][WARP * V];
    // Start of this block's long run. There is at most one, because long runs start far apart.
    __shared__ u32 long_run_start;
    u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    u32 column = (blockIdx.y * WARP + lane) * V;
    bool has_columns = column < p.columns;
    const E* source = p.source + i64(blockIdx.z) * p.source_outer + i64(column) * p.source_column;
    E* y = p.y + i64(blockIdx.z) * p.y_outer + i64(column) * p.y_column;
    if (threadIdx.x == 0) long_run_start = p.count;
    __syncthreads();

    // Lane 0 has the key before the warp's own key, lane 1 its own, the others those after it.
    u32 first = blockIdx.x * WARPS + warp, at = first + lane - 1;
    bool exists = first < p.count && (first > 0 || lane > 0) && at < p.count;
    u32 ahead = exists ? p.keys[at] : p.out_of_range, number = exists ? p.indices[at] : 0;
    u32 key = __shfl_sync(ALL_LANES, ahead, 1);
    u32 alike = __ballot_sync(ALL_LANES, exists && ahead == key);
    bool begins = first < p.count && key != p.out_of_range && !(alike & 1);
    u32 length = __ffs(~(alike >> 1)) - 1;
    if (begins && length == KEYS_COMPARED) {
        if (lane == 0) long_run_start = first;
    } else if (begins) {
        C sums[V] = {};
#pragma unroll 4
        for (u32 i = 0; i < length; ++i) {
            u32 row = __shfl_sync(ALL_LANES, number, i + 1);
            if (has_columns) add_pack<V>(source + i64(row) * p.source_row, sums);
        }
        if (has_columns) add_sums<V>(y + i64(key) * p.y_row, sums);
    }
    __syncthreads();
    if (long_run_start == p.count) return;

    key = p.keys[long_run_start];
    C sums[V] = {};
    if (has_columns) {
#pragma unroll 4
        for (u32 i = long_run_start + warp; i < p.count && p.keys[i] == key; i += WARPS)
            add_pack<V>(source + i64(p.indices[i]) * p.source_row, sums);
    }
#pragma unroll
    for (int v = 0; v < V; ++v) tile[warp][lane * V + v] = sums[v];
    __syncthreads();
    if (warp > 0 || !has_columns) return;
#pragma unroll
    for (int other = 1; other < WARPS; ++other)
#pragma unroll
        for (int v = 0; v < V; ++v) sums[v] = sum_of(sums[v], tile[other][lane * V + v]);
    add_sums<V>(y + i64(key) * p.y_row, sums);
}

extern "C" __global__ void __launch_bounds__(THREADS) add_rows(const __grid_constant__ AddRows p) {
    wait_for_earlier_launches();
    add_rows_of_block<1>(p);
}
// Columns are contiguous in y and source, and their rows are aligned to 16 bytes.
extern "C" __global__ void __launch_bounds__(THREADS) add_rows_packed(const __grid_constant__ AddRows p) {
    wait_for_earlier_launches();
    add_rows_of_block<16 / sizeof(E)>(p);
}
#endif
