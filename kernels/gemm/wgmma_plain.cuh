// The epilogue of gemm/wgmma.cu that stores only y. Accumulators pass to y slab by slab (64 rows,
// 128 bytes of each) through shared memory, from which TMA stores them:
//
//   cooperative tiles of 16-bit results    Accumulators are rounded into other registers, and the
//   that have a next tile (OVERLAPS)       next tile's WGMMAs begin. The slabs are stored during
//                                          the first stages of that tile:
//
//          tensor cores   | tile 0          | tile 1                       | tile 2
//          consumer                         |slab 0|slab 1|slab 2|slab 3|
//
//   all others                             One slab after another, before the consumer's next
//                                          WGMMAs (ping-pong: during those of the other consumer)
//
// Two slabs of shared memory for each consumer are used in turn. (Storing all of a block's last
// tile at once where its stages were takes longer: its copies begin later, and they are bound by
// what the L2 cache accepts from all blocks.)

#pragma once

#include "gemm/wgmma_loop.cuh"
#include "gemm/wgmma_split_k_fixup.cuh"
#include "gemm/wgmma_tile.cuh"
#include "ptx/barrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/stmatrix.cuh"

// What the epilogue computes: nothing; a bias; everything that the macros define.
enum EpilogueKind { PLAIN, BIAS, EVERYTHING };

INLINE EpilogueKind epilogue_kind(const TensorMapProduct& p) {
    if (p.alpha != 1.0f || p.constants.first) return EVERYTHING;
    return p.bias ? BIAS : PLAIN;
}

template <EpilogueKind FINISH> INLINE float finish_sum(const TensorMapProduct& p, float sum, float bias) {
    if (FINISH == BIAS) return sum + bias;
    float x = p.alpha * sum + bias;
    const Constants& k = p.constants;
    return ACTIVATION;
}
// The bias of a column of y and of the next one. The number of columns is even: rows of y consist
// of whole packs.
INLINE float2 bias_of(const TensorMapProduct& p, u32 column) {
    if (!p.bias || column >= (TRANSPOSED ? p.m : p.n)) return float2{0, 0};
    Pack<Output, 2> pair = load<Output, 2>(p.bias + column);
    return float2{widen(pair.of[0]), widen(pair.of[1])};
}

// The position in y of a consumer's accumulators, or of some of them.
struct TileOrigin {
    u32 row, column;
    i32 inner_batch, outer_batch;  // batch indices

    INLINE TileOrigin() {}
    INLINE TileOrigin(const TensorMapProduct& p, const WorkTile& work, u32 row_of_tile)
        : row(work.tile.row + row_of_tile),
          column(work.tile.column),
          inner_batch(p.is_partial ? work.tile.matrix : work.inner_batch),
          outer_batch(p.is_partial ? work.tile.split : work.outer_batch) {}
    INLINE TileOrigin moved(u32 down, u32 right) const {
        TileOrigin corner = *this;
        corner.row += down, corner.column += right;
        return corner;
    }
};

// Whether slabs of a tile are stored during the main loop of the next one.
constexpr bool OVERLAPS = !PINGPONG && ATOMS_M == 1 && !EPILOGUE && sizeof(Output) == 2;

struct PlainOut {
    const TensorMapProduct& p;
    u32 shared;
    u32 next = 0;  // index of the slab to use next, of two
    // OVERLAPS: a tile's rounded pairs of columns, of rows r and r + 8, and its position in y,
    // until they are stored.
    u32 rounded[TILE_N / 8][2];
    TileOrigin corner;
    bool is_pending = false;

    INLINE PlainOut(const TensorMapProduct& parameters, u32 first) : p(parameters), shared(first) {}
    // Read from %tid.x at each use, so that they occupy no registers in between.
    INLINE u32 lane() const { return read_tid_x() % WARP; }
    INLINE u32 warp() const { return read_tid_x() / WARP % 4; }
    INLINE bool leads() const { return threadIdx.x % WARPGROUP == 0; }
    INLINE u32 consumer() const { return read_tid_x() / WARPGROUP; }
    INLINE void sync() const { barrier_sync(1 + consumer(), WARPGROUP); }
    INLINE void begin(const WorkTile&, u32) const {}

    // ------------------------------------------------------------ epilogue function

