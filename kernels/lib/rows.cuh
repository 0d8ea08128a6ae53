// The base of softmax.cu, norm.cu, batch_norm.cu, loss.cu and column_sums.cuh: rows that are each
// read and processed by a team of threads.
//
// A row is divided into packs at addresses that are multiples of a pack, wherever the row starts.
// Team member t has packs t, t + TEAM, ...
//
//    memory  ...|....row0|row0row0|row0row0|row0row1|row1....|...   pack: PACK elements, one access
//    member          0        1        2        3   (TEAM = 4)
//
// The first and the last pack may be shared with other rows: their elements are read and written
// individually (MASKED). All tensors of a row must then start at the same offset in a pack. The
// host defines, per variant:
//
//   TYPE    element type in memory: float, double, f16, bf16
//   PACK    elements of one access, a power of two of at most 16 bytes
//   MASKED  0: every row starts at a multiple of a pack and has a multiple of PACK columns;
//           1: otherwise
//   TEAM    threads per row, a power of two up to 1024; up to a warp, a block has several teams
//   ROW_STORAGE    where a row is kept between its two reads:
//             REGISTERS  PACKS packs in each thread; PACKS * TEAM is at least the number of packs
//                        of a row (one more if MASKED)
//             SHARED     dynamic shared memory, one pack for each pack of the row in each tensor;
//                        holds more than registers, and two blocks of a multiprocessor overlap;
//                        TEAM is above 32
//             MEMORY     not kept: the row is read again, from the L2 cache if that is large enough
//
// A row of `columns` elements has at most columns / PACK packs, or (columns + 2 * PACK - 2) / PACK
// if MASKED. columns is below 2^30.

#pragma once

#include "lib/functions.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/math.cuh"

#define REGISTERS 0
#define SHARED 1
#define MEMORY 2

#ifdef HOST_SHIM
#define PACK 4
#define MASKED 1
#define TEAM 128
#define ROW_STORAGE SHARED
#endif
#ifndef PACKS
#define PACKS 1
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif

typedef TYPE T;
typedef Compute<T> C;

// With four warps a block, 16 blocks fill a multiprocessor, and the last wave is short.
constexpr int BLOCK = TEAM > 128 ? TEAM : 128;
constexpr int TEAMS = TEAM > WARP ? 1 : BLOCK / TEAM;
constexpr int ROW_THREADS = TEAM > WARP ? TEAM : BLOCK;
constexpr int TEAM_WARPS = TEAM > WARP ? TEAM / WARP : 1;
constexpr int TEAM_LANES = TEAM > WARP ? WARP : TEAM;
// Packs in flight per thread if the row is not held in registers: 64 bytes, which is 64 KiB per
// multiprocessor with two blocks of 512 threads. 64-bit types leave registers for only two packs.
constexpr int UNROLL = sizeof(C) == 8 ? 2 : 4;

INLINE u64 row_of_thread() { return u64(blockIdx.x) * TEAMS + (TEAMS > 1 ? threadIdx.x / TEAM : 0); }
INLINE int member_of_team() { return TEAMS > 1 ? threadIdx.x % TEAM : threadIdx.x; }
INLINE C infinite() { return C(INFINITE); }
INLINE C quiet_nan() { return C(__int_as_float(0x7fc00000)); }
INLINE float max_of(float a, float b) { return fmaxf(a, b); }
INLINE double max_of(double a, double b) { return fmax(a, b); }
INLINE C rstd_of(C variance, double eps) { return C(1) / sqrt_of(variance + C(eps)); }

// e^x for the numbers of a dtype. If results are rounded to half precision, one instruction is
// accurate enough (error of 2 ulp of float near 0, |x| / 16 elsewhere).
INLINE double exponential(double x, double) { return exp(x); }
INLINE float exponential(float x, float) { return expf(x); }
template <class Half> INLINE float exponential(float x, Half) { return ex2_approx_ftz(x * 1.4426950408889634f); }
INLINE C exponential(C x) { return exponential(x, T()); }

// ---------------------------------------------------------------- packs in registers

template <int BYTES> struct WordOf {
    typedef u32 type;
};
template <> struct WordOf<2> {
    typedef u16 type;
};
typedef typename WordOf<PACK * sizeof(T)>::type Word;

