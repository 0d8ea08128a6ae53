// Reductions: y[o] = leave(merge of enter(x[o, r]) over all r), for any axes and strides.
//
// The host compiles this file for each REDUCER (a policy below) and input type X, output type Y. `kept` is the space of results (strides in y,
// then in x), `over` the space of what is reduced (strides in x).
//
//   rows       a block per result and part: what is reduced lies together in x (or nowhere in particular)
//              [ 256 threads side by side | next 256 | ... ]  -> lanes -> warps -> one
//   warps      a warp per result, for short reductions
//   columns    results lie together in x: a thread per column, a block of 32 columns x 8 rows; rows are added over the block at its end
//   columns_packed  the same with a pack of neighbouring columns for each thread, where packs are aligned
//
// Where there are too few results to fill the device, what is reduced is cut into parts of a block each. Blocks leave accumulators in `partial`
// and count themselves in `arrived`; the one that comes last adds up the parts, in their order, and sets the count back to 0:
//
//      blocks of a result   0 | 1 | 2 | ... -> partial -> the last to arrive -> y
//
// Every order of merging follows from the shape alone, whichever block is last, so that results are bit-equal from run to run.
// Limits: reduced and results below 2^31 each.

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
// Packs under way in a thread: bytes enough to fill the memory's latency, in registers that leave room for several blocks. A pack of halves
// takes twice as many for its numbers.
constexpr int UNROLL = sizeof(X) == 4 ? 8 : sizeof(X) == 8 ? 2 : 4;
constexpr int COLUMN_UNROLL = sizeof(C) == 8 ? 2 : 8;
constexpr int COLUMNS = 32, COLUMN_ROWS = THREADS / COLUMNS;
// Neighbouring columns of a thread: 16 bytes, or 4 elements of a byte, whose accumulators would not fit the registers otherwise.
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

