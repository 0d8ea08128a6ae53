// Matrix products of f16, bf16 and TF32 by warpgroups (wgmma, sm_90a), added up in f32; operands come and results go by the tensor memory
// accelerator (TMA). What is computed, and the macros of what follows the sum, stand in gemm.cuh.
//
//   producer (one thread)              consumers (two warpgroups of 128 threads)
//
//   a ---TMA---> [ stage | stage | stage | stage ] ---wgmma---> sums in registers ---> slabs in shared memory ---TMA---> y
//   b ---TMA--->     ring of STAGES buffers
//
// The grid is as large as the device; a block takes the tiles blockIdx.x, blockIdx.x + gridDim.x, .. one after the other, so that loads of the next
// tile run under the sums of this one. Two schedules:
//
//   PINGPONG 0   both consumers share a tile: each has TILE_M / 2 rows            producer  |tile 0 |tile 1 |tile 2 |
//                                                                                 consumers   |tile 0|out|tile 1|out|
//   PINGPONG 1   each consumer has tiles of its own, in turn: one multiplies      consumer 0  |tile 0|out|   |tile 2|out|
//                while the other one stores                                       consumer 1         |tile 1|out|   |tile 3|
//
// A stage has 128 bytes of each line of a tile (TILE_K elements), in the 128 byte swizzle: chunk c (16 bytes) of line r is stored at c ^ (r % 8).
//
//   A_INNER 1   lines are rows of a, runs along k:             one box of 128 bytes x TILE_M
//   A_INNER 0   lines are those of k, runs along m:            a slab of 64 rows of a after the other, each a box of 64 x 64
//   B_INNER     the same of columns of b and TILE_N
//
// wgmma reads TF32 from shared memory along k alone. So TF32 has B_INNER 1, and where A_INNER is 0 the consumers read a, in slabs of 32 rows, into
// registers and multiply from there (A_FROM_REGISTERS 1, wgmma_registers.cuh). Where b runs along n and a along k, the host has a and b change
// places, and with them m and n; the kernel multiplies y^T = b^T a^T and stores y (TURNED 1):
//
//   a along k, b along k        A_INNER 1
//   a along m, b along k        A_INNER 0, A_FROM_REGISTERS 1
//   a along k, b along n        A_INNER 0, A_FROM_REGISTERS 1, TURNED 1: p.a is b turned, p.b is a turned, p.m and p.n are n and m
//
// f32 in parts of bf16 (BF16X6 1) has stages of its own (wgmma_bf16x6.cuh).
//
// Tiles (TILE_M, TILE_N, STAGES, PINGPONG), which the host chooses from by predicted time:
//
//   128 256 4 0    large products; 128 sums a thread
//   128 192 4 1    k up to 3072, where a tile's way out takes long beside its sums; 192 sums a thread
//   128 128 6 1    waves that larger tiles do not fill
//   128 128 6 0    the same with one wave
//    64 128 8 1    fewer tiles than multiprocessors; in clusters of two or four, lines that begin beside multiples of 128 bytes
//    64  64 8 1    few rows, sums in parts
//
// A cluster has CLUSTER_DOWN x CLUSTER_ACROSS blocks. Those with tiles below each other have the same tile of b, those with tiles side by side the same
// of a: each loads its share of a stage into the shared memory of all that have the same (multicast), and a stage is empty once the consumers of all
// that share with the block have released it. Tiles beyond the result take part as all others do.
//
//                 b 0     b 1            block 0 loads   half of a 0 for blocks 0 and 2, half of b 0 for blocks 0 and 1
//   a 0   block    0       2             block 1         half of a 1              1 and 3,         b 0            0 and 1
//   a 1   block    1       3             block 2         half of a 0              0 and 2,         b 1            2 and 3
//
// With CLUSTER_ACROSS 1 what comes of a needs no other block, and is on its way before those have begun.
//
// Limits: runs begin at multiples of 16 bytes, as do all lines (gemm/mma.cu has products of others); at most two axes of a batch that do not merge;
// TF32 with a along m and b along n at once has no kernel: one of them is copied. k is above 0. Indices below 2^31.
//
// What follows the sum (EPILOGUE; the last three with one matrix, and with sums in one part):
//
//   0  y = activation(alpha * sum + bias), each part if the call asks for it
//   1  z = alpha * sum + bias, rounded and stored, y = ACTIVATED of z: of half precision
//   2  y = ACTIVATION_GRAD of z and d, the rounded alpha * sum: of half precision; z is read beside
//   3  y = alpha * sum + bias + residual, which is read beside: of f32
//
// With SUMS_OF_A 1, for a of 16 bits along m, two warps beside the producer's add up the rows of a over k while its stages are in shared memory
// (wgmma_sums.cuh): the gradient of a bias beside that of the weight. sum_parts follows then, instead of sum_splits.
//
// Launch: blocks of THREADS, as many as there are tiles or fit the device at once, whole clusters, SHARED bytes of shared memory. With splits > 1
// blocks add the parts up (wgmma_parts.cuh). Where there are more units than words for them, y is that of the partial sums, f32 [splits, matrices, m, n],
// alpha is 1 and there is no bias; sum_splits of a variant with the final output follows.

