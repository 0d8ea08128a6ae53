// Attention as in attention.wgsl, with cooperative matrices of 16 x 16 x 16 (tensor cores), without
// a mask, from the packed f16 of pack_f16.wgsl.
//
//   packed_q [batch, heads, padded_queries, WIDTH]    records [groups of heads, 8]
//   packed_k, packed_v [batch, kv_heads, padded_keys, WIDTH]
//   y [batch, heads, queries, value_dim]    lse [batch, heads, queries]
//   y and lse have any strides; y is written as vec4
//
// A workgroup computes LINES queries of y, and each of its subgroups of 32 threads computes 16 of
// them. It loops twice over the keys to which these queries attend, 32 at a time. The elements of a
// cooperative matrix cannot be accessed individually, so a running maximum could not rescale the
// output. The first loop therefore finds the largest score of each row.
//
//                 keys ->  32   32   32
//   16 queries   +------+------+------+    first    largest = larger of largest, rowmax (q kT)
//   of each      | inner| edge |masked|    second   p = 2^(factor * q kT - factor * largest + 15),
//   subgroup     +------+------+------+                 rounded to f16
//                                                   y += p v,  sum += rowsum p  (of p in f32)
//                                          then     y / sum * 2^-power of v,
//                                                   lse = ln 2 (factor * largest + log2 sum - 15)
//
// Scores are passed from matrices to threads through score_tile, in which two threads share a row.
// Weights are passed back through weight_tile. The f16 operands are as exact as the inputs, and
// products and sums are in f32, so that only the weights lose accuracy. A weight above 2^-29 is
// rounded to 11 bits, a smaller one to a multiple of 2^-39 (or to 0 on an adapter that flushes
// subnormal f16 to 0): |error of y| <= 2^-12 * sum of p |v| + keys * 2^-40 * largest |v| of the
// column.
//
// Compilers keep matrices in registers only in plain code: strides are literal numbers, nothing
// around the matrices is conditional, and all of it is in the entry point, into which the blocks
// (#block) are inlined (#inline). Groups that the records reject are computed by
// attention_vec4.wgsl.

struct Parameters {
    launched: u32,
    queries: u32,
    keys: u32,
    value_dim: u32,
    heads: u32,
    // Number of query heads that share a key head.
    q_heads_per_kv: u32,
    // Workgroups of a head.
    tiles: u32,
    padded_queries: u32,
    padded_keys: u32,
    // A query attends to keys above position - window_left and below position + window_right.
    window_left: i32,
    window_right: i32,
    _padding: u32,
    // First elements of y and lse; then their strides.
    offsets: vec4<u32>,
    y: vec4<u32>,
    lse: vec4<u32>,
}

// [32 keys][WIDTH, padded by 8 so that rows are in different banks].
var<workgroup> key_tile: array<vec4<f16>, TILE_VEC4S>;
var<workgroup> value_tile: array<vec4<f16>, TILE_VEC4S>;
// [LINES][32 keys, padded by 4].
var<workgroup> score_tile: array<vec4<f32>, SCORE_VEC4S>;
// [LINES][32 keys, padded by 8].
var<workgroup> weight_tile: array<vec4<f16>, WEIGHT_VEC4S>;

// The factor that converts each row of the output to y.
var<workgroup> row_factors: array<f32, LINES>;

// A value below any score.
const MASKED_SCORE: f32 = -3e38;

// The keys from `begin`, a multiple of the step, to `end` are unmasked for at least one query of a
// tile; those from `all_begin` to `all_end` are unmasked for all queries. A thread's own row
// attends to the keys above `above` and below `below`.
struct KeyRange {
    begin: u32,
    end: u32,
    all_begin: u32,
    all_end: u32,
    above: i32,
    below: i32,
}

fn key_range(first_query: u32, row: u32) -> KeyRange {
    let shift = i32(params.keys) - i32(params.queries);
    let position = i32(first_query + row) + shift;
    let first_position = i32(first_query) + shift;
    let last_position = first_position + i32(min(LINES, params.queries - first_query)) - 1i;
    return KeyRange(
        u32(clamp(first_position - params.window_left + 1i, 0i, i32(params.keys))) / 32u * 32u,
        u32(clamp(last_position + params.window_right, 0i, i32(params.keys))),
        u32(max(last_position - params.window_left + 1i, 0i)),
        u32(clamp(first_position + params.window_right, 0i, i32(params.keys))),
        position - params.window_left,
        min(position + params.window_right, i32(params.keys)),
    );
}

// Returns the value of the other thread of the row.
fn exchange_with_partner(own: f32, lane: u32) -> f32 {
    workgroupBarrier();
    score_tile[lane].x = own;
    workgroupBarrier();
    let other = score_tile[lane ^ 16u].x;
    workgroupBarrier();
    return other;
}