    // Applies the epilogue to columns 8 * FIRST to 8 * END of 64 rows that begin at the corner.
    template <EpilogueKind FINISH, int FIRST, int END, int QUADS>
    INLINE void finish(float (&sums)[QUADS][4], const TileOrigin& corner) const {
        if constexpr (FINISH == PLAIN) return;
        float2 row_bias = TRANSPOSED ? bias_of(p, corner.row + accumulator_row(warp(), lane())) : float2{0, 0};
#pragma unroll
        for (int j = FIRST; j < END; ++j) {
            float2 bias = TRANSPOSED ? row_bias : bias_of(p, corner.column + j * 8 + 2 * (lane() % 4));
#pragma unroll
            for (int e = 0; e < 4; ++e)
                sums[j][e] = finish_sum<FINISH>(p, sums[j][e], (TRANSPOSED ? e / 2 : e % 2) ? bias.y : bias.x);
        }
    }
    template <int QUADS> INLINE void finish_all(float (&sums)[QUADS][4], const TileOrigin& corner) const {
        EpilogueKind form = epilogue_kind(p);
        if (form == BIAS) finish<BIAS, 0, QUADS>(sums, corner);
        else if (form == EVERYTHING) finish<EVERYTHING, 0, QUADS>(sums, corner);
    }

    // ------------------------------------------------------------ registers to slab

    // Stores a lane's pairs of eight columns and of the next eight.
    INLINE void write_pairs(u32 slab, int j, const u32 (&words)[4]) const {
        u32 lane = this->lane(), row = warp() * 16 + lane % 16;
        stmatrix_x4(slab + row * LINE_BYTES + (((j + lane / 16) ^ row) & 7) * 16, words);
    }
    // Stores accumulators of 64 rows and of SLAB_COLUMNS columns from 8 * FIRST on.
    template <int FIRST, int QUADS, class Half>
    INLINE void write(u32 slab, const float (&sums)[QUADS][4], Half type) const {
#pragma unroll
        for (int j = 0; j < SLAB_COLUMNS / 8; j += 2) {
            u32 words[4];
#pragma unroll
            for (int w = 0; w < 4; ++w) {
                const float (&c)[4] = sums[FIRST + j + w / 2];
                words[w] = pack_half2(c[w % 2 * 2], c[w % 2 * 2 + 1], type);
            }
            write_pairs(slab, j, words);
        }
    }
    template <int FIRST, int QUADS> INLINE void write(u32 slab, const float (&sums)[QUADS][4], float) const {
        if constexpr (TRANSPOSED) return write_transposed<FIRST>(slab, sums);
        u32 lane = this->lane(), row = accumulator_row(warp(), lane);
#pragma unroll
        for (int j = 0; j < SLAB_COLUMNS / 8; ++j) {
            const float (&c)[4] = sums[FIRST + j];
            u32 to = slab + row * LINE_BYTES + (((2 * j + lane % 4 / 2) ^ row) & 7) * 16 + lane % 2 * 8;
            u32 below = NEXT_ROW == 8 ? to + 8 * LINE_BYTES : (to ^ 16) + LINE_BYTES;
            st_shared_v2_f32(to, c[0], c[1]);
            st_shared_v2_f32(below, c[2], c[3]);
        }
    }
    // The same transposed: two boxes of 32 columns of y and SLAB_COLUMNS rows each. For each j, a
    // lane has two columns of two rows of y. Half of the lanes store the second row first, so that
    // 16 lanes access every bank once.
    template <int FIRST, int QUADS> INLINE void write_transposed(u32 slab, const float (&sums)[QUADS][4]) const {
        u32 lane = this->lane(), from = accumulator_row(warp(), lane);
        bool begins_second = lane / 8 % 2;
        u32 line = lane % 4 * 2 + begins_second;
        u32 to = slab + from / 32 * STORE_BOX_ROWS * LINE_BYTES + line * LINE_BYTES + (from % 32 / 4 ^ line) * 16 +
                 from % 4 * 4;
        u32 other = to ^ (LINE_BYTES + 16);
#pragma unroll
        for (int j = 0; j < SLAB_COLUMNS / 8; ++j) {
            const float (&x)[4] = sums[FIRST + j];
            u32 down = j * 8 * LINE_BYTES;
            st_shared_v2_f32(to + down, begins_second ? x[1] : x[0], begins_second ? x[3] : x[2]);
            st_shared_v2_f32(other + down, begins_second ? x[0] : x[1], begins_second ? x[2] : x[3]);
        }
    }
    template <int FIRST> INLINE void write_rounded(u32 slab) const {
#pragma unroll
        for (int j = 0; j < SLAB_COLUMNS / 8; j += 2) {
            u32 words[4];
#pragma unroll
            for (int w = 0; w < 4; ++w) words[w] = rounded[FIRST + j + w / 2][w % 2];
            write_pairs(slab, j, words);
        }
    }
    // Stores slab NUMBER of a tile.
    template <int NUMBER> INLINE void write_slab(u32 slab, const Sums& sums) const {
        constexpr int BLOCK = NUMBER / SLABS_ACROSS, FIRST = NUMBER % SLABS_ACROSS * (SLAB_COLUMNS / 8);
        if constexpr (OVERLAPS) write_rounded<FIRST>(slab);
        else write<FIRST>(slab, sums[BLOCK], Output());
    }
    INLINE u32 slab_at(int number) const { return shared + STAGING_OFFSET + (consumer() * 2 + number) * SLAB_BYTES; }

