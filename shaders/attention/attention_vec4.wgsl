// Attention as in attention.wgsl, for head_dim and value_dim up to 128, multiples of 4, and tensors
// whose rows can be read as vec4.
//
//   q [batch, heads, queries, head_dim]     k [batch, kv_heads, keys, head_dim]
//   v [batch, kv_heads, keys, value_dim]    y [batch, heads, queries, value_dim]
//   lse, lse_error [batch, heads, queries]  mask [batch, heads, queries, keys]   any other strides
//
// A workgroup computes 64 rows (queries) of y, in all columns. It loops over the keys to which
// these queries attend, 64 at a time, with the tiles of tile_vec4.wgsl:
//
//                keys ->   k0        k1        k2        s   = scale q kT (+ mask)       [64, 64]
//            +---------+---------+---------+             max = larger of max, rowmax s
//   queries  |  inner  |  edge   | masked  |             p   = exp(s - max)
//      |     +---------+---------+---------+             sum = sum * exp(old max - max) + rowsum p
//      v     |  inner  |  inner  |  edge   |             y   = y * exp(old max - max) + p v
//            +---------+---------+---------+             then y / sum, and max + log sum
//
// Without a mask, only steps on an edge test positions. With head_dim = value_dim = 128, a step
// costs each thread 8192 multiply-adds, 640 vec4 reads from workgroup memory, 19 barriers and 32
// exponentials. A fully masked query has y = 0 and lse = -infinity. lse_error is the rounding error
// of lse; it is an output only with an additive mask. LEFTOVER 1: the launch computes only the
// groups of heads that the records of pack_f16.wgsl reject.

struct Parameters {
    launched: u32,
    queries: u32,
    keys: u32,
    head_dim: u32,
    value_dim: u32,
    heads: u32,
    // Number of query heads that share a key head.
    q_heads_per_kv: u32,
    // Unused (1), and the number of workgroups along the queries.
    chunks: u32,
    tiles: u32,
    scale: f32,
    // A query attends to keys above position - window_left and below position + window_right.
    window_left: i32,
    window_right: i32,
    // First elements of q, k, v, y; of lse, mask, lse_error. lse_error has the strides of lse.
    offsets: vec4<u32>,
    more_offsets: vec4<u32>,
    // Strides.
    q: vec4<u32>,
    k: vec4<u32>,
    v: vec4<u32>,
    y: vec4<u32>,
    lse: vec4<u32>,
    mask: vec4<u32>,
}

// First elements of this workgroup's heads.
var<private> q_head: u32;
var<private> k_head: u32;
var<private> v_head: u32;
var<private> mask_head: u32;

fn choose_heads(batch: u32, head: u32) {
    let kv_head = head / params.q_heads_per_kv;
    q_head = params.offsets.x + batch * params.q.x + head * params.q.y;
    k_head = params.offsets.y + batch * params.k.x + kv_head * params.k.y;
    v_head = params.offsets.z + batch * params.v.x + kv_head * params.v.y;
    mask_head = params.more_offsets.y + batch * params.mask.x + head * params.mask.y;
}

// The operands of tile_vec4.wgsl. `which` is always 0: there is one tile of scores and one matrix.
fn query_row(which: u32, query: u32) -> u32 {
    return (q_head + min(query, params.queries - 1u) * params.q.z) / 4u;
}

fn query_words(which: u32, element_index: u32) -> q_WORDS {
    return q_words(element_index);
}

fn key_row(which: u32, key: u32) -> u32 {
    return (k_head + min(key, params.keys - 1u) * params.k.z) / 4u;
}

fn key_words(which: u32, element_index: u32) -> q_WORDS {
    return k_words(element_index);
}

fn value_index(which: u32, key: u32, column: u32) -> u32 {
    return (v_head + min(key, params.keys - 1u) * params.v.z) / 4u + min(column, params.value_dim / 4u - 1u);
}

fn value_words(which: u32, element_index: u32) -> q_WORDS {
    return v_words(element_index);
}

// A thread's 8 rows: the near 4 and the far 4.
struct Rows {
    near: vec4<f32>,
    far: vec4<f32>,
}

// For a thread's rows: the largest score, and the sum of the weights of this thread's keys.
var<private> row_max: Rows;
var<private> row_sum: Rows;

// The start of the memory in which values of rows are combined: [16 threads across][64 queries,
// padded by 4], after the operands; then [2][64 queries], after the matrix.
const ACROSS_AT: u32 = 1312u;
const PARTIAL_AT: u32 = 1600u;

