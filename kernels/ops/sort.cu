// Stable sort along an axis, with the original indices of the values; and of (key, index) pairs for
// scatter.cu.
//
// Elements are mapped to unsigned keys of the same order (NaN above all numbers, -0 equal to 0;
// descending: all bits inverted), so that one integer sort serves all types.
//
//   block    lines of up to 2048 elements: a block per line, bitonic sort (Batcher 1968) of
//            (key, index) in shared memory
//   `make_keys`, then for each digit `count`, `offsets`, `scatter_sorted`, then `take`
//            longer lines: radix sort from the least significant digit, 8 bits per pass
//
//       tile of 2048 -> count[digit][tile] -> exclusive prefix sum over (digit, tile) ->
//       `scatter_sorted`:
//                       start of its tile's elements with its digit + its rank among them
//
// Limits: lines below 2^31 elements, fewer than 65536 lines in a launch of the tiled kernels (the
// host splits more).

#include "lib/functions.cuh"
#include "lib/index_space.cuh"
#include "lib/launch.cuh"

typedef TYPE X;
constexpr int THREADS = 256;
constexpr int WARPS = THREADS / WARP;
// 24 KiB of shared memory with 64-bit keys: two blocks fit on the smallest multiprocessor.
constexpr int LINE = 2048;
// 8 elements per thread: counts have 1/16 of the size of keys and indices (64-bit keys: 1/24).
constexpr int TILE = 2048;
constexpr int DIGITS = 256;  // 8 bits per digit: one value per thread
constexpr int PER_WARP = TILE / WARPS;

// ---------------------------------------------------------------- keys

template <class T> struct KeyOf {
    typedef u32 type;
};
template <> struct KeyOf<double> {
    typedef u64 type;
};
template <> struct KeyOf<i64> {
    typedef u64 type;
};
template <> struct KeyOf<u64> {
    typedef u64 type;
};
typedef KeyOf<X>::type Key;

// Maps the bits of a float, of which `sign` is the highest, to an integer of the same order.
INLINE u32 ordered(u32 bits, u32 sign) { return bits & sign ? ~bits & (sign | (sign - 1)) : bits | sign; }
INLINE u32 key_of(float x) { return is_nan(x) ? ~0u : ordered(__float_as_uint(x == 0 ? 0.0f : x), 0x80000000u); }
INLINE u32 half_key(u16 bits, float x) { return is_nan(x) ? 0xffffu : ordered(x == 0 ? 0 : bits, 0x8000u); }
INLINE u32 key_of(f16 x) { return half_key(x.bits, widen(x)); }
INLINE u32 key_of(bf16 x) { return half_key(x.bits, widen(x)); }
INLINE u64 key_of(double x) {
    if (is_nan(x)) return ~u64(0);
    u64 bits = u64(__double_as_longlong(x == 0 ? 0.0 : x));
    return bits >> 63 ? ~bits : bits | u64(1) << 63;
}
INLINE u64 key_of(i64 x) { return u64(x) ^ u64(1) << 63; }
INLINE u32 key_of(i32 x) { return u32(x) ^ 0x80000000u; }
INLINE u32 key_of(u8 x) { return x; }
INLINE u32 key_of(Bool x) { return widen(x); }
INLINE u32 key_of(u32 x) { return x; }
INLINE u64 key_of(u64 x) { return x; }

template <class T> constexpr int key_bits = 8 * sizeof(T);

INLINE Key invert_bits(Key key, u32 descending) {
    constexpr Key ALL = key_bits<X> == 8 * sizeof(Key) ? ~Key(0) : (Key(1) << (key_bits<X> % (8 * sizeof(Key)))) - 1;
    return descending ? ~key & ALL : key;
}

// ---------------------------------------------------------------- short lines

struct SortLines {
    X* values;
    i32* positions;
    const X* x;
    u32 length;
    u32 descending;
    i64 value_step, position_step, x_step;
    Space<3> lines;  // of values, positions, x
};