// Element e of a pack's words, and the words of elements. A pack of one half-precision element is a
// 16-bit word.
INLINE float unpacked(float, const u32* words, int e) { return __uint_as_float(words[e]); }
INLINE double unpacked(double, const u32* words, int e) {
    return __hiloint2double(int(words[2 * e + 1]), int(words[2 * e]));
}
INLINE float unpacked(f16, const u32* words, int e) { return to_float(f16{u16(words[e / 2] >> 16 * (e % 2))}); }
INLINE float unpacked(bf16, const u32* words, int e) {
    return __uint_as_float(e % 2 ? words[e / 2] & 0xffff0000u : words[e / 2] << 16);
}
template <class Half> INLINE float unpacked(Half, const u16* words, int) { return to_float(Half{words[0]}); }

template <int N> INLINE void pack(float, const float (&values)[N], u32* words) {
#pragma unroll
    for (int e = 0; e < N; ++e) words[e] = __float_as_uint(values[e]);
}
template <int N> INLINE void pack(double, const double (&values)[N], u32* words) {
#pragma unroll
    for (int e = 0; e < N; ++e) {
        words[2 * e] = u32(__double2loint(values[e]));
        words[2 * e + 1] = u32(__double2hiint(values[e]));
    }
}
template <int N> INLINE void pack(f16, const float (&values)[N], u32* words) {
#pragma unroll
    for (int e = 0; e < N; e += 2) words[e / 2] = cvt_rn_f16x2_f32(values[e + 1], values[e]);
}
template <int N> INLINE void pack(bf16, const float (&values)[N], u32* words) {
#pragma unroll
    for (int e = 0; e < N; e += 2) words[e / 2] = cvt_rn_bf16x2_f32(values[e + 1], values[e]);
}
template <class Half> INLINE void pack(Half, const float (&values)[1], u16* words) {
    words[0] = narrow<Half>(values[0]).bits;
}

// A pack as in memory, in words instead of elements: the compiler would keep two half-precision
// elements in two registers.
struct alignas(PACK * sizeof(T)) Raw {
    Word words[PACK * sizeof(T) / sizeof(Word)];

    INLINE C get(int e) const { return unpacked(T(), words, e); }
    INLINE static Raw of(const C (&values)[PACK]) {
        Raw raw;
        pack(T(), values, raw.words);
        return raw;
    }
    INLINE static Raw filled(C value) {
        C values[PACK];
#pragma unroll
        for (int e = 0; e < PACK; ++e) values[e] = value;
        return of(values);
    }
};
extern __shared__ Raw held[];
static_assert(ROW_STORAGE != SHARED || TEAM > WARP, "shared memory holds one row");

INLINE Raw load_raw(const T* from) { return *reinterpret_cast<const Raw*>(from); }
INLINE void store_raw(T* to, const Raw& raw) { *reinterpret_cast<Raw*>(to) = raw; }
// Copies 16 bytes, which are visible to the thread once it has waited for the group of its copies.
INLINE void copy_to_shared(Raw* to, const T* from) { cp_async<16>(cvta_to_shared(to), from); }

// ---------------------------------------------------------------- the packs of a row

struct RowPacking {
    int lead;  // elements of pack 0 before the start of the row
    int columns;
    int packs;

    INLINE RowPacking(const T* row, u32 row_columns) {
        lead = MASKED ? int((u64(row) / sizeof(T)) % PACK) : 0;
        columns = int(row_columns);
        packs = columns > 0 ? (lead + columns + PACK - 1) / PACK : 0;
    }
    // The column of the first element of a pack.
    INLINE int column(int pack) const { return pack * PACK - lead; }
    INLINE bool inside(int column) const { return !MASKED || u32(column) < u32(columns); }
    INLINE bool whole(int pack) const { return !MASKED || (column(pack) >= 0 && column(pack) + PACK <= columns); }

    // Elements outside the row are `missing`.
    INLINE Raw load(const T* row, int pack, C missing) const {
        int first = column(pack);
        Raw raw = Raw::filled(missing);
        if (pack < packs && whole(pack)) {
            raw = load_raw(row + first);
        } else if (MASKED && pack < packs) {
            C values[PACK];
#pragma unroll
            for (int e = 0; e < PACK; ++e) values[e] = inside(first + e) ? widen(row[first + e]) : missing;
            raw = Raw::of(values);
        }
        return raw;
    }
    INLINE void store(T* row, int pack, const Raw& raw) const {
        int first = column(pack);
        if (pack < packs && whole(pack)) {
            store_raw(row + first, raw);
        } else if (MASKED && pack < packs) {
#pragma unroll
            for (int e = 0; e < PACK; ++e)
                if (inside(first + e)) row[first + e] = narrow<T>(raw.get(e));
        }
    }
};