#include "gemm/wgmma_bf16x6.cuh"
#include "gemm/wgmma_fused.cuh"
#include "gemm/wgmma_loop.cuh"
#include "gemm/wgmma_parts.cuh"
#include "gemm/wgmma_registers.cuh"
#include "gemm/wgmma_sums.cuh"
#include "gemm/wgmma_tile.cuh"
#include "lib/launch.cuh"
#include "ptx/barrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/stmatrix.cuh"

// ---------------------------------------------------------------- after the sum

// What follows the sum: nothing; a bias; all that the macros say. Each has code of its own, since the tensor cores stand still while a tile that
// both consumers share is on its way out.
enum Finish { PLAIN, BIAS, EVERYTHING };

INLINE Finish finish_of(const TensorMapProduct& p) {
    if (p.alpha != 1.0f || p.constants.first) return EVERYTHING;
    return p.bias ? BIAS : PLAIN;
}

template <Finish FINISH> INLINE float finish_sum(const TensorMapProduct& p, float sum, float bias) {
    if (FINISH == PLAIN) return sum;
    if (FINISH == BIAS) return sum + bias;
    float x = p.alpha * sum + bias;
    const Constants& k = p.constants;
    return ACTIVATION;
}
// The bias of a column of y and of the next one. There is an even number of columns: rows of y are whole packs.
template <Finish FINISH> INLINE float2 bias_of(const TensorMapProduct& p, u32 column) {
    if (FINISH == PLAIN || (FINISH == EVERYTHING && !p.bias) || column >= (TURNED ? p.m : p.n)) return float2{0, 0};
    Pack<Output, 2> pair = load<Output, 2>(p.bias + column);
    return float2{widen(pair.of[0]), widen(pair.of[1])};
}

// A consumer's way out of its sums: slab by slab through shared memory, where two of them are in use in turn.
struct PlainOut {
    const TensorMapProduct& p;
    u32 shared;
    u32 next = 0;

    INLINE PlainOut(const TensorMapProduct& parameters, u32 first) : p(parameters), shared(first) {}
    // Read again where they are used, which takes no registers before.
    INLINE u32 lane() const { return read_tid_x() % WARP; }
    INLINE u32 warp() const { return read_tid_x() / WARP % 4; }
    INLINE bool leads() const { return threadIdx.x % WARPGROUP == 0; }
    INLINE u32 consumer() const { return read_tid_x() / WARPGROUP; }
    INLINE void meet() const { barrier_sync(1 + consumer(), WARPGROUP); }

