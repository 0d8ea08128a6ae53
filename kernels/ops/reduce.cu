// Reductions: y[o] = leave(merge of enter(x[o, r]) over all r), for any axes and strides.
//
// The host compiles this file for each REDUCER (a policy below), input type X and output type Y.
// `kept` is the index space of the results (strides in y, then in x), `over` that of the reduced
// elements (strides in x).
//
//   rows            a block per result; the reduced elements are contiguous in x, or strided
//   rows_in_parts   the same with a block per result and split
//                   [ elements of 256 threads | next 256 | ... ]  -> lanes -> warps -> one
//   warps           a warp per result, for short reductions
//   columns         the results are contiguous in x: a thread per column, a block of 32 columns x 8
//                   rows; the rows are merged at the end of the block
//   columns_packed  the same with a pack of adjacent columns per thread, where packs are aligned
//
// If there are too few results to fill the device, the reduced elements are split into parts, one
// block each. The blocks write accumulators to `partial` and count themselves in `arrived`. The
// last block to arrive merges the parts in their order and resets the count to 0:
//
//      blocks of a result   0 | 1 | 2 | ... -> partial -> the last to arrive -> y
//
// The order of merging depends on shapes, strides, alignment and the number of multiprocessors, but
// not on which block is last: results are bit-equal from run to run.
// Limits: fewer than 2^31 results, and fewer than 2^31 reduced elements of each.

#include "lib/functions.cuh"
#include "lib/index_space.cuh"
#include "lib/launch.cuh"
#include "lib/reduce.cuh"
#include "lib/vec.cuh"
#include "ptx/memory.cuh"

typedef TYPE X;
typedef TYPE_Y Y;
typedef Compute<X> C;

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / WARP;
constexpr int PACK = 16 / sizeof(X);
// Packs in flight per thread: enough bytes to hide the memory latency, few enough registers for
// several blocks per multiprocessor. The float values of a pack of f16 or bf16 take twice the
// registers of the pack.
constexpr int UNROLL = sizeof(X) == 4 ? 8 : sizeof(X) == 8 ? 2 : 4;
constexpr int COLUMN_UNROLL = sizeof(C) == 8 ? 2 : 8;
constexpr int COLUMNS = 32, COLUMN_ROWS = THREADS / COLUMNS;
// Adjacent columns per thread: 16 bytes, or 4 elements of one byte: the accumulators of 16 would
// not fit in registers.
constexpr int COLUMN_PACK = sizeof(X) == 1 ? 4 : PACK;

// ---------------------------------------------------------------- policies

template <class T> INLINE T lowest();
template <> INLINE float lowest<float>() { return -INFINITE; }
template <> INLINE double lowest<double>() { return -double(INFINITE); }
template <> INLINE i64 lowest<i64>() { return i64(1) << 63; }
template <> INLINE i32 lowest<i32>() { return i32(1u << 31); }
template <> INLINE u8 lowest<u8>() { return 0; }
template <class T> INLINE T highest();
template <> INLINE float highest<float>() { return INFINITE; }
template <> INLINE double highest<double>() { return double(INFINITE); }
template <> INLINE i64 highest<i64>() { return i64(~(u64(1) << 63)); }
template <> INLINE i32 highest<i32>() { return 0x7fffffff; }
template <> INLINE u8 highest<u8>() { return 255; }

// A policy whose accumulator has the compute type and is the result.
template <class T> struct Plain {
    typedef T Acc;
    static INLINE T transform(T x, u64) { return x; }
    static INLINE T finalize(T acc, double) { return acc; }
};
struct Sum : Plain<C> {
    static INLINE C start() { return C(0); }
    static INLINE C merge(C a, C b) { return sum_of(a, b); }
};
struct Prod : Plain<C> {
    static INLINE C start() { return C(1); }
    static INLINE C merge(C a, C b) { return product_of(a, b); }
};
struct Max : Plain<C> {
    static INLINE C start() { return lowest<C>(); }
    static INLINE C merge(C a, C b) { return larger(a, b); }
};
struct Min : Plain<C> {
    static INLINE C start() { return highest<C>(); }
    static INLINE C merge(C a, C b) { return smaller(a, b); }
};
// The index of the best element: the first of equal elements; the first NaN wins.
constexpr u64 NO_INDEX = ~u64(0);
struct ArgValue {
    C value;
    u64 at;
};
template <bool LARGEST> struct ArgBest {
    typedef ArgValue Acc;
    static INLINE ArgValue start() { return ArgValue{C(0), NO_INDEX}; }
    static INLINE ArgValue transform(C x, u64 at) { return ArgValue{x, at}; }
    static INLINE ArgValue merge(ArgValue a, ArgValue b) {
        if (b.at == NO_INDEX) return a;
        if (a.at == NO_INDEX) return b;
        bool a_nan = is_nan(a.value), b_nan = is_nan(b.value);
        bool better = b_nan ? !a_nan : !a_nan && (LARGEST ? b.value > a.value : b.value < a.value);
        bool equal = a_nan ? b_nan : a.value == b.value;
        return better || (equal && b.at < a.at) ? b : a;
    }
    static INLINE i32 finalize(ArgValue acc, double) { return i32(acc.at); }
};
typedef ArgBest<true> ArgMax;
typedef ArgBest<false> ArgMin;

