// Softmax, log-softmax, and their gradients.
//
//   softmax       y = exp(x - max x) / sum exp(x - max x)
//                 LOG: y = (x - max x) - log sum exp(x - max x)
//   softmax_grad  dx = y * (dy - sum(y * dy))
//                 LOG: dx = dy - exp(y) * sum(dy)
//
// Three algorithms for each. All of them read x (y, dy) before they write to the same elements:
//
//   softmax, softmax_grad                   over rows [rows, columns] of any row stride: a team of
//                                           threads per row, see rows.cuh
//   softmax_parts, then softmax_from_parts  few and long rows, a block per chunk of a row: the
//   (softmax_grad_...)                      first kernel writes the chunk's statistics to `parts`
//                                           [rows, chunks], the second one merges them
//   softmax_columns, softmax_grad_columns   over the middle axis of [outer, axis, inner]: a thread
//                                           processes packs of adjacent columns
//
//      columns:            inner ->        A tile of columns, one per block, has ACROSS packs.
//                 axis  | s0 s0 s0 s0 |    SEGMENTS threads share a pack of columns: segment s
//                   |   | s1 s1 s1 s1 |    has axis indices s, s + SEGMENTS, ...
//                   v   | s0 s0 s0 s0 |
//
// Limits: axis, inner, columns below 2^30. The result of a row is NaN if all its elements are
// -infinity, or if one is +infinity or NaN.
// Macros: those of rows.cuh; LOG (0 or 1); FORM (ROWS, PARTS, or COLUMNS: which kernels are
// compiled). PARTS needs TEAM = 512, ROW_STORAGE = MEMORY. COLUMNS needs ACROSS, a power of two
// with ACROSS * PACK <= 256; PACK divides inner, all strides and, in elements, all addresses.

#include "lib/launch.cuh"
#include "lib/rows.cuh"

#define ROWS 0
#define PARTS 1
#define COLUMNS 2
#ifdef HOST_SHIM
#define LOG 0
#endif
#ifndef FORM
#define FORM ROWS
#endif

// Packs in flight per thread in PARTS and COLUMNS. 64-bit arithmetic leaves registers for only one.
constexpr int PACKS_IN_FLIGHT = sizeof(C) == 8 ? 1 : UNROLL;

struct Softmax {
    T* y;
    const T* x;
    Pair* parts;
    u64 rows;
    i64 y_stride, x_stride;  // between rows
    u32 columns;
    u32 chunk;  // packs of a block's chunk, if FORM = PARTS
};
struct SoftmaxGrad {
    T* dx;
    const T* y;
    const T* dy;
    Pair* parts;
    u64 rows;
    i64 dx_stride, y_stride, dy_stride;
    u32 columns;
    u32 chunk;
};

// One element of y, from the statistics of its row.
INLINE C softmax_element(C x, const Pair& statistics) {
    C shifted = x - statistics.first;
    return LOG ? shifted - statistics.second : exponential(shifted) * statistics.second;
}
// The statistics for softmax_element: the maximum, and the logarithm or the reciprocal of the sum.
INLINE Pair statistics_of(const Exponentials<false>& row) {
    return Pair{row.max, LOG ? log_of(row.sum) : C(1) / row.sum};
}
INLINE Raw softmax_pack(const Raw& x, const Pair& statistics) {
    C y[PACK];
#pragma unroll
    for (int e = 0; e < PACK; ++e) y[e] = softmax_element(x.get(e), statistics);
    return Raw::of(y);
}

// One term of the row's sum, and one element of dx from the whole sum.
INLINE C gradient_term(C y, C dy) { return LOG ? dy : y * dy; }
INLINE C gradient_element(C y, C dy, C sum) { return LOG ? dy - exponential(y) * sum : y * (dy - sum); }
INLINE C gradient_terms(const Raw& y, const Raw& dy) {
    C sum = 0;
#pragma unroll
    for (int e = 0; e < PACK; ++e) sum += gradient_term(y.get(e), dy.get(e));
    return sum;
}
INLINE Raw gradient_pack(const Raw& y, const Raw& dy, C sum) {
    C dx[PACK];
#pragma unroll
    for (int e = 0; e < PACK; ++e) dx[e] = gradient_element(y.get(e), dy.get(e), sum);
    return Raw::of(dx);
}