extern "C" __global__ void __launch_bounds__(THREADS) block(const __grid_constant__ SortLines p) {
    wait_for_earlier_launches();
    __shared__ Key keys[LINE];
    __shared__ u32 positions_in_line[LINE];
    i64 at[3];
    locate(p.lines, blockIdx.x, at);
    const X* x = p.x + at[2];
    u32 padded_length = 2;
    while (padded_length < p.length) padded_length *= 2;
    for (u32 i = threadIdx.x; i < padded_length; i += THREADS) {
        // Padding to a power of two is sorted last: its index is above those of all elements.
        keys[i] = i < p.length ? invert_bits(key_of(x[i64(i) * p.x_step]), p.descending) : ~Key(0);
        positions_in_line[i] = i;
    }
    __syncthreads();
    for (u32 size = 2; size <= padded_length; size *= 2) {
        for (u32 distance = size / 2; distance > 0; distance /= 2) {
            for (u32 pair = threadIdx.x; pair < padded_length / 2; pair += THREADS) {
                u32 low = 2 * pair - (pair & (distance - 1)), high = low + distance;
                bool ascending = (low & size) == 0;
                bool above = keys[low] > keys[high] ||
                             (keys[low] == keys[high] && positions_in_line[low] > positions_in_line[high]);
                if (above == ascending) {
                    Key key = keys[low];
                    keys[low] = keys[high];
                    keys[high] = key;
                    u32 swapped = positions_in_line[low];
                    positions_in_line[low] = positions_in_line[high];
                    positions_in_line[high] = swapped;
                }
            }
            __syncthreads();
        }
    }
    for (u32 i = threadIdx.x; i < p.length; i += THREADS) {
        p.values[at[0] + i64(i) * p.value_step] = x[i64(positions_in_line[i]) * p.x_step];
        p.positions[at[1] + i64(i) * p.position_step] = i32(positions_in_line[i]);
    }
}

// ---------------------------------------------------------------- long lines

struct MakeKeys {
    Key* keys;  // [lines, length]
    u32* indices;
    const X* x;
    u32 length;
    u32 descending;
    i64 x_step;
    Space<1> lines;
};
extern "C" __global__ void __launch_bounds__(THREADS) make_keys(const __grid_constant__ MakeKeys p) {
    wait_for_earlier_launches();
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= p.length) return;
    i64 at[1];
    locate(p.lines, blockIdx.y, at);
    u64 to = u64(blockIdx.y) * p.length + i;
    p.keys[to] = invert_bits(key_of(p.x[at[0] + i64(i) * p.x_step]), p.descending);
    p.indices[to] = i;
}

struct Digits {
    const Key* keys;
    const u32* indices;
    Key* keys_out;
    u32* indices_out;
    u32* counts;  // [lines, DIGITS, tiles]
    u32 length;
    u32 tiles;
    u32 shift;
};
INLINE u32 digit_of(Key key, u32 shift) { return u32(key >> shift) & (DIGITS - 1); }

extern "C" __global__ void __launch_bounds__(THREADS) count(const __grid_constant__ Digits p) {
    wait_for_earlier_launches();
    __shared__ u32 histogram[DIGITS];
    histogram[threadIdx.x] = 0;
    __syncthreads();
    const Key* keys = p.keys + u64(blockIdx.y) * p.length;
    for (u32 i = blockIdx.x * TILE + threadIdx.x; i < p.length && i < (blockIdx.x + 1) * TILE; i += THREADS)
        atomicAdd(&histogram[digit_of(keys[i], p.shift)], 1u);
    __syncthreads();
    p.counts[(u64(blockIdx.y) * DIGITS + threadIdx.x) * p.tiles + blockIdx.x] = histogram[threadIdx.x];
}

