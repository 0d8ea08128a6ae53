// Draws which weights dropout keeps, by the numbers of dropout.cuh, as the bits of dropout_bits.cuh.
//
//   a warp    16 queries, SPAN key tiles of 128 keys one after another; of each, a lane draws 16 Philox blocks of 4 keys in one row
//
//   lane      0      1      2      3         of each 8 keys; even lanes draw for the row l / 4, odd ones for the row 8 below
//   row l/4   k0-3          k4-7             a lane keeps the bits of two keys of its row, sends those of the other two to the lane beside it, and has two
//   + 8              k0-3          k4-7      bits of the other row from there
//
// Tiles of keys that no query of a work of forward_tma.cu sees are left out.
//
// Launch: attention_dropout_bits<<<heads * row_groups / 4 * ceil(key_tiles / SPAN), 128>>>. It knows BAND alone, which is 1. Limits: the threshold is above 0
// and below 2^24.

#include "attention/dropout_bits.cuh"
#include "attention/mask.cuh"
#include "lib/launch.cuh"
#include "lib/philox.cuh"
#include "ptx/registers.cuh"

constexpr int THREADS = 128;
constexpr int GROUPS = THREADS / WARP;  // row groups of a block
// Key tiles of a block: its start and the steps of the key are then a small share.
constexpr u32 SPAN = 4;

struct AttentionDropoutBits {
    DropoutParams dropout;
    u32* bits;
    BitLayout layout;
    u32 work_queries;  // that see the same steps of keys
    Sizes sizes;
};

// Bits of the keys of a Philox block, which the lane keeps and sends, moved up by one; `place` is where they begin among bytes.
struct DrawnBits {
    u32 first_two, last_two;

    INLINE void add(bool zero, bool one, bool two, bool three, int place) {
        if (zero) first_two |= 1u << place;
        if (one) first_two |= 1u << (place + 8);
        if (two) last_two |= 1u << place;
        if (three) last_two |= 1u << (place + 8);
    }
    INLINE void shift() {
        first_two <<= 1;
        last_two <<= 1;
    }
};

// Draws for weights from number `weight` on, of which this lane has 4 of each 8, for a tile of keys. ALIGNED: all are whole Philox blocks.
template <bool ALIGNED> INLINE DrawnBits draw(u64 seed, u64 first_block, u32 least, u64 weight) {
    DrawnBits drawn = {0, 0};
    u32 skipped = u32(weight) % 4;
    u64 block = first_block + weight / 4;
#pragma unroll 2
    for (int step = 0; step < BIT_KEYS / 16; ++step) {
        drawn.shift();
#pragma unroll
        for (int eight = 0; eight < 2; ++eight, block += 2) {
            Words words = philox(seed, block);
            if (ALIGNED) {
                drawn.add(words.of[0] >= least, words.of[1] >= least, words.of[2] >= least, words.of[3] >= least,
                          eight * 16);
            } else {
                Words next = philox(seed, block + 1);
                u32 kept = 0;
#pragma unroll
                for (int word = 0; word < 4; ++word)
                    kept |= (words.of[word] >= least) << word | (next.of[word] >= least) << (word + 4);
                kept >>= skipped;
                drawn.add(kept & 1, kept >> 1 & 1, kept >> 2 & 1, kept >> 3 & 1, eight * 16);
            }
        }
    }
    return drawn;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    attention_dropout_bits(const __grid_constant__ AttentionDropoutBits p) {
    wait_for_earlier_launches();
    const Sizes& sizes = p.sizes;
    u32 spans = (p.layout.key_tiles + SPAN - 1) / SPAN, blocks = p.layout.row_groups / GROUPS;
    u32 span = blockIdx.x % spans, block = blockIdx.x / spans % blocks;
    u32 head = p.layout.first_head + blockIdx.x / spans / blocks;
    u32 row_group = block * GROUPS + threadIdx.x / WARP, lane = threadIdx.x % WARP;
    i32 work = i32(block * GROUPS * BIT_ROWS / p.work_queries * p.work_queries);
    Range keys = keys_of(sizes, work, min(work + i32(p.work_queries), i32(sizes.queries)));
    // Works that see nothing walk over one tile.
    if (keys.first >= keys.end) keys = Range{0, 1};
    u32 query = row_group * BIT_ROWS + lane % 2 * 8 + lane / 4;
    u64 seed = u64(p.dropout.state[0]), first_block = u64(p.dropout.state[p.dropout.state_stride]) + p.dropout.offset;
    u32 least = p.dropout.threshold << 8;
    u32 end = min(span * SPAN + SPAN, (u32(keys.end) + BIT_KEYS - 1) / BIT_KEYS);
#pragma unroll 1
    for (u32 tile = max(span * SPAN, u32(keys.first) / BIT_KEYS); tile < end; ++tile) {
        u64 weight = (u64(head) * sizes.queries + query) * sizes.keys + tile * BIT_KEYS + lane % 4 / 2 * 4;
        DrawnBits drawn = sizes.keys % 4 == 0 ? draw<true>(seed, first_block, least, weight)
                                              : draw<false>(seed, first_block, least, weight);
        bool odd = lane % 2;
        u32 other = __shfl_xor_sync(ALL_LANES, odd ? drawn.first_two : drawn.last_two, 1);
        uint2 pair = odd ? make_uint2(other, drawn.last_two) : make_uint2(drawn.first_two, other);
        u32* to = p.bits + bit_words_before(p.layout, head, row_group, tile);
        *reinterpret_cast<uint2*>(to + lane * 2) = pair;
    }
}