#ifdef REAL_NUMBERS
struct Mean : Sum {
    static INLINE C finalize(C acc, double count) { return acc / C(count); }
};
struct SumSquares : Sum {
    static INLINE C transform(C x, u64) { return product_of(x, x); }
};
struct Norm {
    typedef Squares<C> Acc;
    static INLINE Acc start() { return Acc::start(); }
    static INLINE Acc transform(C x, u64) { return Acc::of(x); }
    static INLINE Acc merge(Acc a, Acc b) { return Acc::merge(a, b); }
    static INLINE C finalize(Acc acc, double) { return acc.root(); }
};
struct MaxAbs : Plain<C> {
    static INLINE C start() { return C(0); }
    static INLINE C transform(C x, u64) { return abs_of(x); }
    static INLINE C merge(C a, C b) { return larger(a, b); }
};

// max + log(sum of e^(x - max)): the sum is rescaled when the maximum increases.
struct Exponentials {
    C max, sum;
};
struct LogSumExp {
    typedef Exponentials Acc;
    static INLINE Exponentials start() { return Exponentials{lowest<C>(), C(0)}; }
    static INLINE Exponentials transform(C x, u64) { return Exponentials{x, C(1)}; }
    // Equal maxima are not subtracted: infinity - infinity would be NaN.
    static INLINE C scale(C from, C to) { return from == to ? C(1) : exp_of(from - to); }
    static INLINE Exponentials merge(Exponentials a, Exponentials b) {
        C max = larger(a.max, b.max);
        return Exponentials{max, a.sum * scale(a.max, max) + b.sum * scale(b.max, max)};
    }
    static INLINE C finalize(Exponentials acc, double) {
        return acc.max - acc.max == C(0) ? acc.max + log_of(acc.sum) : acc.max;
    }
};
#endif

typedef REDUCER R;
typedef R::Acc Acc;

struct Reduction {
    const X* x;
    Y* y;
    // null: results go to y; rows: [results][parts], columns: [parts][results]
    Acc* partial;
    // Count of arrived parts for each block along the results; 0 before and after the launch.
    u32* arrived;
    u32 results, reduced;
    // How `reduced` is split; per_part is a multiple of PACK.
    u32 parts, per_part;
    // 1: `over` is one contiguous run, aligned to 16 bytes for each result.
    u32 line;
    double count;  // of reduced elements, for means
    Space<2> kept;
    Space<1> over;
};

// Reduces the packs first, first + STEP, ... of the contiguous run that begins at `x`, and the
// elements between the last whole pack and `end`.
template <u32 STEP> INLINE Acc reduce_run(const X* x, u32 first, u32 end) {
    Acc acc = R::start();
    u32 packs = end / PACK, rest = end % PACK, member = threadIdx.x % STEP;
    for_packs<X, PACK, UNROLL>(x + first * PACK, STEP * PACK, first < packs ? (packs - first - 1) / STEP + 1 : 0,
                               [&](const PackedWords<X, PACK>& pack, u32 i) {
#pragma unroll
                                   for (int e = 0; e < PACK; ++e)
                                       acc = R::merge(acc,
                                                      R::transform(widen(pack.get(e)), (first + i * STEP) * PACK + e));
                               });
    // The rest, less than a pack: one element for each of the first threads.
    if (member < rest) acc = R::merge(acc, R::transform(widen(x[end - rest + member]), end - rest + member));
    return acc;
}
INLINE Acc reduce_strided(const X* x, const Space<1>& over, u32 first, u32 end, u32 step) {
    Acc acc = R::start();
#pragma unroll 2
    for (u32 r = first; r < end; r += step) {
        i64 at[1];
        locate(over, r, at);
        acc = R::merge(acc, R::transform(widen(x[at[0]]), r));
    }
    return acc;
}
INLINE void put(const Reduction& p, i64 at, const Acc& acc) { p.y[at] = narrow<Y>(R::finalize(acc, p.count)); }