// Replaces each count by the sum of all counts before it. A block per line, 1024 counts at a time.
extern "C" __global__ void __launch_bounds__(THREADS) offsets(const __grid_constant__ Digits p) {
    wait_for_earlier_launches();
    __shared__ u32 totals[WARPS];
    constexpr u32 PER_THREAD = 4;
    u32* counts = p.counts + u64(blockIdx.x) * DIGITS * p.tiles;
    u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    u32 carry = 0;
    for (u64 chunk = 0; chunk < u64(DIGITS) * p.tiles; chunk += THREADS * PER_THREAD) {
        u64 first = chunk + threadIdx.x * PER_THREAD;
        u32 own[PER_THREAD], sum = 0;
#pragma unroll
        for (u32 i = 0; i < PER_THREAD; ++i) {
            own[i] = first + i < u64(DIGITS) * p.tiles ? counts[first + i] : 0;
            sum += own[i];
        }
        u32 through = sum;
#pragma unroll
        for (int by = 1; by < WARP; by *= 2) {
            u32 other = __shfl_up_sync(ALL_LANES, through, by);
            if (lane >= by) through += other;
        }
        if (lane == WARP - 1) totals[warp] = through;
        __syncthreads();
        u32 base = carry + through - sum;
        for (u32 w = 0; w < WARPS; ++w) {
            if (w < warp) base += totals[w];
            carry += totals[w];
        }
#pragma unroll
        for (u32 i = 0; i < PER_THREAD; ++i) {
            if (first + i < u64(DIGITS) * p.tiles) counts[first + i] = base;
            base += own[i];
        }
        __syncthreads();
    }
}

// A warp processes 256 adjacent elements, 32 at a time: equal digits keep their order.
extern "C" __global__ void __launch_bounds__(THREADS) scatter_sorted(const __grid_constant__ Digits p) {
    wait_for_earlier_launches();
    __shared__ u32 histograms[WARPS][DIGITS];
    u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) histograms[w][threadIdx.x] = 0;
    __syncthreads();
    u64 line = u64(blockIdx.y) * p.length;
    u32 first = blockIdx.x * TILE + warp * PER_WARP + lane;
    u32 ranks[PER_WARP / WARP], digits[PER_WARP / WARP];
    Key keys[PER_WARP / WARP];
#pragma unroll
    for (int round = 0; round < PER_WARP / WARP; ++round) {
        u32 i = first + round * WARP;
        bool in_range = i < p.length;
        keys[round] = in_range ? p.keys[line + i] : Key(0);
        // Lanes past the end have a digit that no element has.
        digits[round] = in_range ? digit_of(keys[round], p.shift) : DIGITS;
        u32 same = __match_any_sync(ALL_LANES, digits[round]);
        u32 before = __popc(same & ((1u << lane) - 1));
        u32 base = in_range ? histograms[warp][digits[round]] : 0;
        __syncwarp();
        if (in_range && before == 0) histograms[warp][digits[round]] = base + __popc(same);
        __syncwarp();
        ranks[round] = base + before;
    }
    __syncthreads();
    // Thread d: the offset at which digit d begins for each warp.
    u32 begin = p.counts[(u64(blockIdx.y) * DIGITS + threadIdx.x) * p.tiles + blockIdx.x];
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
        u32 own = histograms[w][threadIdx.x];
        histograms[w][threadIdx.x] = begin;
        begin += own;
    }
    __syncthreads();
#pragma unroll
    for (int round = 0; round < PER_WARP / WARP; ++round) {
        u32 i = first + round * WARP;
        if (i >= p.length) continue;
        u64 to = line + histograms[warp][digits[round]] + ranks[round];
        p.keys_out[to] = keys[round];
        p.indices_out[to] = p.indices[line + i];
    }
}

struct Take {
    X* values;
    i32* positions;
    const X* x;
    const u32* indices;
    u32 length;
    i64 value_step, position_step, x_step;
    Space<3> lines;
};
extern "C" __global__ void __launch_bounds__(THREADS) take(const __grid_constant__ Take p) {
    wait_for_earlier_launches();
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= p.length) return;
    i64 at[3];
    locate(p.lines, blockIdx.y, at);
    u32 number = p.indices[u64(blockIdx.y) * p.length + i];
    p.values[at[0] + i64(i) * p.value_step] = p.x[at[2] + i64(number) * p.x_step];
    p.positions[at[1] + i64(i) * p.position_step] = i32(number);
}
