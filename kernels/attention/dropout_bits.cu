// Draws the dropout mask, with the indices of dropout.cuh, as the keep bits of dropout_bits.cuh.
// A Philox block covers four consecutive keys of a query. A warp has one row group and SPAN
// consecutive tiles:
//
//   forward    A tile is 16 queries x 128 keys. Of each 8 keys, even lanes draw for row l / 4, odd
//              lanes for row l / 4 + 8:
//
//     lane      0      1      2      3
//     row l/4   k0-3          k4-7
//     + 8              k0-3          k4-7
//
//              Of the four keys that it draws, a lane keeps the bits of two and sends the others to
//              the other lane of its pair, which sends it two bits of the other row.
//
//   gradient   A tile is 16 keys x 64 queries. Of each 8 queries, lane l draws for query l % 8 and
//              the four keys from l / 8 * 4. Four shuffles give each lane the bits of its two keys
//              and two queries.
//
// Tiles that no work tile of forward_tma.cu, grad_by_keys.cu or grad_by_keys_wide.cu processes are
// skipped.
//
// Launch: attention_dropout_bits, attention_dropout_bits_by_keys
// <<<heads * row_groups / 4 * ceil(tiles / SPAN), 128>>>. Of the variant's macros they use only
// BAND, which is 1.
// Limits: the threshold is above 0 and below 2^24.

#include "attention/dropout_bits.cuh"
#include "attention/mask.cuh"
#include "lib/launch.cuh"
#include "lib/philox.cuh"
#include "ptx/registers.cuh"

constexpr int THREADS = 128;
constexpr int GROUPS = THREADS / WARP;  // row groups per block
// Tiles per warp, to amortize the start of the block and the Philox key schedule.
constexpr u32 SPAN = 4;

struct AttentionDropoutBits {
    DropoutParams dropout;
    u32* bits;
    BitLayout layout;
    u32 work_tile_rows;  // rows of a work tile, whose main loop covers all tiles that any row needs
    u32 step_tiles;      // tiles of bits per main-loop step
    u32* ticket;         // reset to 0 by the gradient's kernel; may be null
    Sizes sizes;
};

// The part of a block: a head, the warp's row group, and a range of tiles.
struct BitBlock {
    u32 head, row_group;
    u32 first_tile, end_tile;

    // `column_range(first, end)` returns the range of columns that the rows of a work tile process.
    template <class ColumnRange>
    INLINE static BitBlock of(const AttentionDropoutBits& p, u32 rows, u32 columns, ColumnRange column_range) {
        u32 spans = (p.layout.tiles + SPAN - 1) / SPAN, blocks = p.layout.row_groups / GROUPS;
        u32 span = blockIdx.x % spans * SPAN, block = blockIdx.x / spans % blocks;
        u32 work = block * GROUPS * BIT_ROWS / p.work_tile_rows * p.work_tile_rows;
        Range range = column_range(i32(work), i32(min(work + p.work_tile_rows, rows)));
        // A fully masked work tile processes one step.
        if (range.first >= range.end) range = Range{0, 1};
        u32 step = columns * p.step_tiles;
        BitBlock found;
        found.head = p.layout.first_head + blockIdx.x / spans / blocks;
        found.row_group = block * GROUPS + threadIdx.x / WARP;
        found.first_tile = max(span, u32(range.first) / step * p.step_tiles);
        found.end_tile = min(span + SPAN, (u32(range.end) + step - 1) / step * p.step_tiles);
        return found;
    }
};

// Position of the weights in the Philox stream.
struct WeightStream {
    u64 seed, first_block;
    u32 keep_threshold;  // smallest word that is kept

    INLINE static WeightStream of(const DropoutParams& dropout) {
        return {u64(dropout.state[0]), u64(dropout.state[dropout.state_stride]) + dropout.offset,
                dropout.threshold << 8};
    }
    // Whether the weights of the four keys from index `weight` are kept. ALIGNED: they are one
    // Philox block.
    template <bool ALIGNED> INLINE void four(bool (&kept)[4], u64 weight) const {
        u64 block = first_block + weight / 4;
        RandomWords words = philox(seed, block);
        if (ALIGNED) {
#pragma unroll
            for (int word = 0; word < 4; ++word) kept[word] = words.of[word] >= keep_threshold;
        } else {
            RandomWords next = philox(seed, block + 1);
            u32 all = 0;
#pragma unroll
            for (int word = 0; word < 4; ++word)
                all |= (words.of[word] >= keep_threshold) << word | (next.of[word] >= keep_threshold) << (word + 4);
            all >>= u32(weight) % 4;
#pragma unroll
            for (int word = 0; word < 4; ++word) kept[word] = all >> word & 1;
        }
    }
};

// Bits of the first two and of the last two of each four keys. A lane keeps one of the words and
// sends the other.
struct DrawnBits {
    u32 first_two, last_two;
};