// Returns whether all other blocks of these results have written their parts. If so, their parts
// are visible to this block, which has written its own part before the call.
INLINE bool is_last_to_arrive(const Reduction& p) {
    __shared__ bool is_last;
    __syncthreads();
    // Releases the block's writes and acquires those of the others. The last increment wraps to 0,
    // for the next launch.
    if (threadIdx.x == 0) {
        u32 before = atom_acq_rel_gpu_inc(p.arrived + blockIdx.x, p.parts - 1);
        is_last = before == p.parts - 1;
    }
    __syncthreads();
    return is_last;
}

// Launch bounds of `rows`: threads per block and, for i16 and u16, a minimum of one block per
// multiprocessor. Without it the assembler spills registers to fit more blocks.
#ifndef ROWS_LAUNCH_BOUNDS
#define ROWS_LAUNCH_BOUNDS THREADS
#endif
extern "C" __global__ void __launch_bounds__(ROWS_LAUNCH_BOUNDS) rows(const __grid_constant__ Reduction p) {
    wait_for_earlier_launches();
    u32 result = blockIdx.x;
    i64 at[2];
    locate_once(p.kept, result, at);
    Acc acc = p.line ? reduce_run<THREADS>(p.x + at[1], threadIdx.x, p.reduced)
                     : reduce_strided(p.x + at[1], p.over, threadIdx.x, p.reduced, THREADS);
    acc = block_reduce<R, WARPS>(acc);
    if (threadIdx.x == 0) put(p, at[0], acc);
}

extern "C" __global__ void __launch_bounds__(THREADS) rows_in_parts(const __grid_constant__ Reduction p) {
    wait_for_earlier_launches();
    u32 result = blockIdx.x, part = blockIdx.y;
    i64 at[2];
    locate_once(p.kept, result, at);
    u32 begin = part * p.per_part;
    u32 end = u32(smaller(u64(begin) + p.per_part, u64(p.reduced)));
    Acc acc = p.line ? reduce_run<THREADS>(p.x + at[1], begin / PACK + threadIdx.x, end)
                     : reduce_strided(p.x + at[1], p.over, begin + threadIdx.x, end, THREADS);
    acc = block_reduce<R, WARPS>(acc);
    Acc* parts = p.partial + u64(result) * p.parts;
    if (threadIdx.x == 0) parts[part] = acc;
    if (!is_last_to_arrive(p)) return;
    acc = R::start();
#pragma unroll 4
    for (u32 other = threadIdx.x; other < p.parts; other += THREADS) acc = R::merge(acc, parts[other]);
    acc = block_reduce<R, WARPS>(acc);
    if (threadIdx.x == 0) put(p, at[0], acc);
}

extern "C" __global__ void __launch_bounds__(THREADS) warps(const __grid_constant__ Reduction p) {
    wait_for_earlier_launches();
    u32 result = blockIdx.x * WARPS + threadIdx.x / WARP, lane = threadIdx.x % WARP;
    if (result >= p.results) return;
    i64 at[2];
    locate_once(p.kept, result, at);
    Acc acc = p.line ? reduce_run<WARP>(p.x + at[1], lane, p.reduced)
                     : reduce_strided(p.x + at[1], p.over, lane, p.reduced, WARP);
    acc = warp_reduce<R>(acc);
    if (lane == 0) put(p, at[0], acc);
}