    // Sums of 64 rows and the SLAB_N columns from 8 * FIRST on into the slab; `column` is the lane's first one, whose bias is added.
    template <Finish FINISH, int FIRST, int QUADS, class Half>
    INLINE void write(u32 slab, const float (&sums)[QUADS][4], u32 column, Half type) const {
        u32 lane = this->lane(), row = warp() * 16 + lane % 16;
#pragma unroll
        for (int j = 0; j < SLAB_N / 8; j += 2) {
            u32 words[4];
#pragma unroll
            for (int next = 0; next < 2; ++next) {
                const float (&c)[4] = sums[FIRST + j + next];
                float2 bias = bias_of<FINISH>(p, column + (j + next) * 8);
                words[next * 2] =
                    pair_of(finish_sum<FINISH>(p, c[0], bias.x), finish_sum<FINISH>(p, c[1], bias.y), type);
                words[next * 2 + 1] =
                    pair_of(finish_sum<FINISH>(p, c[2], bias.x), finish_sum<FINISH>(p, c[3], bias.y), type);
            }
            stmatrix_x4(slab + row * LINE + (((j + lane / 16) ^ row) & 7) * 16, words);
        }
    }
    template <Finish FINISH, int FIRST, int QUADS>
    INLINE void write(u32 slab, const float (&sums)[QUADS][4], u32 column, float) const {
        u32 lane = this->lane(), row = row_of_sums(warp(), lane);
#pragma unroll
        for (int j = 0; j < SLAB_N / 8; ++j) {
            const float (&c)[4] = sums[FIRST + j];
            float2 bias = bias_of<FINISH>(p, column + j * 8);
            u32 to = slab + row * LINE + (((2 * j + lane % 4 / 2) ^ row) & 7) * 16 + lane % 2 * 8;
            u32 below = NEXT_ROW == 8 ? to + 8 * LINE : (to ^ 16) + LINE;
            st_shared_v2_f32(to, finish_sum<FINISH>(p, c[0], bias.x), finish_sum<FINISH>(p, c[1], bias.y));
            st_shared_v2_f32(below, finish_sum<FINISH>(p, c[2], bias.x), finish_sum<FINISH>(p, c[3], bias.y));
        }
    }
    // The same turned: two boxes of 32 columns of y, each SLAB_N rows. A lane has two columns from `column` on, of two rows for each j; half of the
    // lanes begin with the second one, so that 16 lanes meet every bank once.
    template <Finish FINISH, int FIRST, int QUADS>
    INLINE void write_turned(u32 slab, const float (&sums)[QUADS][4], u32 column) const {
        u32 lane = this->lane(), from = row_of_sums(warp(), lane);
        bool begins_second = lane / 8 % 2;
        u32 line = lane % 4 * 2 + begins_second;
        u32 to = slab + from / 32 * LINES_OUT * LINE + line * LINE + (from % 32 / 4 ^ line) * 16 + from % 4 * 4;
        u32 other = to ^ (LINE + 16);
        float2 bias = bias_of<FINISH>(p, column);
#pragma unroll
        for (int j = 0; j < SLAB_N / 8; ++j) {
            const float (&c)[4] = sums[FIRST + j];
            float x[4];
#pragma unroll
            for (int e = 0; e < 4; ++e) x[e] = finish_sum<FINISH>(p, c[e], e < 2 ? bias.x : bias.y);
            u32 down = j * 8 * LINE;
            st_shared_v2_f32(to + down, begins_second ? x[1] : x[0], begins_second ? x[3] : x[2]);
            st_shared_v2_f32(other + down, begins_second ? x[0] : x[1], begins_second ? x[2] : x[3]);
        }
    }
    INLINE u32 slab_at(int number) const { return shared + OUT + (consumer() * 2 + number) * SLAB; }

    INLINE void begin(const Work&, u32) const {}
    // The slab of 64 rows of y from `first` on and SLAB_N columns from `column` on, whose sums are those from 8 * FIRST on.
    template <Finish FINISH, int FIRST, int QUADS>
    INLINE void store_slab(const float (&sums)[QUADS][4], const Work& work, u32 first, u32 column) {
        if (first >= p.m || column >= p.n) return;
        u32 slab = slab_at(next);
        next ^= 1;
        // The store from this slab before the last one has read it.
        if (leads()) cp_async_bulk_wait_group_read<1>();
        meet();
        if constexpr (TURNED) write_turned<FINISH, FIRST>(slab, sums, first + row_of_sums(warp(), lane()));
        else write<FINISH, FIRST>(slab, sums, column + 2 * (lane() % 4), Output());
        fence_proxy_async_shared();
        meet();
        if (leads()) {
            i32 fast = p.is_partial ? work.tile.matrix : work.fast, slow = p.is_partial ? work.tile.split : work.slow;
            if constexpr (TURNED) {
                cp_async_bulk_tensor_store_4d(p.y, first, column, fast, slow, slab);
                if (first + 32 < p.m)
                    cp_async_bulk_tensor_store_4d(p.y, first + 32, column, fast, slow, slab + LINES_OUT * LINE);
            } else {
                cp_async_bulk_tensor_store_4d(p.y, column, first, fast, slow, slab);
            }
            cp_async_bulk_commit_group();
        }
    }
    template <Finish FINISH, int SLAB_INDEX = 0> INLINE void store_slabs(Sums& sums, const Work& work, u32 row) {
        constexpr int BLOCK = SLAB_INDEX / SLABS_ACROSS, ACROSS = SLAB_INDEX % SLABS_ACROSS;
        store_slab<FINISH, ACROSS*(SLAB_N / 8)>(sums[BLOCK], work, work.tile.row + row + BLOCK * 64,
                                                work.tile.column + ACROSS * SLAB_N);
        if constexpr (SLAB_INDEX + 1 < SLABS) store_slabs<FINISH, SLAB_INDEX + 1>(sums, work, row);
    }
    INLINE void store(Sums& sums, const Work& work, u32 row) {
        Finish finish = finish_of(p);
        if (finish == PLAIN) store_slabs<PLAIN>(sums, work, row);
        else if (finish == BIAS) store_slabs<BIAS>(sums, work, row);
        else store_slabs<EVERYTHING>(sums, work, row);
    }