    // ------------------------------------------------------------ slab to y

    // Called by the leading thread.
    INLINE void copy_out(u32 slab, const TileOrigin& to) const {
        if constexpr (TRANSPOSED) {
            cp_async_bulk_tensor_store_4d(p.y, to.row, to.column, to.inner_batch, to.outer_batch, slab);
            if (to.row + 32 < p.m)
                cp_async_bulk_tensor_store_4d(p.y, to.row + 32, to.column, to.inner_batch, to.outer_batch,
                                              slab + STORE_BOX_ROWS * LINE_BYTES);
        } else {
            cp_async_bulk_tensor_store_4d(p.y, to.column, to.row, to.inner_batch, to.outer_batch, slab);
        }
    }
    static INLINE TileOrigin slab_origin(const TileOrigin& tile, int number) {
        return tile.moved(number / SLABS_ACROSS * 64, number % SLABS_ACROSS * SLAB_COLUMNS);
    }

    // Stores one slab at the corner `to`. `write` fills it in shared memory.
    template <class Write> INLINE void store_next(const TileOrigin& to, Write write) {
        if (to.row >= p.m || to.column >= p.n) return;
        u32 slab = slab_at(next);
        next ^= 1;
        // The previous store from this slab, two stores ago, has read it.
        if (leads()) cp_async_bulk_wait_group_read<1>();
        sync();
        write(slab);
        fence_proxy_async_shared();
        sync();
        if (leads()) {
            copy_out(slab, to);
            cp_async_bulk_commit_group();
        }
    }
    // Stores both slabs of a tile that has two, with one fence and two barriers.
    INLINE void store_pair(const Sums& sums, const TileOrigin& tile) {
        if (tile.row >= p.m || tile.column >= p.n) return;
        if (leads()) cp_async_bulk_wait_group_read<0>();
        sync();
        write_slab<0>(slab_at(0), sums);
        write_slab<1>(slab_at(1), sums);
        fence_proxy_async_shared();
        sync();
        if (leads()) {
            TileOrigin second = slab_origin(tile, 1);
            copy_out(slab_at(0), tile);
            if (second.row < p.m && second.column < p.n) copy_out(slab_at(1), second);
            cp_async_bulk_commit_group();
        }
    }
    template <EpilogueKind FINISH, int NUMBER> INLINE void store_slab(Sums& sums, const TileOrigin& tile) {
        constexpr int BLOCK = NUMBER / SLABS_ACROSS, FIRST = NUMBER % SLABS_ACROSS * (SLAB_COLUMNS / 8);
        store_next(slab_origin(tile, NUMBER), [&](u32 slab) {
            finish<FINISH, FIRST, FIRST + SLAB_COLUMNS / 8>(sums[BLOCK], tile.moved(BLOCK * 64, 0));
            write_slab<NUMBER>(slab, sums);
        });
    }
    template <EpilogueKind FINISH, int NUMBER = 0> INLINE void store_in_turn(Sums& sums, const TileOrigin& tile) {
        store_slab<FINISH, NUMBER>(sums, tile);
        if constexpr (NUMBER + 1 < SLABS) store_in_turn<FINISH, NUMBER + 1>(sums, tile);
    }