// Draws for a tile of keys, from weight index `weight`. This lane draws four of each 8 keys.
template <bool ALIGNED> INLINE DrawnBits draw(const WeightStream& stream, u64 weight) {
    DrawnBits drawn = {0, 0};
#pragma unroll 2
    for (int step = 0; step < BIT_KEYS / 16; ++step) {
        drawn.first_two <<= 1;
        drawn.last_two <<= 1;
#pragma unroll
        for (int eight = 0; eight < 2; ++eight, weight += 8) {
            bool kept[4];
            stream.four<ALIGNED>(kept, weight);
#pragma unroll
            for (int key = 0; key < 2; ++key) {
                if (kept[key]) drawn.first_two |= 1u << ((eight * 2 + key) * 8);
                if (kept[2 + key]) drawn.last_two |= 1u << ((eight * 2 + key) * 8);
            }
        }
    }
    return drawn;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    attention_dropout_bits(const __grid_constant__ AttentionDropoutBits p) {
    wait_for_earlier_launches();
    const Sizes& sizes = p.sizes;
    BitBlock block =
        BitBlock::of(p, sizes.queries, BIT_KEYS, [&](i32 first, i32 end) { return key_range(sizes, first, end); });
    u32 lane = threadIdx.x % WARP, query = block.row_group * BIT_ROWS + lane % 2 * 8 + lane / 4;
    u64 row = (u64(block.head) * sizes.queries + query) * sizes.keys;
    WeightStream stream = WeightStream::of(p.dropout);
    bool odd = lane % 2;
#pragma unroll 1
    for (u32 tile = block.first_tile; tile < block.end_tile; ++tile) {
        u64 weight = row + tile * BIT_KEYS + lane % 4 / 2 * 4;
        DrawnBits drawn = sizes.keys % 4 == 0 ? draw<true>(stream, weight) : draw<false>(stream, weight);
        u32 other = __shfl_xor_sync(ALL_LANES, odd ? drawn.first_two : drawn.last_two, 1);
        uint2 pair = odd ? make_uint2(other, drawn.last_two) : make_uint2(drawn.first_two, other);
        u32* to = p.bits + bit_words_before(p.layout, block.head, block.row_group, tile, 2);
        *reinterpret_cast<uint2*>(to + lane * 2) = pair;
    }
}

// Bit for query 8 j + l % 8 and key c of four, before the exchange. Different j have the same
// distances as in the final word. The four c use the distances that the final word has between its
// two rows (c % 2) and its two adjacent queries (c / 2).
INLINE constexpr int drawn_bit(int j, int c) { return j % 2 * 16 + 7 - j / 2 * 2 + c / 2 * 8 - c % 2; }
// The bits of key 0.
constexpr u32 DRAWN_BITS = 0x00AA00AA;

// Draws four keys from weight index `weight`, for every eighth query of a tile. Consecutive queries
// are `keys` weights apart.
template <bool ALIGNED> INLINE u32 draw_by_keys(const WeightStream& stream, u64 weight, u32 keys) {
    u32 drawn = 0;
#pragma unroll
    for (int j = 0; j < BIT_QUERIES / 8; ++j, weight += u64(keys) * 8) {
        bool kept[4];
        stream.four<ALIGNED>(kept, weight);
#pragma unroll
        for (int key = 0; key < 4; ++key)
            if (kept[key]) drawn |= 1u << drawn_bit(j, key);
    }
    return drawn;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    attention_dropout_bits_by_keys(const __grid_constant__ AttentionDropoutBits p) {
    wait_for_earlier_launches();
    if (p.ticket != nullptr && blockIdx.x == 0 && threadIdx.x == 0) *p.ticket = 0;
    const Sizes& sizes = p.sizes;
    BitBlock block =
        BitBlock::of(p, sizes.keys, BIT_QUERIES, [&](i32 first, i32 end) { return query_range(sizes, first, end); });
    u32 lane = threadIdx.x % WARP, key = block.row_group * BIT_ROWS + lane / 8 * 4;
    WeightStream stream = WeightStream::of(p.dropout);
#pragma unroll 1
    for (u32 tile = block.first_tile; tile < block.end_tile; ++tile) {
        u32 query = tile * BIT_QUERIES + lane % 8;
        u64 weight = (u64(block.head) * sizes.queries + query) * sizes.keys + key;
        u32 drawn = sizes.keys % 4 == 0 ? draw_by_keys<true>(stream, weight, sizes.keys)
                                        : draw_by_keys<false>(stream, weight, sizes.keys);
        // Assembles the bits of the lane's row and of the row 8 below. Each row is key row % 4 of
        // the four keys that one lane has drawn.
        u32 row = lane / 4, word = 0;
#pragma unroll
        for (u32 half = 0; half < 2; ++half)
#pragma unroll
            for (u32 e = 0; e < 2; ++e) {
                u32 from = __shfl_sync(ALL_LANES, drawn, (half * 2 + row / 4) * 8 + lane % 4 * 2 + e);
                u32 bits = from << row % 2 >> row % 4 / 2 * 8 & DRAWN_BITS;
                word |= bits << e * 8 >> half;
            }
        p.bits[bit_words_before(p.layout, block.head, block.row_group, tile, 1) + lane] = word;
    }
}