INLINE void load_row(Raw (&raw)[PACKS], const RowPacking& cut, const T* row, int member, C missing) {
#pragma unroll
    for (int k = 0; k < PACKS; ++k) raw[k] = cut.load(row, member + k * TEAM, missing);
}

// Calls work(first, raw) for the member's packs, UNROLL at a time: raw[u][t] is the pack `first + u
// * TEAM` of tensor t. `from` has the rows in memory.
template <int COUNT> struct Tensors {
    const T* rows[COUNT];
    C missing[COUNT];
};
template <int COUNT, class Work>
INLINE void for_packs(const RowPacking& cut, int member, const Tensors<COUNT>& from, Work work) {
#pragma unroll 1
    for (int first = member; first < cut.packs; first += TEAM * UNROLL) {
        Raw raw[UNROLL][COUNT];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
#pragma unroll
            for (int t = 0; t < COUNT; ++t) raw[u][t] = cut.load(from.rows[t], first + u * TEAM, from.missing[t]);
        work(first, raw);
    }
}
// Like for_packs, for a row that is read again: if ROW_STORAGE is SHARED, the row is kept in shared
// memory between its reads.
//
//      load     group 0 | group 1 | group 2 | group 3 | group 4 ..  a group: UNROLL packs of each
//      compute                                group 0 | group 1 ..  thread and tensor
//
// During work on one group, GROUPS_IN_FLIGHT groups are in flight. Copies bypass the registers: a
// thread could not hold as many packs as the memory latency requires.
constexpr int GROUPS_IN_FLIGHT = 3;
template <int COUNT, class Work>
INLINE void for_packs_first_pass(const RowPacking& cut, int member, const Tensors<COUNT>& from, Work work) {
    if constexpr (ROW_STORAGE != SHARED) {
        for_packs<COUNT>(cut, member, from, work);
    } else if constexpr (sizeof(Raw) != 16) {
        for_packs<COUNT>(cut, member, from, [&](int first, const Raw(&raw)[UNROLL][COUNT]) {
#pragma unroll
            for (int u = 0; u < UNROLL; ++u)
#pragma unroll
                for (int t = 0; t < COUNT; ++t)
                    if (first + u * TEAM < cut.packs) held[t * cut.packs + first + u * TEAM] = raw[u][t];
            work(first, raw);
        });
    } else {
        auto issue_copies = [&](int first) {
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
                int pack = first + u * TEAM;
                if (pack < cut.packs && cut.whole(pack))
#pragma unroll
                    for (int t = 0; t < COUNT; ++t)
                        copy_to_shared(&held[t * cut.packs + pack], from.rows[t] + cut.column(pack));
            }
            cp_async_commit_group();
        };
        // The first and the last pack, if they are shared with other rows.
        auto load_edge_pack = [&](int pack) {
            if (pack % TEAM != member || pack < 0 || cut.whole(pack)) return;
#pragma unroll
            for (int t = 0; t < COUNT; ++t) held[t * cut.packs + pack] = cut.load(from.rows[t], pack, from.missing[t]);
        };
#pragma unroll
        for (int group = 0; group < GROUPS_IN_FLIGHT; ++group) issue_copies(member + group * TEAM * UNROLL);
        if (MASKED) {
            load_edge_pack(0);
            load_edge_pack(cut.packs - 1);
        }
#pragma unroll 1
        for (int first = member; first < cut.packs; first += TEAM * UNROLL) {
            // Each thread works on what it copied itself: no barrier is needed.
            cp_async_wait_group<GROUPS_IN_FLIGHT - 1>();
            Raw raw[UNROLL][COUNT];
#pragma unroll
            for (int u = 0; u < UNROLL; ++u)
#pragma unroll
                for (int t = 0; t < COUNT; ++t) {
                    int pack = first + u * TEAM;
                    raw[u][t] = pack < cut.packs ? held[t * cut.packs + pack] : Raw::filled(from.missing[t]);
                }
            issue_copies(first + GROUPS_IN_FLIGHT * TEAM * UNROLL);
            work(first, raw);
        }
    }
}
// Calls work(pack, raw of every tensor) for the member's packs again. Each thread reads what it
// stored itself: no barrier is needed.
template <int COUNT, class Work>
INLINE void for_packs_second_pass(const RowPacking& cut, int member, const Tensors<COUNT>& from, Work work) {
    if (ROW_STORAGE == SHARED) {
        // One at a time is enough, and leaves the registers to a second block.
#pragma unroll 1
        for (int pack = member; pack < cut.packs; pack += TEAM) {
            Raw raw[COUNT];
#pragma unroll
            for (int t = 0; t < COUNT; ++t) raw[t] = held[t * cut.packs + pack];
            work(pack, raw);
        }
    } else {
        // Backward: what was read last is still in the cache. Loads come first: no load may move
        // ahead of a store, which may be to the same address.
        int last = member + (cut.packs - 1) / TEAM * TEAM;
#pragma unroll 1
        for (; last >= 0; last -= TEAM * UNROLL) {
            Raw raw[UNROLL][COUNT];
#pragma unroll
            for (int u = 0; u < UNROLL; ++u)
#pragma unroll
                for (int t = 0; t < COUNT; ++t) {
                    int pack = last - u * TEAM;
                    raw[u][t] = cut.load(from.rows[t], pack < 0 ? cut.packs : pack, from.missing[t]);
                }
#pragma unroll
            for (int u = 0; u < UNROLL; ++u)
                if (last - u * TEAM >= 0 && last - u * TEAM < cut.packs) work(last - u * TEAM, raw[u]);
        }
    }
}