// ---------------------------------------------------------------- a team per row

#if FORM == ROWS
INLINE void softmax_in_registers(const RowPacking& cut, T* y, const T* x, int member) {
    Raw raw[PACKS];
    load_row(raw, cut, x, member, -infinite());
    C values[PACKS][PACK];
    Exponentials<false> row;
#pragma unroll
    for (int k = 0; k < PACKS; ++k)
#pragma unroll
        for (int e = 0; e < PACK; ++e) {
            values[k][e] = raw[k].get(e);
            row.max = max_of(row.max, values[k][e]);
        }
    // Relative to the warp's maximum at first: each exponential is computed once, and one barrier
    // is enough.
    row.max = lanes_max<TEAM_LANES>(row.max);
    C warp_max = row.max, base = row.shift(row.max);
#pragma unroll
    for (int k = 0; k < PACKS; ++k)
#pragma unroll
        for (int e = 0; e < PACK; ++e) {
            C power = exponential(values[k][e] - base);
            row.sum += power;
            if (!LOG) values[k][e] = power;
        }
    row.sum = lanes_sum<TEAM_LANES>(row.sum);
    row.of_warps<0>();
    C log_sum = LOG ? log_of(row.sum) : C(0);
    C factor = LOG ? C(0) : exponential(warp_max - row.max) / row.sum;
#pragma unroll
    for (int k = 0; k < PACKS; ++k) {
        C out[PACK];
#pragma unroll
        for (int e = 0; e < PACK; ++e) out[e] = LOG ? (values[k][e] - row.max) - log_sum : values[k][e] * factor;
        cut.store(y, member + k * TEAM, Raw::of(out));
    }
}

INLINE void softmax_in_two_readings(const RowPacking& cut, T* y, const T* x, int member) {
    Exponentials<false> row;
    for_packs_first_pass<1>(cut, member, {{x}, {-infinite()}}, [&](int, const Raw(&raw)[UNROLL][1]) { row.add(raw); });
    row.of_team<0>();
    Pair statistics = statistics_of(row);
    for_packs_second_pass<1>(cut, member, {{x}, {C(0)}}, [&](int pack, const Raw(&raw)[1]) {
        cut.store(y, pack, softmax_pack(raw[0], statistics));
    });
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS, MIN_BLOCKS) softmax(const __grid_constant__ Softmax p) {
    wait_for_earlier_launches();
    u64 row = row_of_thread();
    const T* x = p.x + i64(row) * p.x_stride;
    T* y = p.y + i64(row) * p.y_stride;
    // Teams without a row take part in the shuffles of their warp.
    RowPacking cut(x, row < p.rows ? p.columns : 0);
    if (ROW_STORAGE == REGISTERS) softmax_in_registers(cut, y, x, member_of_team());
    else softmax_in_two_readings(cut, y, x, member_of_team());
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS, MIN_BLOCKS)
    softmax_grad(const __grid_constant__ SoftmaxGrad p) {
    wait_for_earlier_launches();
    u64 row = row_of_thread();
    int member = member_of_team();
    const T* y = p.y + i64(row) * p.y_stride;
    const T* dy = p.dy + i64(row) * p.dy_stride;
    T* dx = p.dx + i64(row) * p.dx_stride;
    RowPacking cut(y, row < p.rows ? p.columns : 0);
    C sum = 0;
    if (ROW_STORAGE == REGISTERS) {
        Raw ys[PACKS], dys[PACKS];
        load_row(ys, cut, y, member, C(0));
        load_row(dys, cut, dy, member, C(0));
#pragma unroll
        for (int k = 0; k < PACKS; ++k) sum += gradient_terms(ys[k], dys[k]);
        sum = team_sum<0>(sum);
#pragma unroll
        for (int k = 0; k < PACKS; ++k) cut.store(dx, member + k * TEAM, gradient_pack(ys[k], dys[k], sum));
    } else {
        for_packs_first_pass<2>(cut, member, {{y, dy}, {C(0), C(0)}}, [&](int, const Raw(&raw)[UNROLL][2]) {
            C part = 0;
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) part += gradient_terms(raw[u][0], raw[u][1]);
            sum += part;
        });
        sum = team_sum<0>(sum);
        for_packs_second_pass<2>(cut, member, {{y, dy}, {C(0), C(0)}}, [&](int pack, const Raw(&raw)[2]) {
            cut.store(dx, pack, gradient_pack(raw[0], raw[1], sum));
        });
    }
}
#endif