    // ------------------------------------------------------------ a tile

    // Stores the accumulators of a tile, or rounds them to store them later.
    INLINE void store(Sums& sums, const WorkTile& work, u32 row, bool is_last) {
        TileOrigin tile(p, work, row);
        if constexpr (ATOMS_M > 1) {
            // Slab by slab: otherwise all biases would be in registers at once.
            EpilogueKind form = epilogue_kind(p);
            if (form == PLAIN) store_in_turn<PLAIN>(sums, tile);
            else if (form == BIAS) store_in_turn<BIAS>(sums, tile);
            else store_in_turn<EVERYTHING>(sums, tile);
            return;
        }
        finish_all(sums[0], tile);
        if constexpr (OVERLAPS) {
            round(sums, Output());
            if (!is_last && work.k_tiles >= SLABS) {  // all tiles have the same number of stages
                corner = tile;
                is_pending = true;
                return;
            }
        }
        if constexpr (SLABS == 2) store_pair(sums, tile);
        else store_in_turn<PLAIN>(sums, tile);
    }
    template <class Half> INLINE void round(const Sums& sums, Half type) {
#pragma unroll
        for (int i = 0; i < TILE_N / 4; ++i) {
            const float (&c)[4] = sums[0][i / 2];
            rounded[i / 2][i % 2] = pack_half2(c[i % 2 * 2], c[i % 2 * 2 + 1], type);
        }
    }
    // Stores the pending slabs of the previous tile, if any, each during the WGMMAs of one of the
    // first stages of this tile. Returns the number of these stages.
    INLINE u32 store_pending_slabs(Sums& sums, Ring& ring, u32 row) {
        if constexpr (OVERLAPS) {
            if (is_pending) {
                is_pending = false;
                return store_pending_from<0>(sums, ring, row);
            }
        }
        return 0;
    }
    template <int NUMBER> INLINE u32 store_pending_from(Sums& sums, Ring& ring, u32 row) {
        add_stage(sums, ring, NUMBER, row, [&] { store_slab<PLAIN, NUMBER>(sums, corner); });
        if constexpr (NUMBER + 1 < SLABS) return store_pending_from<NUMBER + 1>(sums, ring, row);
        else return SLABS;
    }

    // ------------------------------------------------------------ split-K

    // Stores the slabs of a chunk that has been added over all splits.
    template <int FIRST = 0> INLINE void store_chunk(const Chunk& sums, const TileOrigin& chunk) {
        store_next(chunk.moved(0, FIRST * 8), [&](u32 slab) { write<FIRST>(slab, sums, Output()); });
        if constexpr (FIRST + SLAB_COLUMNS / 8 < QUADS) store_chunk<FIRST + SLAB_COLUMNS / 8>(sums, chunk);
    }
    // Stores the partial sums of one of `splits` splits, and chunks of y if all splits have
    // arrived. `is_last`: the consumer has no further work tile.
    INLINE void store_part(Sums& sums, const WorkTile& work, u32 row, bool is_last) {
        SplitFixup unit(p, work, row, consumer(), shared);
        unit.write(sums);
        // A unit's only chunk is added by the split that arrives last.
        if (unit.arrive(CHUNKS > 1 && is_last ? POLLS : 0)) {
#pragma unroll 1
            for (u32 number = unit.take(); number < CHUNKS; number = unit.take()) {
                Chunk of_all;
                unit.reduce_splits(of_all, number);
                TileOrigin chunk(p, work, row);
                chunk.row = unit.first_row(number), chunk.column = unit.first_column(number);
                finish_all(of_all, chunk);
                store_chunk(of_all, chunk);
            }
        }
        unit.end();
        // The accumulators are dead, which the compiler does not know: the next WGMMAs start from
        // whatever their registers contain. Without this it would preserve them.
#pragma unroll
        for (int i = 0; i < ATOMS_M * TILE_N / 2; ++i) sums[i / (TILE_N / 2)][i / 4 % (TILE_N / 8)][i % 4] = 0;
    }
};