// ---------------------------------------------------------------- reductions of a team
//
// Their order depends only on TEAM.

template <int LANES> INLINE C lanes_sum(C value) {
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2) value += __shfl_xor_sync(ALL_LANES, value, step);
    return value;
}
template <int LANES> INLINE C lanes_max(C value) {
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2) value = max_of(value, __shfl_xor_sync(ALL_LANES, value, step));
    return value;
}
INLINE int warp_of_block() { return threadIdx.x / WARP; }
INLINE int lane() { return threadIdx.x % WARP; }

// Every use in a kernel has its own SLOT: so no second barrier is needed before the memory is used
// again.
template <int SLOT> INLINE C team_max(C value) {
    value = lanes_max<TEAM_LANES>(value);
    if (TEAM_WARPS == 1) return value;
    __shared__ C of_warps[TEAM_WARPS];
    if (lane() == 0) of_warps[warp_of_block()] = value;
    __syncthreads();
    return lanes_max<TEAM_WARPS>(of_warps[lane() % TEAM_WARPS]);
}
template <int SLOT> INLINE C team_sum(C value) {
    value = lanes_sum<TEAM_LANES>(value);
    if (TEAM_WARPS == 1) return value;
    __shared__ C of_warps[TEAM_WARPS];
    if (lane() == 0) of_warps[warp_of_block()] = value;
    __syncthreads();
    return lanes_sum<TEAM_WARPS>(of_warps[lane() % TEAM_WARPS]);
}
struct Pair {
    C first, second;
};
// Two sums at once: after the first exchange the lower lanes continue with one sum, the upper lanes
// with the other. In a loop, `turn` alternates between 0 and 1: the memory of one turn is written
// again only after all threads have read it.
template <int SLOT> INLINE Pair team_sums(C first, C second, int turn = 0) {
    if (TEAM_LANES == 1) return Pair{first, second};
    constexpr int HALF = largest(TEAM_LANES / 2, 1);
    bool upper = threadIdx.x & HALF;
    C mine = (upper ? second : first) + __shfl_xor_sync(ALL_LANES, upper ? first : second, HALF);
    mine = lanes_sum<HALF>(mine);
    if (TEAM_WARPS > 1) {
        __shared__ C of_warps[2][2][TEAM_WARPS];
        if (threadIdx.x % HALF == 0) of_warps[turn][upper][warp_of_block()] = mine;
        __syncthreads();
        constexpr int READERS = TEAM_WARPS > HALF ? HALF : TEAM_WARPS;
        mine = of_warps[turn][upper][threadIdx.x % READERS];
        if (TEAM_WARPS > HALF) mine += of_warps[turn][upper][HALF + threadIdx.x % HALF];
        mine = lanes_sum<READERS>(mine);
    }
    C other = __shfl_xor_sync(ALL_LANES, mine, HALF);
    return upper ? Pair{other, mine} : Pair{mine, other};
}
template <int SLOT> INLINE void team_sums(C (&values)[2], int turn) {
    Pair pair = team_sums<SLOT>(values[0], values[1], turn);
    values[0] = pair.first, values[1] = pair.second;
}
// Four sums at once: after two exchanges each quarter of the lanes continues with one of them.
template <int SLOT> INLINE void team_sums(C (&values)[4], int turn) {
    static_assert(TEAM_LANES == WARP || SLOT < 0, "a quarter of the lanes for each sum");
    constexpr int QUARTER = WARP / 4;
    bool upper = threadIdx.x & 2 * QUARTER, odd = threadIdx.x & QUARTER;
    C even_one =
        (upper ? values[2] : values[0]) + __shfl_xor_sync(ALL_LANES, upper ? values[0] : values[2], 2 * QUARTER);
    C odd_one =
        (upper ? values[3] : values[1]) + __shfl_xor_sync(ALL_LANES, upper ? values[1] : values[3], 2 * QUARTER);
    C mine = (odd ? odd_one : even_one) + __shfl_xor_sync(ALL_LANES, odd ? even_one : odd_one, QUARTER);
    mine = lanes_sum<QUARTER>(mine);
    int which = lane() / QUARTER;
    if (TEAM_WARPS > 1) {
        __shared__ C of_warps[2][4][TEAM_WARPS];
        if (threadIdx.x % QUARTER == 0) of_warps[turn][which][warp_of_block()] = mine;
        __syncthreads();
        constexpr int READERS = TEAM_WARPS > QUARTER ? QUARTER : TEAM_WARPS;
        mine = 0;
#pragma unroll
        for (int from = 0; from < TEAM_WARPS; from += READERS)
            mine += of_warps[turn][which][from + threadIdx.x % READERS];
        mine = lanes_sum<READERS>(mine);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) values[i] = __shfl_sync(ALL_LANES, mine, i * QUARTER);
}