// Returns the largest score of each row over all threads. 128 threads process 64 rows: each
// combines the values of half of the threads across a row. No thread may still use this memory.
fn largest_of_rows(own: Rows, lane: u32) -> Rows {
    let lines = tile_line(lane);
    let index = ACROSS_AT + tile_across(lane) * 17u + lines;
    tile_memory[index] = own.near;
    tile_memory[index + 8u] = own.far;
    workgroupBarrier();
    let row = lane % 64u;
    let first = ACROSS_AT + lane / 64u * 136u + row / 4u;
    var largest = tile_memory[first][row % 4u];
#repeat other 7
    largest = max(largest, tile_memory[first + #{other*17+17}u][row % 4u]);
#end
    tile_memory[PARTIAL_AT + lane / 4u][lane % 4u] = largest;
    workgroupBarrier();
    let near = max(tile_memory[PARTIAL_AT + lines], tile_memory[PARTIAL_AT + lines + 16u]);
    let far = max(tile_memory[PARTIAL_AT + lines + 8u], tile_memory[PARTIAL_AT + lines + 24u]);
    return Rows(near, far);
}

// Returns the sum of each row over all threads. This is the last use of the memory in a workgroup.
fn sums_of_rows(own: Rows, lane: u32) -> Rows {
    let lines = ACROSS_AT + tile_line(lane);
    let index = lines + tile_across(lane) * 17u;
    workgroupBarrier();
    tile_memory[index] = own.near;
    tile_memory[index + 8u] = own.far;
    workgroupBarrier();
    var sums = Rows();
    for (var other = 0u; other < 16u; other += 1u) {
        sums.near += tile_memory[lines + other * 17u];
        sums.far += tile_memory[lines + other * 17u + 8u];
    }
    return sums;
}

// Multiplies the output by a factor for each of a thread's near and far rows.
fn rescale_output(near: vec4<f32>, far: vec4<f32>) {
#repeat i 4
    out_0_near_#{i} *= near[#{i}];
    out_0_far_#{i} *= near[#{i}];
    out_0_near_#{i+4} *= far[#{i}];
    out_0_far_#{i+4} *= far[#{i}];
#end
}

// The keys from `begin` to `end` are unmasked for at least one query of a tile; those from
// `all_begin` to `all_end` are unmasked for all queries.
struct KeyRange {
    begin: u32,
    end: u32,
    all_begin: u32,
    all_end: u32,
}

fn key_range(first_query: u32) -> KeyRange {
    let position = i32(first_query) + i32(params.keys) - i32(params.queries);
    let last = position + i32(min(63u, params.queries - 1u - first_query));
    return KeyRange(
        u32(max(position - params.window_left + 1i, 0i)),
        u32(clamp(last + params.window_right, 0i, i32(params.keys))),
        u32(max(last - params.window_left + 1i, 0i)),
        u32(clamp(position + params.window_right, 0i, i32(params.keys))),
    );
}

// Returns the scores of products in a step on an edge, where some keys may be masked. The code is
// long, so it exists only once for all vec4. The scores pass through the memory of the weights,
// which other threads may still read as operands.
fn scores_on_edge(products: TileScores, first_query: u32, step: u32, lane: u32) -> TileScores {
    let query = first_query + tile_line(lane) * 4u;
    workgroupBarrier();
    put_tile(products, lane);
    for (var own = 0u; own < 8u; own += 1u) {
        let element_index = own_index(own, lane);
        let key = step + tile_across(lane) + own / 2u * 16u;
        tile_memory[element_index] = mask_queries(tile_memory[element_index], query + own % 2u * 32u, key, mask_head);
    }
    return own_part(lane);
}

// Returns the weights of scores. If a larger score appeared, the previous sums and outputs are
// rescaled.
fn weights_of_scores(scores: TileScores, lane: u32) -> TileScores {
    let own = Rows(
        max(max(scores.near_0, scores.near_1), max(scores.near_2, scores.near_3)),
        max(max(scores.far_0, scores.far_1), max(scores.far_2, scores.far_3)),
    );
    let step_max = largest_of_rows(own, lane);
    let new_max = Rows(max(row_max.near, step_max.near), max(row_max.far, step_max.far));
    let base = Rows(bases_of(new_max.near), bases_of(new_max.far));
    if (any(new_max.near != row_max.near) || any(new_max.far != row_max.far)) {
        let near = vec4_exponentials(row_max.near - base.near);
        let far = vec4_exponentials(row_max.far - base.far);
        row_sum.near *= near;
        row_sum.far *= far;
        rescale_output(near, far);
        row_max = new_max;
    }
    var weights: TileScores;
#repeat inner 4
    weights.near_#{inner} = vec4_exponentials(scores.near_#{inner} - base.near);
    weights.far_#{inner} = vec4_exponentials(scores.far_#{inner} - base.far);
#end
    row_sum.near += (weights.near_0 + weights.near_1) + (weights.near_2 + weights.near_3);
    row_sum.far += (weights.far_0 + weights.far_1) + (weights.far_2 + weights.far_3);
    return weights;
}

// Adds the contribution of the keys of `range`, 64 per step.
fn add_keys(first_query: u32, range: KeyRange, lane: u32) {
    if (range.begin < range.end) {
        prefetch_scores(0u, first_query, range.begin, params.head_dim, lane);
    }
    for (var step = range.begin; step < range.end; step += 64u) {
        workgroupBarrier();
        var scores = tile_of_scores(0u, params.head_dim, lane);
        read_matrix(0u, step, lane);
        if (HAS_MASK || step < range.all_begin || step + 64u > range.all_end) {
            scores = scores_on_edge(scores, first_query, step, lane);
        } else {
            scores = scaled_tile(scores);
        }
        put_tile(weights_of_scores(scores, lane), lane);
        // These reads overlap with the computation of the product.
        if (step + 64u < range.end) {
            prefetch_scores(0u, first_query, step + 64u, params.head_dim, lane);
        }
        add_tile_product_0(0u, step, lane);
    }
}

// Without an additive mask, the error is not an output.
fn skip_lse_error(index: u32, error: f32) {}

// Stores a thread's part of y, and of lse if the thread has the first columns. `head_y` is the
// first element of the head in y; `in_head` is the offset of the head in lse.
fn put_results(sums: Rows, first_query: u32, head_y: u32, in_head: u32, lane: u32) {
    let across = tile_across(lane);
    for (var row = 0u; row < 8u; row += 1u) {
        let line = first_query + row_offset(row, lane);
        if (line >= params.queries) {
            continue;
        }
        let sum = select(sums.near, sums.far, row >= 4u)[row % 4u];
        let fully_masked = sum == 0.0 && !is_nan(sum);
        let factor = 1.0 / sum;
        let element_index = (head_y + line * params.y.z) / 4u;
        if (across * 4u < params.value_dim) {
            y_put_vec4(element_index + across, select(out_row_0(row, false) * factor, vec4<f32>(), fully_masked));
        }
        if (WIDE && across * 4u + 64u < params.value_dim) {
            y_put_vec4(element_index + across + 16u, select(out_row_0(row, true) * factor, vec4<f32>(), fully_masked));
        }
        if (across == 0u) {
            // If NaN kept the maximum at -infinity, the weights were computed with base 0.
            let base = bases_of(select(row_max.near, row_max.far, row >= 4u))[row % 4u];
            let log_sum = base + log_of(sum);
            lse_put(params.more_offsets.x + in_head + line * params.lse.z, select(log_sum, lowest(), fully_masked));
            let error = (base - opaque(log_sum)) + log_of(sum);
            STORE_LSE_ERROR(params.more_offsets.z + in_head + line * params.lse.z, select(error, 0.0, fully_masked));
        }
    }
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let number = workgroup_index(group, groups);
    if (number >= params.launched) {
        return;
    }
    // The last queries come first: with a causal mask they have the most work.
    let first_query = (params.tiles - 1u - number % params.tiles) * 64u;
    let head_number = number / params.tiles;
    let head = head_number % params.heads;
    let batch = head_number / params.heads;
#repeat leftover LEFTOVER
    if (records_bits(8u * (head_number / params.q_heads_per_kv)) != 0u) {
        return;
    }
#end
    choose_heads(batch, head);
    row_max = Rows(vec4<f32>(lowest()), vec4<f32>(lowest()));
    add_keys(first_query, key_range(first_query), lane);
    let head_y = params.offsets.w + batch * params.y.x + head * params.y.y;
    let in_head = batch * params.lse.x + head * params.lse.y;
    put_results(sums_of_rows(row_sum, lane), first_query, head_y, in_head, lane);
}