    // The slabs of a chunk of sums over all parts.
    template <Finish FINISH, int FIRST = 0>
    INLINE void store_chunk(const Chunk& sums, const Work& work, u32 first, u32 column) {
        store_slab<FINISH, FIRST>(sums, work, first, column + FIRST * 8);
        if constexpr (FIRST + SLAB_N / 8 < QUADS) store_chunk<FINISH, FIRST + SLAB_N / 8>(sums, work, first, column);
    }
    // The sums of one part of `splits`. With `is_final` the consumer has no other work.
    INLINE void store_part(Sums& sums, const Work& work, u32 row, bool is_final) {
        UnitPart part(p, work, row, consumer(), shared);
        part.write(sums);
        // One chunk is the last part's.
        if (part.arrive(CHUNKS > 1 && is_final ? LOOKS : 0)) {
            Finish finish = finish_of(p);
#pragma unroll 1
            for (u32 chunk = part.take(); chunk < CHUNKS; chunk = part.take()) {
                Chunk of_all;
                part.add_up(of_all, chunk);
                u32 first = part.first_row(chunk), column = part.first_column(chunk);
                if (finish == PLAIN) store_chunk<PLAIN>(of_all, work, first, column);
                else if (finish == BIAS) store_chunk<BIAS>(of_all, work, first, column);
                else store_chunk<EVERYTHING>(of_all, work, first, column);
            }
        }
        part.end();
        // Nobody reads them any more: the products that follow begin with whatever is in their registers, which would be kept else.
#pragma unroll
        for (int i = 0; i < BLOCKS * TILE_N / 2; ++i) sums[i / (TILE_N / 2)][i / 4 % (TILE_N / 8)][i % 4] = 0;
    }
};

#if EPILOGUE
typedef FusedOut Out;
#else
typedef PlainOut Out;
#endif

// Whether the consumer has no work behind this one.
INLINE bool is_final(const TensorMapProduct& p, u32 number) {
    number = next_number(number);
    return (PINGPONG ? next_number(number) : number) >= count_tiles(p, opaque(0));
}

INLINE void consume(const TensorMapProduct& p, u32 shared, u32 consumer) {
    Ring ring(shared);
    if (CLUSTER > 1) ring.peer = peer_of_lane();
    Out out(p, shared);
    Sums sums;
    u32 row = PINGPONG ? 0 : consumer * PART_M;
    u32 turn = consumer ^ 1;  // parity: the first consumer's first turn needs no one
    u32 number = first_number();
    if (PINGPONG && consumer == 1 && number < count_tiles(p)) {
        ring.skip(Work(p, number).blocks);
        number = next_number(number);
    }
#pragma unroll 1
    while (number < count_tiles(p, opaque(0))) {
        Work work(p, number);
        out.begin(work, row);
        if (PINGPONG) mbarrier_wait_parity(turn_of(shared, consumer), turn);
#if BF16X6
        add_up_promoted(sums, ring, work.blocks, row);
#else
#if A_FROM_REGISTERS
        add_up_from_registers(sums, ring, work.blocks, row);
#else
        add_up(sums, ring, work.blocks, row);
#endif
        // Its last stages were full: the other one may wait for those that follow.
        if (PINGPONG && threadIdx.x % WARP == 0) mbarrier_arrive(turn_of(shared, consumer ^ 1));
        await_sums(sums, ring);
#endif
        // Worked out again, which takes no registers while sums are added up.
#if !EPILOGUE
        if (p.parts) out.store_part(sums, Work(p, opaque(number)), row, is_final(p, number));
        else
#endif
            out.store(sums, Work(p, opaque(number)), row);
        number = next_number(number);
        turn ^= 1;
        if (PINGPONG && number < count_tiles(p, opaque(0))) {
            ring.skip(Work(p, number).blocks);
            number = next_number(number);
        }
    }
    // Shared memory stays until it has been read.
    if (out.leads()) cp_async_bulk_wait_group_read<0>();
}