// ---------------------------------------------------------------- sums of exponentials

// The sum of e^(x - shift(max)) over numbers whose maximum is max, -infinity if there are none. A
// part of a row may contain only -infinity, and then adds 0.
//
// In softmax the maximum may be +infinity: inf - inf = NaN is then the result of the whole row,
// like 0/0. The loss needs a result for the other numbers: there (BOUNDED) max is the greatest
// number below +infinity, and the sum is +infinity.
template <bool BOUNDED> struct Exponentials {
    C max, sum;

    INLINE Exponentials() : max(-infinite()), sum(0) {}
    INLINE static C shift(C max) { return max == -infinite() ? C(0) : max; }

    INLINE void rescale(C larger_max) {
        if (larger_max == max) return;
        if (!BOUNDED || sum != infinite()) sum *= exponential(max - larger_max);
        max = larger_max;
    }
    // Adds the elements of one or more packs; missing ones are -infinity.
    template <int COUNT> INLINE void add(const Raw (&raw)[COUNT][1]) {
        C largest = -infinite();
#pragma unroll
        for (int u = 0; u < COUNT; ++u)
#pragma unroll
            for (int e = 0; e < PACK; ++e) largest = max_of(largest, raw[u][0].get(e));
        if (BOUNDED && largest == infinite()) {
            largest = -infinite();
            for (int u = 0; u < COUNT; ++u)
                for (int e = 0; e < PACK; ++e) {
                    C x = raw[u][0].get(e);
                    if (x < infinite()) largest = max_of(largest, x);
                }
        }
        rescale(max_of(max, largest));
        C base = shift(max), part = 0;
#pragma unroll
        for (int u = 0; u < COUNT; ++u)
#pragma unroll
            for (int e = 0; e < PACK; ++e) part += exponential(raw[u][0].get(e) - base);
        sum += part;
    }
    template <int LANES> INLINE void of_lanes() {
        rescale(lanes_max<LANES>(max));
        sum = lanes_sum<LANES>(sum);
    }
    template <int SLOT> INLINE void of_team() {
        of_lanes<TEAM_LANES>();
        of_warps<SLOT>();
    }
    // The same if all lanes of a warp already have the warp's values.
    template <int SLOT> INLINE void of_warps() {
        if (TEAM_WARPS == 1) return;
        __shared__ Pair of_each[TEAM_WARPS];
        if (lane() == 0) of_each[warp_of_block()] = Pair{max, sum};
        __syncthreads();
        Pair pair = of_each[lane() % TEAM_WARPS];
        max = pair.first;
        sum = pair.second;
        of_lanes<TEAM_WARPS>();
    }
};