// Stores the output factor of a row, and its lse, computed from the sum of the row's weights. These
// are 2^(score - base).
fn put_factor_and_lse(head_number: u32, first_query: u32, row: u32, base: f32, sum: f32) {
    let kv_number = head_number / params.q_heads_per_kv;
    let query = first_query + row;
    // A fully masked row has weights of 0.
    let fully_masked = sum == 0.0;
    row_factors[row] = select(power_of_two(-bitcast<i32>(records[8u * kv_number + 4u])) / sum, 0.0, fully_masked);
    if (query < params.queries) {
        let head_lse = params.offsets.y + head_number / params.heads * params.lse.x + head_number % params.heads * params.lse.y;
        let log_sum = (base + 15.0) * 0.693147182 + log_of(select(sum * 3.05175781e-05, 1.0, fully_masked));
        lse_put(head_lse + query * params.lse.z, select(log_sum, lowest(), fully_masked));
    }
}

// ---------------------------------------------------------------- blocks of the entry point

// Loads the matrices of a subgroup's queries.
#block load_queries
#repeat depth DEPTHS
    let query_index_#{depth} = q_index + #{depth*4}u;
    let query_#{depth} = coopLoadT<coop_mat16x16<f16, A>>(&packed_q[query_index_#{depth}], VEC4S);
#end
#end

// Computes the scores of a step from the matrices of keys, and stores them in workgroup memory.
#block scores
#repeat column 2
        var scores_#{column}: coop_mat16x16<f32, SUM>;
#end
#repeat depth DEPTHS
#repeat column 2
        let key_index_#{depth}_#{column} = #{column*16*STRIDE+depth*4}u;
        let key_#{depth}_#{column} = coopLoad<coop_mat16x16<f16, B>>(&key_tile[key_index_#{depth}_#{column}], STRIDE);
        scores_#{column} = coopMultiplyAdd(query_#{depth}, key_#{depth}_#{column}, scores_#{column});