// Reduces this thread's columns over rows begin + row, begin + row + COLUMN_ROWS, .. below end.
template <int V> INLINE void reduce_rows(const Reduction& p, const X* x, u32 begin, u32 end, Acc (&acc)[V]) {
    u32 row = threadIdx.x / COLUMNS;
    if (p.over.rank == 1) {
        i64 stride = p.over.strides[0][0];
        u32 first = begin + row;
        for_packs<X, V, COLUMN_UNROLL>(
            x + first * stride, COLUMN_ROWS * stride, first < end ? (end - first - 1) / COLUMN_ROWS + 1 : 0,
            [&](const PackedWords<X, V>& pack, u32 i) {
#pragma unroll
                for (int v = 0; v < V; ++v)
                    acc[v] = R::merge(acc[v], R::transform(widen(pack.get(v)), first + i * COLUMN_ROWS));
            });
    } else {
#pragma unroll 1
        for (u32 r = begin + row; r < end; r += COLUMN_ROWS) {
            i64 over[1];
            locate(p.over, r, over);
            Pack<X, V> pack = load<X, V>(x + over[0]);
#pragma unroll
            for (int v = 0; v < V; ++v) acc[v] = R::merge(acc[v], R::transform(widen(pack.of[v]), r));
        }
    }
}
// Merges the rows of a block's threads and calls leave(result, accumulator) once for each of its
// columns, with a thread per column.
template <int V, class Finalize>
INLINE void over_rows_of_block(const Reduction& p, Acc (*tile)[COLUMNS * V], const Acc (&acc)[V], Finalize finalize) {
#pragma unroll
    for (int v = 0; v < V; ++v) tile[threadIdx.x / COLUMNS][threadIdx.x % COLUMNS * V + v] = acc[v];
    __syncthreads();
#pragma unroll 1
    for (u32 c = threadIdx.x; c < COLUMNS * V; c += THREADS) {
        u32 result = blockIdx.x * COLUMNS * V + c;
        if (result >= p.results) break;
        Acc sum = tile[0][c];
#pragma unroll
        for (int other = 1; other < COLUMN_ROWS; ++other) sum = R::merge(sum, tile[other][c]);
        finalize(result, sum);
    }
}
template <int V> INLINE void reduce_columns(const Reduction& p) {
    __shared__ alignas(16) unsigned char room[THREADS * V * sizeof(Acc)];
    Acc(*tile)[COLUMNS * V] = reinterpret_cast<Acc(*)[COLUMNS * V]>(room);
    u32 result = (blockIdx.x * COLUMNS + threadIdx.x % COLUMNS) * V, part = blockIdx.y;
    Acc acc[V];
#pragma unroll
    for (int v = 0; v < V; ++v) acc[v] = R::start();
    if (result < p.results) {
        i64 at[2];
        locate_once(p.kept, result, at);
        u32 begin = part * p.per_part;
        u32 end = u32(smaller(u64(begin) + p.per_part, u64(p.reduced)));
        reduce_rows<V>(p, p.x + at[1], begin, end, acc);
    }
    auto finish = [&](u32 own, const Acc& sum) {
        i64 at[2];
        locate_once(p.kept, own, at);
        put(p, at[0], sum);
    };
    if (!p.partial) return over_rows_of_block<V>(p, tile, acc, finish);
    over_rows_of_block<V>(p, tile, acc, [&](u32 own, const Acc& sum) { p.partial[u64(part) * p.results + own] = sum; });
    if (!is_last_to_arrive(p)) return;
    // Few parts: a thread per column merges them, with its loads in flight together.
    if (p.parts <= 2 * COLUMN_ROWS) {
#pragma unroll 1
        for (u32 c = threadIdx.x; c < COLUMNS * V; c += THREADS) {
            u32 own = blockIdx.x * COLUMNS * V + c;
            if (own >= p.results) break;
            Acc sum = R::start();
#pragma unroll 8
            for (u32 other = 0; other < p.parts; ++other) sum = R::merge(sum, p.partial[u64(other) * p.results + own]);
            finish(own, sum);
        }
        return;
    }
#pragma unroll
    for (int v = 0; v < V; ++v) acc[v] = R::start();
    if (result < p.results)
#pragma unroll 2
        for (u32 other = threadIdx.x / COLUMNS; other < p.parts; other += COLUMN_ROWS)
#pragma unroll
            for (int v = 0; v < V; ++v)
                if (V == 1 || result + v < p.results)
                    acc[v] = R::merge(acc[v], p.partial[u64(other) * p.results + result + v]);
    over_rows_of_block<V>(p, tile, acc, finish);
}
// Minimum of one block per multiprocessor: without it the assembler spills registers to fit more.
extern "C" __global__ void __launch_bounds__(THREADS, 1) columns(const __grid_constant__ Reduction p) {
    wait_for_earlier_launches();
    reduce_columns<1>(p);
}
extern "C" __global__ void __launch_bounds__(THREADS, 1) columns_packed(const __grid_constant__ Reduction p) {
    wait_for_earlier_launches();
    reduce_columns<COLUMN_PACK>(p);
}