// A policy whose accumulator is the compute type and whose result is the accumulator.
template <class T> struct Plain {
    typedef T Acc;
    static INLINE T enter(T x, u64) { return x; }
    static INLINE T leave(T acc, double) { return acc; }
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
// Positions: the first of the best; the first NaN wins.
constexpr u64 NOWHERE = ~u64(0);
struct Place {
    C value;
    u64 at;
};
template <bool LARGEST> struct Position {
    typedef Place Acc;
    static INLINE Place start() { return Place{C(0), NOWHERE}; }
    static INLINE Place enter(C x, u64 at) { return Place{x, at}; }
    static INLINE Place merge(Place a, Place b) {
        if (b.at == NOWHERE) return a;
        if (a.at == NOWHERE) return b;
        bool a_nan = is_nan(a.value), b_nan = is_nan(b.value);
        bool better = b_nan ? !a_nan : !a_nan && (LARGEST ? b.value > a.value : b.value < a.value);
        bool equal = a_nan ? b_nan : a.value == b.value;
        return better || (equal && b.at < a.at) ? b : a;
    }
    static INLINE i32 leave(Place acc, double) { return i32(acc.at); }
};
typedef Position<true> ArgMax;
typedef Position<false> ArgMin;

#ifdef REAL_NUMBERS
struct Mean : Sum {
    static INLINE C leave(C acc, double count) { return acc / C(count); }
};
struct SumSquares : Sum {
    static INLINE C enter(C x, u64) { return product_of(x, x); }
};
struct Norm {
    typedef Squares<C> Acc;
    static INLINE Acc start() { return Acc::start(); }
    static INLINE Acc enter(C x, u64) { return Acc::of(x); }
    static INLINE Acc merge(Acc a, Acc b) { return Acc::merge(a, b); }
    static INLINE C leave(Acc acc, double) { return acc.root(); }
};
struct MaxAbs : Plain<C> {
    static INLINE C start() { return C(0); }
    static INLINE C enter(C x, u64) { return abs_of(x); }
    static INLINE C merge(C a, C b) { return larger(a, b); }
};

// max + log(sum of e^(x - max)): the sum is rescaled when a larger maximum comes.
struct Exponentials {
    C max, sum;
};
struct LogSumExp {
    typedef Exponentials Acc;
    static INLINE Exponentials start() { return Exponentials{lowest<C>(), C(0)}; }
    static INLINE Exponentials enter(C x, u64) { return Exponentials{x, C(1)}; }
    // An infinite maximum is not subtracted from itself.
    static INLINE C scale(C from, C to) { return from == to ? C(1) : exp_of(from - to); }
    static INLINE Exponentials merge(Exponentials a, Exponentials b) {
        C max = larger(a.max, b.max);
        return Exponentials{max, a.sum * scale(a.max, max) + b.sum * scale(b.max, max)};
    }
    static INLINE C leave(Exponentials acc, double) {
        return acc.max - acc.max == C(0) ? acc.max + log_of(acc.sum) : acc.max;
    }
};
#endif

typedef REDUCER R;
typedef R::Acc Acc;

struct Reduction {
    const X* x;
    Y* y;
    Acc* partial;  // null: results go to y; rows: [results][parts], columns: [parts][results]
    u32* arrived;  // a count for each block along the results; 0 before and after
    u32 results, reduced;
    u32 parts, per_part;  // how `reduced` is cut; per_part is a multiple of PACK
    u32 line;             // 1: `over` is one run of elements that begins at a multiple of 16 bytes for every result
    double count;         // of reduced elements, for means
    Space<2> kept;
    Space<1> over;
};

// The packs first, first + STEP, ... of the run that begins at `x`, and what is left of it below end.
template <u32 STEP> INLINE Acc over_run(const X* x, u32 first, u32 end) {
    Acc acc = R::start();
    u32 packs = end / PACK, rest = end % PACK, member = threadIdx.x % STEP;
    for_packs<X, PACK, UNROLL>(x + first * PACK, STEP * PACK, first < packs ? (packs - first - 1) / STEP + 1 : 0,
                               [&](const Words<X, PACK>& pack, u32 i) {
#pragma unroll
                                   for (int e = 0; e < PACK; ++e)
                                       acc = R::merge(acc, R::enter(widen(pack.get(e)), (first + i * STEP) * PACK + e));
                               });
    // Less than a pack: an element for each of the first threads.
    if (member < rest) acc = R::merge(acc, R::enter(widen(x[end - rest + member]), end - rest + member));
    return acc;
}
INLINE Acc over_anything(const X* x, const Space<1>& over, u32 first, u32 end, u32 step) {
    Acc acc = R::start();
#pragma unroll 2
    for (u32 r = first; r < end; r += step) {
        i64 at[1];
        locate(over, r, at);
        acc = R::merge(acc, R::enter(widen(x[at[0]]), r));
    }
    return acc;
}
INLINE void put(const Reduction& p, i64 at, const Acc& acc) { p.y[at] = narrow<Y>(R::leave(acc, p.count)); }

// Whether all the other blocks of these results have left their parts: then this one, which has left its own, sees them.
INLINE bool is_last_to_arrive(const Reduction& p) {
    __shared__ bool is_last;
    __syncthreads();
    // Releases what the block wrote, acquires what the others did. The last one sets the count back, for the next launch.
    if (threadIdx.x == 0) {
        u32 before = atom_acq_rel_gpu_inc(p.arrived + blockIdx.x, p.parts - 1);
        is_last = before == p.parts - 1;
    }
    __syncthreads();
    return is_last;
}

// Threads of a block, and for some types how many blocks at least: of i16 the assembler spills registers for the sake of more, if it is told nothing.
#ifndef BOUNDS_OF_ROWS
#define BOUNDS_OF_ROWS THREADS
#endif
extern "C" __global__ void __launch_bounds__(BOUNDS_OF_ROWS) rows(const __grid_constant__ Reduction p) {
    wait_for_earlier_launches();
    u32 result = blockIdx.x;
    i64 at[2];
    locate_once(p.kept, result, at);
    Acc acc = p.line ? over_run<THREADS>(p.x + at[1], threadIdx.x, p.reduced)
                     : over_anything(p.x + at[1], p.over, threadIdx.x, p.reduced, THREADS);
    acc = over_block<R, WARPS>(acc);
    if (threadIdx.x == 0) put(p, at[0], acc);
}

extern "C" __global__ void __launch_bounds__(THREADS) rows_in_parts(const __grid_constant__ Reduction p) {
    wait_for_earlier_launches();
    u32 result = blockIdx.x, part = blockIdx.y;
    i64 at[2];
    locate_once(p.kept, result, at);
    u32 begin = part * p.per_part;
    u32 end = u32(smaller(u64(begin) + p.per_part, u64(p.reduced)));
    Acc acc = p.line ? over_run<THREADS>(p.x + at[1], begin / PACK + threadIdx.x, end)
                     : over_anything(p.x + at[1], p.over, begin + threadIdx.x, end, THREADS);
    acc = over_block<R, WARPS>(acc);
    Acc* parts = p.partial + u64(result) * p.parts;
    if (threadIdx.x == 0) parts[part] = acc;
    if (!is_last_to_arrive(p)) return;
    acc = R::start();
#pragma unroll 4
    for (u32 other = threadIdx.x; other < p.parts; other += THREADS) acc = R::merge(acc, parts[other]);
    acc = over_block<R, WARPS>(acc);
    if (threadIdx.x == 0) put(p, at[0], acc);
}

extern "C" __global__ void __launch_bounds__(THREADS) warps(const __grid_constant__ Reduction p) {
    wait_for_earlier_launches();
    u32 result = blockIdx.x * WARPS + threadIdx.x / WARP, lane = threadIdx.x % WARP;
    if (result >= p.results) return;
    i64 at[2];
    locate_once(p.kept, result, at);
    Acc acc = p.line ? over_run<WARP>(p.x + at[1], lane, p.reduced)
                     : over_anything(p.x + at[1], p.over, lane, p.reduced, WARP);
    acc = over_warp<R>(acc);
    if (lane == 0) put(p, at[0], acc);
}

// What a thread has of its columns: rows begin + row, begin + row + COLUMN_ROWS, ... below end.
template <int V> INLINE void over_rows(const Reduction& p, const X* x, u32 begin, u32 end, Acc (&acc)[V]) {
    u32 row = threadIdx.x / COLUMNS;
    if (p.over.rank == 1) {
        i64 stride = p.over.strides[0][0];
        u32 first = begin + row;
        for_packs<X, V, COLUMN_UNROLL>(
            x + first * stride, COLUMN_ROWS * stride, first < end ? (end - first - 1) / COLUMN_ROWS + 1 : 0,
            [&](const Words<X, V>& pack, u32 i) {
#pragma unroll
                for (int v = 0; v < V; ++v)
                    acc[v] = R::merge(acc[v], R::enter(widen(pack.get(v)), first + i * COLUMN_ROWS));
            });
    } else {
#pragma unroll 1
        for (u32 r = begin + row; r < end; r += COLUMN_ROWS) {
            i64 over[1];
            locate(p.over, r, over);
            Pack<X, V> pack = load<X, V>(x + over[0]);
#pragma unroll
            for (int v = 0; v < V; ++v) acc[v] = R::merge(acc[v], R::enter(widen(pack.of[v]), r));
        }
    }
}
// Merges the rows of a block's threads and calls leave(result, accumulator) for each of its columns, a thread for each.
template <int V, class Leave>
INLINE void over_rows_of_block(const Reduction& p, Acc (*tile)[COLUMNS * V], const Acc (&acc)[V], Leave leave) {
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
        leave(result, sum);
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
        over_rows<V>(p, p.x + at[1], begin, end, acc);
    }
    auto finish = [&](u32 own, const Acc& sum) {
        i64 at[2];
        locate_once(p.kept, own, at);
        put(p, at[0], sum);
    };
    if (!p.partial) return over_rows_of_block<V>(p, tile, acc, finish);
    over_rows_of_block<V>(p, tile, acc, [&](u32 own, const Acc& sum) { p.partial[u64(part) * p.results + own] = sum; });
    if (!is_last_to_arrive(p)) return;
    // Few parts are added by a thread for each column, whose loads all wait together.
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
// One block at least: told nothing, the assembler spills registers for the sake of more.
extern "C" __global__ void __launch_bounds__(THREADS, 1) columns(const __grid_constant__ Reduction p) {
    wait_for_earlier_launches();
    reduce_columns<1>(p);
}
extern "C" __global__ void __launch_bounds__(THREADS, 1) columns_packed(const __grid_constant__ Reduction p) {
    wait_for_earlier_launches();
    reduce_columns<COLUMN_PACK>(p);
}