#end
#end
#repeat column 2
        coopStoreT(scores_#{column}, &score_tile[score_index_#{column}], 9u);
#end
#end

// The first loop over the keys: a thread's largest scores.
#block find_largest
    for (var step = range.begin; step < range.end; step += 32u) {
        workgroupBarrier();
#repeat load LOADS
        key_tile[put_#{load}] = next_key_#{load};
#end
        workgroupBarrier();
        let next_index = kv_index + min(step + 32u, last_step) * VEC4S;
#repeat load LOADS
        next_key_#{load} = packed_k_f16(next_index + #{load*THREADS}u);
#end
#inline scores
        workgroupBarrier();
        if (step < range.all_begin || step + 32u > range.all_end) {
            for (var quad = 0u; quad < 4u; quad += 1u) {
                let key = vec4<i32>(i32(step + half * 16u + quad * 4u)) + vec4<i32>(0i, 1i, 2i, 3i);
                let unmasked = (key > vec4<i32>(range.above)) & (key < vec4<i32>(range.below));
                largest_vec4 = max(largest_vec4, select(vec4<f32>(MASKED_SCORE), score_tile[own_scores + quad] * factor, unmasked));
            }
        } else {
#repeat quad 4
            largest_vec4 = max(largest_vec4, score_tile[own_scores + #{quad}u] * factor);
#end
        }
    }
#end

// The second loop: the weights, a thread's sums of them, and their products with the values.
#block add_values
    for (var step = range.begin; step < range.end; step += 32u) {
        workgroupBarrier();
#repeat load LOADS
        key_tile[put_#{load}] = next_key_#{load};
        value_tile[put_#{load}] = next_value_#{load};
#end
        workgroupBarrier();
        let next_index = kv_index + min(step + 32u, last_step) * VEC4S;
#repeat load LOADS
        next_key_#{load} = packed_k_f16(next_index + #{load*THREADS}u);
        next_value_#{load} = packed_v_f16(next_index + #{load*THREADS}u);
#end
#inline scores
        workgroupBarrier();
        if (step < range.all_begin || step + 32u > range.all_end) {
            for (var quad = 0u; quad < 4u; quad += 1u) {
                let key = vec4<i32>(i32(step + half * 16u + quad * 4u)) + vec4<i32>(0i, 1i, 2i, 3i);
                let unmasked = (key > vec4<i32>(range.above)) & (key < vec4<i32>(range.below));
                let weights = select(vec4<f32>(), vec4_powers_of_two(score_tile[own_scores + quad] * factor - base), unmasked);
                sum_vec4 += weights;
                weight_tile[own_weights + quad] = vec4<f16>(weights);
            }
        } else {
#repeat quad 4
            let weights_#{quad} = vec4_powers_of_two(score_tile[own_scores + #{quad}u] * factor - base);
            sum_vec4 += weights_#{quad};
            weight_tile[own_weights + #{quad}u] = vec4<f16>(weights_#{quad});
#end
        }
        workgroupBarrier();
#repeat inner 2
        let weight_#{inner} = coopLoadT<coop_mat16x16<f16, A>>(&weight_tile[weight_index_#{inner}], 10u);
#repeat depth DEPTHS
        let value_index_#{inner}_#{depth} = #{inner*16*STRIDE+depth*4}u;
        let value_#{inner}_#{depth} = coopLoadT<coop_mat16x16<f16, B>>(&value_tile[value_index_#{inner}_#{depth}], STRIDE);
        output_#{depth} = coopMultiplyAdd(weight_#{inner}, value_#{inner}_#{depth}, output_#{depth});
#end
#end
    }
#end

// Writes the output in blocks of 32 columns: 8 threads write the vec4 of a row.
#block put_output
    let head_index = (params.offsets.x + head_number / params.heads * params.y.x + head_number % params.heads * params.y.y) / 4u;
    let column = lane % 8u;
#repeat part DEPTHS/2
    workgroupBarrier();
#repeat column 2
    coopStoreT(output_#{part*2+column}, &score_tile[score_index_#{column}], 9u);
#end
    workgroupBarrier();
    for (var iteration = 0u; iteration < 4u; iteration += 1u) {
        let line = own_line + iteration * 4u + lane % 32u / 8u;
        if (first_query + line < params.queries && column + #{part*8}u < params.value_dim / 4u) {
            let element_index = head_index + (first_query + line) * (params.y.z / 4u) + column + #{part*8}u;
            y_put_vec4(element_index, score_tile[line * 9u + column] * row_factors[line]);
        }
    }
#end
#end

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    // This index, like the indices of the records, is computed without a function call: a compiler
    // that checks whether all threads reach a matrix operation does not analyze functions.
    let number = group.y * groups.x + group.x;
    if (number >= params.launched) {
        return;
    }
    let head_number = number / params.tiles;
    let kv_number = head_number / params.q_heads_per_kv;
    if (records[8u * kv_number] == 0u) {
        return;
    }
    let factor = bitcast<f32>(records[8u * kv_number + 1u]);
    // The last queries come first: with a causal mask they have the most work.
    let first_query = (params.tiles - 1u - number % params.tiles) * LINES;
    let own_line = lane / 32u * 16u;
    let row = own_line + lane % 16u;
    let half = lane % 32u / 16u;
    let range = key_range(first_query, row);
    let last_step = params.padded_keys - 32u;
    let kv_index = kv_number * params.padded_keys * VEC4S + lane;
    let q_index = (head_number * params.padded_queries + first_query + own_line) * VEC4S;
#inline load_queries
    let first_index = kv_index + min(range.begin, last_step) * VEC4S;
#repeat load LOADS
    let put_#{load} = (lane + #{load*THREADS}u) / VEC4S * STRIDE + (lane + #{load*THREADS}u) % VEC4S;
    var next_key_#{load} = packed_k_f16(first_index + #{load*THREADS}u);
#end
#repeat column 2
    let score_index_#{column} = own_line * 9u + #{column*4}u;
    let weight_index_#{column} = own_line * 10u + #{column*4}u;
#end
    let own_scores = row * 9u + half * 4u;
    let own_weights = row * 10u + half * 4u;
    var largest_vec4 = vec4<f32>(MASKED_SCORE);
#inline find_largest
    // The maximum over both threads of a row.
    var largest = max(max(largest_vec4.x, largest_vec4.y), max(largest_vec4.z, largest_vec4.w));
    largest = max(largest, exchange_with_partner(largest, lane));
    let base = select(largest, 0.0, largest <= MASKED_SCORE) - 15.0;
    var sum_vec4 = vec4<f32>();
#repeat depth DEPTHS
    var output_#{depth}: coop_mat16x16<f32, SUM>;
#end
#repeat load LOADS
    next_key_#{load} = packed_k_f16(first_index + #{load*THREADS}u);
    var next_value_#{load} = packed_v_f16(first_index + #{load*THREADS}u);
#end
#inline add_values
    var sum = (sum_vec4.x + sum_vec4.y) + (sum_vec4.z + sum_vec4.w);
    sum += exchange_with_partner(sum, lane);
    if (half == 0u) {
        put_factor_and_lse(head_number, first_query, row, base, sum);
    }
#inline put_output
}