// ---------------------------------------------------------------- few long rows; grid (chunk, row)

#if FORM == PARTS
// The packs of this block's chunk of the row.
struct RowChunk {
    int first, end;
    INLINE RowChunk(const RowPacking& cut, u32 packs) {
        first = int(blockIdx.x * packs);
        end = min(cut.packs, first + int(packs));
    }
    // Calls work(first pack, raw packs of each tensor) for this thread's packs, PACKS_IN_FLIGHT at
    // a time. All loads of an iteration come first, because the compiler moves no load above a
    // store.
    template <int COUNT, class Work>
    INLINE void each(const RowPacking& cut, const Tensors<COUNT>& from, Work work) const {
#pragma unroll 1
        for (int pack = first + int(threadIdx.x); pack < end; pack += TEAM * PACKS_IN_FLIGHT) {
            Raw raw[PACKS_IN_FLIGHT][COUNT];
#pragma unroll
            for (int u = 0; u < PACKS_IN_FLIGHT; ++u)
#pragma unroll
                for (int t = 0; t < COUNT; ++t)
                    raw[u][t] =
                        cut.load(from.rows[t], pack + u * TEAM < end ? pack + u * TEAM : cut.packs, from.missing[t]);
            work(pack, raw);
        }
    }
};

// Merges the statistics of all chunks of a row, in the same order in each block.
INLINE Exponentials<false> merge_chunks(const Pair* parts) {
    Exponentials<false> row;
    for (u32 part = threadIdx.x; part < gridDim.x; part += TEAM) {
        Pair pair = parts[part];
        C largest = max_of(row.max, pair.first);
        row.rescale(largest);
        row.sum += pair.first == largest ? pair.second : pair.second * exponential(pair.first - largest);
    }
    row.of_team<1>();
    return row;
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) softmax_parts(const __grid_constant__ Softmax p) {
    wait_for_earlier_launches();
    const T* x = p.x + i64(blockIdx.y) * p.x_stride;
    RowPacking cut(x, p.columns);
    Exponentials<false> part;
    RowChunk(cut, p.chunk).each<1>(cut, {{x}, {-infinite()}}, [&](int, const Raw(&raw)[PACKS_IN_FLIGHT][1]) {
        part.add(raw);
    });
    part.of_team<0>();
    if (threadIdx.x == 0) p.parts[u64(blockIdx.y) * gridDim.x + blockIdx.x] = Pair{part.max, part.sum};
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) softmax_from_parts(const __grid_constant__ Softmax p) {
    wait_for_earlier_launches();
    const T* x = p.x + i64(blockIdx.y) * p.x_stride;
    T* y = p.y + i64(blockIdx.y) * p.y_stride;
    RowPacking cut(x, p.columns);
    RowChunk chunk(cut, p.chunk);
    Pair statistics = statistics_of(merge_chunks(p.parts + u64(blockIdx.y) * gridDim.x));
    chunk.each<1>(cut, {{x}, {C(0)}}, [&](int first, const Raw(&raw)[PACKS_IN_FLIGHT][1]) {
#pragma unroll
        for (int u = 0; u < PACKS_IN_FLIGHT; ++u)
            if (first + u * TEAM < chunk.end) cut.store(y, first + u * TEAM, softmax_pack(raw[u][0], statistics));
    });
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) softmax_grad_parts(const __grid_constant__ SoftmaxGrad p) {
    wait_for_earlier_launches();
    const T* y = p.y + i64(blockIdx.y) * p.y_stride;
    const T* dy = p.dy + i64(blockIdx.y) * p.dy_stride;
    RowPacking cut(y, p.columns);
    C sum = 0;
    RowChunk(cut, p.chunk).each<2>(cut, {{y, dy}, {C(0), C(0)}}, [&](int, const Raw(&raw)[PACKS_IN_FLIGHT][2]) {
#pragma unroll
        for (int u = 0; u < PACKS_IN_FLIGHT; ++u) sum += gradient_terms(raw[u][0], raw[u][1]);
    });
    sum = team_sum<0>(sum);
    if (threadIdx.x == 0) p.parts[u64(blockIdx.y) * gridDim.x + blockIdx.x] = Pair{sum, C(0)};
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    softmax_grad_from_parts(const __grid_constant__ SoftmaxGrad p) {
    wait_for_earlier_launches();
    const T* y = p.y + i64(blockIdx.y) * p.y_stride;
    const T* dy = p.dy + i64(blockIdx.y) * p.dy_stride;
    T* dx = p.dx + i64(blockIdx.y) * p.dx_stride;
    RowPacking cut(y, p.columns);
    RowChunk chunk(cut, p.chunk);
    const Pair* parts = p.parts + u64(blockIdx.y) * gridDim.x;
    C sum = 0;
    for (u32 part = threadIdx.x; part < gridDim.x; part += TEAM) sum += parts[part].first;
    sum = team_sum<0>(sum);
    chunk.each<2>(cut, {{y, dy}, {C(0), C(0)}}, [&](int first, const Raw(&raw)[PACKS_IN_FLIGHT][2]) {
#pragma unroll
        for (int u = 0; u < PACKS_IN_FLIGHT; ++u)
            if (first + u * TEAM < chunk.end) cut.store(dx, first + u * TEAM, gradient_pack(raw[u][0], raw[u][1], sum));
    });
}
#endif

// ---------------------------------------------------------------- columns of [outer, axis, inner]

#if FORM == COLUMNS
constexpr int COLUMN_THREADS = 256;
constexpr int SEGMENTS = COLUMN_THREADS / ACROSS;
constexpr int TILE = ACROSS * PACK;
static_assert(TILE <= COLUMN_THREADS, "one thread sums the segments of each column of a tile");

struct SoftmaxColumns {
    T* y;         // gradient: dx
    const T* x;   // gradient: y
    const T* dy;  // gradient only
    u64 outer;
    i64 y_stride[2], x_stride[2], dy_stride[2];  // outer, axis; inner elements are contiguous
    u32 axis, inner;
};

// Grid: ceil(inner / TILE) blocks for each outer index.
struct Column {
    u64 outer;
    u32 inner, tile_column, segment, axis;
    INLINE Column(const SoftmaxColumns& p) {
        u32 blocks = (p.inner + TILE - 1) / TILE;
        outer = blockIdx.x / blocks;
        tile_column = threadIdx.x % ACROSS * PACK;
        inner = blockIdx.x % blocks * TILE + tile_column;
        segment = threadIdx.x / ACROSS;
        axis = inner < p.inner ? p.axis : 0;
    }
    INLINE i64 offset(const i64 (&stride)[2]) const { return i64(outer) * stride[0] + inner; }
    // Calls work(first index along the axis, raw packs of each tensor) for this segment. All loads
    // of an iteration come first, because the compiler moves no load above a store.
    template <int COUNT, class Work>
    INLINE void each(const T* const (&from)[COUNT], const i64 (&strides)[COUNT], C missing, Work work) const {
#pragma unroll 1
        for (u32 first = segment; first < axis; first += SEGMENTS * PACKS_IN_FLIGHT) {
            Raw raw[PACKS_IN_FLIGHT][COUNT];
#pragma unroll
            for (int u = 0; u < PACKS_IN_FLIGHT; ++u)
#pragma unroll
                for (int t = 0; t < COUNT; ++t) {
                    raw[u][t] = Raw::filled(missing);
                    if (first + u * SEGMENTS < axis)
                        raw[u][t] = load_raw(from[t] + i64(first + u * SEGMENTS) * strides[t]);
                }
            work(first, raw);
        }
    }
};

extern "C" __global__ void __launch_bounds__(COLUMN_THREADS) softmax_columns(const __grid_constant__ SoftmaxColumns p) {
    wait_for_earlier_launches();
    Column column(p);
    const T* x = p.x + column.offset(p.x_stride);
    T* y = p.y + column.offset(p.y_stride);
    C max[PACK], sum[PACK];
#pragma unroll
    for (int e = 0; e < PACK; ++e) max[e] = -infinite(), sum[e] = 0;
    column.each<1>({x}, {p.x_stride[1]}, -infinite(), [&](u32, const Raw(&raw)[PACKS_IN_FLIGHT][1]) {
#pragma unroll
        for (int e = 0; e < PACK; ++e) {
            C largest = max[e];
#pragma unroll
            for (int u = 0; u < PACKS_IN_FLIGHT; ++u) largest = max_of(largest, raw[u][0].get(e));
            C base = Exponentials<false>::shift(largest);
            if (largest != max[e]) sum[e] *= exponential(max[e] - largest);
            max[e] = largest;
#pragma unroll
            for (int u = 0; u < PACKS_IN_FLIGHT; ++u) sum[e] += exponential(raw[u][0].get(e) - base);
        }
    });
    __shared__ Pair of_segments[SEGMENTS][TILE];
#pragma unroll
    for (int e = 0; e < PACK; ++e) of_segments[column.segment][column.tile_column + e] = Pair{max[e], sum[e]};
    __syncthreads();
    if (threadIdx.x < TILE) {
        C row_max = -infinite(), row_sum = 0;
#pragma unroll 8
        for (int s = 0; s < SEGMENTS; ++s) row_max = max_of(row_max, of_segments[s][threadIdx.x].first);
#pragma unroll 8
        for (int s = 0; s < SEGMENTS; ++s) {
            Pair part = of_segments[s][threadIdx.x];
            row_sum += part.first == row_max ? part.second : part.second * exponential(part.first - row_max);
        }
        of_segments[0][threadIdx.x] = Pair{row_max, LOG ? log_of(row_sum) : C(1) / row_sum};
    }
    __syncthreads();
    Pair statistics[PACK];
#pragma unroll
    for (int e = 0; e < PACK; ++e) statistics[e] = of_segments[0][column.tile_column + e];
    column.each<1>({x}, {p.x_stride[1]}, C(0), [&](u32 first, const Raw(&raw)[PACKS_IN_FLIGHT][1]) {
#pragma unroll
        for (int u = 0; u < PACKS_IN_FLIGHT; ++u) {
            C values[PACK];
#pragma unroll
            for (int e = 0; e < PACK; ++e) values[e] = softmax_element(raw[u][0].get(e), statistics[e]);
            u32 at = first + u * SEGMENTS;
            if (at < column.axis) store_raw(y + i64(at) * p.y_stride[1], Raw::of(values));
        }
    });
}

extern "C" __global__ void __launch_bounds__(COLUMN_THREADS)
    softmax_grad_columns(const __grid_constant__ SoftmaxColumns p) {
    wait_for_earlier_launches();
    Column column(p);
    const T* y = p.x + column.offset(p.x_stride);
    const T* dy = p.dy + column.offset(p.dy_stride);
    T* dx = p.y + column.offset(p.y_stride);
    C sum[PACK] = {};
    column.each<2>({y, dy}, {p.x_stride[1], p.dy_stride[1]}, C(0), [&](u32, const Raw(&raw)[PACKS_IN_FLIGHT][2]) {
#pragma unroll
        for (int u = 0; u < PACKS_IN_FLIGHT; ++u)
#pragma unroll
            for (int e = 0; e < PACK; ++e) sum[e] += gradient_term(raw[u][0].get(e), raw[u][1].get(e));
    });
    __shared__ C of_segments[SEGMENTS][TILE];
#pragma unroll
    for (int e = 0; e < PACK; ++e) of_segments[column.segment][column.tile_column + e] = sum[e];
    __syncthreads();
    if (threadIdx.x < TILE) {
        C total = 0;
#pragma unroll 8
        for (int s = 0; s < SEGMENTS; ++s) total += of_segments[s][threadIdx.x];
        of_segments[0][threadIdx.x] = total;
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < PACK; ++e) sum[e] = of_segments[0][column.tile_column + e];
    column.each<2>({y, dy}, {p.x_stride[1], p.dy_stride[1]}, C(0), [&](u32 first, const Raw(&raw)[PACKS_IN_FLIGHT][2]) {
#pragma unroll
        for (int u = 0; u < PACKS_IN_FLIGHT; ++u) {
            C values[PACK];
#pragma unroll
            for (int e = 0; e < PACK; ++e) values[e] = gradient_element(raw[u][0].get(e), raw[u][1].get(e), sum[e]);
            u32 at = first + u * SEGMENTS;
            if (at < column.axis) store_raw(dx + i64(at) * p.y_stride[1], Raw::of(values));
        }
    });
}
#endif