INLINE void prefetch_maps(const TensorMapProduct& p) {
    prefetch_tensormap(p.a);
    prefetch_tensormap(p.b);
    prefetch_tensormap(p.y);
    if (EPILOGUE) prefetch_tensormap(p.z);
}
// Barriers by one thread: a fence of more of them takes longer than they save.
INLINE void init_barriers(u32 shared) {
    if (threadIdx.x == 0) {
        Ring ring(shared);
#pragma unroll
        for (int stage = 0; stage < STAGES; ++stage, ring.advance()) {
            mbarrier_init(ring.full(), 1);
            mbarrier_init(ring.empty(), SHARING * (PINGPONG ? 1 : CONSUMERS) * WARPGROUP / WARP + SUM_WARPS);
        }
#pragma unroll
        for (u32 consumer = 0; consumer < CONSUMERS; ++consumer)
            mbarrier_init(turn_of(shared, consumer), WARPGROUP / WARP);
        for (u32 strip = 0; strip < STRIP_BARRIERS; ++strip) mbarrier_init(turn_of(shared, CONSUMERS + strip), 1);
        fence_mbarrier_init();
    }
    if (CLUSTER > 1) {
        __syncwarp();
        barrier_cluster_arrive_relaxed();
    }
    __syncthreads();
}

INLINE void start_producer(const TensorMapProduct& p, u32 shared) {
    setmaxnreg_dec<PRODUCER_REGISTERS>();
    bool leads = threadIdx.x % WARPGROUP == 0;
    if constexpr (CLUSTER > 1) {
        ClusterProducer producer(p, shared);
        if (LOADS_EARLY && leads) producer.load_early();
        __syncwarp();
        barrier_cluster_wait();
        if (leads) producer.load_tiles();
    } else if (leads) {
        produce(p, shared);
    }
#if SUMS_OF_A
    // As the warpgroup's number: of lane 0.
    u32 warp = __shfl_sync(ALL_LANES, threadIdx.x / WARP % 4, 0);
    if (warp > 0 && warp <= SUM_WARPS) add_up_rows_of_a(p, shared, warp - 1);
#endif
}

#if CLUSTER_DOWN * CLUSTER_ACROSS > 1
#define CLUSTER_DIMS __cluster_dims__(CLUSTER, 1, 1)
#else
#define CLUSTER_DIMS
#endif
extern "C" __global__ void CLUSTER_DIMS __launch_bounds__(THREADS, 1)
    product(const __grid_constant__ TensorMapProduct p) {
#if BF16X6
    wait_for_earlier_launches();
    if (*p.unfit) return;
#endif
    extern __shared__ __align__(1024) u8 memory[];
    u32 shared = (cvta_to_shared(memory) + SWIZZLE_ALIGNMENT - 1) / SWIZZLE_ALIGNMENT * SWIZZLE_ALIGNMENT;
    if (threadIdx.x == CONSUMERS * WARPGROUP) prefetch_maps(p);
    init_barriers(shared);
    wait_for_earlier_launches();
    // Of lane 0, so that the compiler knows it to be the same in a warp: addresses and descriptors are then worked out once for all lanes.
    u32 warpgroup = __shfl_sync(ALL_LANES, threadIdx.x / WARPGROUP, 0);
    if (warpgroup == CONSUMERS) {
        start_producer(p, shared);
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        if (CLUSTER > 1) barrier_cluster_wait();
        consume(p, shared, warpgroup);
    }
}
