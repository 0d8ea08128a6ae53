// Gradients of attention as in grad.wgsl, with cooperative matrices of 16 x 16 x 16 (tensor cores),
// without a mask, from the packed f16 of pack_f16.wgsl and the lse_and_delta of grad_rows.wgsl.
//
//   packed_q, packed_dy [batch, heads, padded_queries, WIDTH]
//   packed_k, packed_v [batch, kv_heads, padded_keys, WIDTH]    records [groups of heads, 8]
//   lse_and_delta [batch, heads, queries, 2]
//   out, other          as dq, or dk and dv; any other strides, written as vec4
//
// A workgroup computes LINES rows of its outputs, and each of its subgroups of 32 threads computes
// 16 of them. It loops over all inner rows that attend to these rows or to which these rows attend,
// 32 at a time:
//
//                          BY_KEYS                               otherwise
//   rows, inner rows       keys; queries of all heads that       queries; keys
//                          share the key head
//   p    [16, 32]          2^(factor * k qT - log2 e * lse)      2^(factor * q kT - log2 e * lse)
//                          WEIGHTS: dv (other) += p dy
//   ds   [16, 32]          p * (v dyT - delta)                   p * (dy vT - delta)
//                          SCORE_GRADS: dk (out) += ds q         SCORE_GRADS: dq (out) += ds k
//
// One launch computes both dk and dv if their outputs fit in registers, that is, up to a WIDTH of
// 64.
//
// p is stored as f16 times 2^15, and ds times 2^(powers of v and dy - 25), which cannot overflow:
// |v dyT - delta| <= 2 * 128 * 2^16 * 2^16 in units of packed f16. Both are rounded to 11 bits or,
// if they are small, to a multiple of 2^-39 of their largest possible value. An adapter that
// flushes subnormal f16 to 0 loses what is below 2^-29 of that value. Products and sums are in f32.
// Compilers keep matrices in registers only in plain code in the entry point, as described in
// cooperative.wgsl: the blocks are defined here and inlined there. Groups that the records reject
// are computed by grad_vec4.wgsl.

struct Parameters {
    launched: u32,
    queries: u32,
    keys: u32,
    head_dim: u32,
    value_dim: u32,
    // Heads of the output.
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
    scale: f32,
    _padding_0: u32,
    _padding_1: u32,
    _padding_2: u32,
    // First elements of out and other; then their strides.
    offsets: vec4<u32>,
    out: vec4<u32>,
    other: vec4<u32>,
}

// [32 inner rows][WIDTH, padded by 8 so that rows are in different banks]: the operand of scores,
// and the operand of gradients (dy if there are only weights).
var<workgroup> right_tile: array<vec4<f16>, TILE_VEC4S>;
var<workgroup> grad_right_tile: array<vec4<f16>, TILE_VEC4S>;
// [LINES][32 inner rows, padded by 4].
var<workgroup> score_tile: array<vec4<f32>, SCORE_VEC4S>;
#repeat grads SCORE_GRADS
var<workgroup> grad_tile: array<vec4<f32>, SCORE_VEC4S>;
// [LINES][32 inner rows, padded by 8].
var<workgroup> score_grad_tile: array<vec4<f16>, WEIGHT_VEC4S>;
#end
#repeat weights WEIGHTS
var<workgroup> weight_tile: array<vec4<f16>, WEIGHT_VEC4S>;
#end
#repeat by_keys BY_KEYS
// log2 e * lse and delta of 32 queries.
var<workgroup> query_lse_delta: array<vec2<f32>, 32>;
#end

// Returns log2 e * lse of a query, and its delta in units of score_grad_tile.
fn lse_and_delta_of(head_number: u32, query: u32, power: i32) -> vec2<f32> {
    let element_index = 2u * (head_number * params.queries + min(query, params.queries - 1u));
    let delta = times_power_of_two(lse_and_delta_at(element_index + 1u), power) * GRAD_UNIT;
    return vec2<f32>(lse_and_delta_at(element_index) * 1.44269502, delta);
}

// 2^-25: one unit of score_grad_tile.
const GRAD_UNIT: f32 = 2.98023224e-08;

// Returns the weights 2^exponent of four exponents log2 e * (score - lse). Rounding may make an
// exponent positive, so weights are clamped to at most 1.
fn vec4_weights_of(exponents: vec4<f32>) -> vec4<f32> {
    return vec4_powers_of_two(min(exponents, vec4<f32>()));
}

// The number of rows of the outputs, and the number of inner rows of a head.
fn count_of_lines() -> u32 {
    return params.queries * BY_QUERIES + params.keys * BY_KEYS;
}

fn count_of_inner() -> u32 {
    return params.keys * BY_QUERIES + params.queries * BY_KEYS;
}

// The inner rows from `begin`, a multiple of the step, to `end` are unmasked for at least one row
// of a tile; those from `all_begin` to `all_end` are unmasked for all rows. For a thread's own row,
// the inner rows above `above` and below `below` are unmasked.
struct InnerRange {
    begin: u32,
    end: u32,
    all_begin: u32,
    all_end: u32,
    above: i32,
    below: i32,
}

fn inner_range(first_line: u32, row: u32) -> InnerRange {
    // Positions of rows among the inner rows, and the bounds of the window in both directions.
    let count = i32(count_of_inner());
    let shift = count - i32(count_of_lines());
    let down = select(params.window_left, params.window_right, BY_KEYS == 1u);
    let up = select(params.window_right, params.window_left, BY_KEYS == 1u);
    let position = i32(first_line + row) + shift;
    let first_position = i32(first_line) + shift;
    let last_position = first_position + i32(min(LINES, count_of_lines() - first_line)) - 1i;
    return InnerRange(
        u32(clamp(first_position - down + 1i, 0i, count)) / 32u * 32u,
        u32(clamp(last_position + up, 0i, count)),
        u32(max(last_position - down + 1i, 0i)),
        u32(clamp(first_position + up, 0i, count)),
        position - down,
        min(position + up, count),
    );
}

// ---------------------------------------------------------------- blocks of the entry point

// Loads the matrices of a subgroup's rows.
#block load_left
#repeat depth DEPTHS
    let left_index_#{depth} = left_index + #{depth*4}u;
    let left_#{depth} = coopLoadT<coop_mat16x16<f16, A>>(&LEFT[left_index_#{depth}], VEC4S);
#repeat grads SCORE_GRADS
    let grad_left_#{depth} = coopLoadT<coop_mat16x16<f16, A>>(&GRAD_LEFT[left_index_#{depth}], VEC4S);
#end
#end
#end

// Declares the accumulators of a subgroup's outputs.
#block begin_sums
#repeat depth DEPTHS
#repeat grads SCORE_GRADS
    var out_#{depth}: coop_mat16x16<f32, SUM>;
#end
#repeat weights WEIGHTS
    var other_#{depth}: coop_mat16x16<f32, SUM>;
#end
#end
#end

// Stores the operands of a step, which were read ahead, in workgroup memory, computes the position
// of the step, and reads the operands of the next one.
#block read_step
        workgroupBarrier();
#repeat load LOADS
        right_tile[put_#{load}] = read_right_#{load};
        grad_right_tile[put_#{load}] = read_grad_right_#{load};
#end
#repeat by_keys BY_KEYS
        if (lane < 32u) {
            query_lse_delta[lane] = read_lse_delta;
        }
#end
        workgroupBarrier();
        let inner = step + half * 16u;
        let is_edge = step < range.all_begin || step + 32u > range.all_end;
        let is_last = step + 32u >= range.end;
        step = select(step + 32u, range.begin, is_last);
        member = min(member + u32(is_last), members - 1u);
        let next_index = ((first_inner_head + member) * padded_inner + step) * VEC4S + lane;
#repeat load LOADS
        read_right_#{load} = RIGHT_F16(next_index + #{load*THREADS}u);
        read_grad_right_#{load} = GRAD_RIGHT_F16(next_index + #{load*THREADS}u);
#end
#repeat by_keys BY_KEYS
        read_lse_delta = lse_and_delta_of(first_inner_head + member, step + lane % 32u, grad_power);
#end
#end

// Computes the scores of a step, and the gradients of weights, from the matrices of inner rows, and
// stores them in workgroup memory.
#block scores
#repeat column 2
        var scores_#{column}: coop_mat16x16<f32, SUM>;
#end
#repeat depth DEPTHS
#repeat column 2
        let right_index_#{depth}_#{column} = #{column*16*STRIDE+depth*4}u;
        let right_#{depth}_#{column} = coopLoad<coop_mat16x16<f16, B>>(&right_tile[right_index_#{depth}_#{column}], STRIDE);
        scores_#{column} = coopMultiplyAdd(left_#{depth}, right_#{depth}_#{column}, scores_#{column});
#end
#end
#repeat column 2
        coopStoreT(scores_#{column}, &score_tile[score_index_#{column}], 9u);
#end
#repeat grads SCORE_GRADS
#repeat column 2
        var grads_#{column}: coop_mat16x16<f32, SUM>;
#end
#repeat depth DEPTHS
#repeat column 2
        let grad_right_#{depth}_#{column} = coopLoad<coop_mat16x16<f16, B>>(&grad_right_tile[right_index_#{depth}_#{column}], STRIDE);
        grads_#{column} = coopMultiplyAdd(grad_left_#{depth}, grad_right_#{depth}_#{column}, grads_#{column});
#end
#end
#repeat column 2
        coopStoreT(grads_#{column}, &grad_tile[score_index_#{column}], 9u);
#end
#end
#end

// Computes weights and gradients of scores for a thread's part of a step.
#block put_weights
        if (is_edge) {
            for (var quad = 0u; quad < 4u; quad += 1u) {
#repeat by_keys BY_KEYS
                let first = half * 16u + quad * 4u;
                let near = vec4<f32>(query_lse_delta[first], query_lse_delta[first + 1u]);
                let far = vec4<f32>(query_lse_delta[first + 2u], query_lse_delta[first + 3u]);
                let log_sums = vec4<f32>(near.xz, far.xz);
                let deltas = vec4<f32>(near.yw, far.yw);
#end
#repeat by_queries BY_QUERIES
                let log_sums = own_lse_delta.x;
                let deltas = own_lse_delta.y;
#end
                let element_index = vec4<i32>(i32(inner + quad * 4u)) + vec4<i32>(0i, 1i, 2i, 3i);
                let unmasked = (element_index > vec4<i32>(range.above)) & (element_index < vec4<i32>(range.below));
                let weights = select(vec4<f32>(), vec4_weights_of(score_tile[own_scores + quad] * factor - log_sums), unmasked);
#repeat weights WEIGHTS
                weight_tile[own_weights + quad] = vec4<f16>(weights * 32768.0);
#end
#repeat grads SCORE_GRADS
                score_grad_tile[own_weights + quad] = vec4<f16>(weights * (grad_tile[own_scores + quad] * GRAD_UNIT - deltas));
#end
            }
        } else {
#repeat quad 4
            {
#repeat by_keys BY_KEYS
                let near = vec4<f32>(query_lse_delta[half * 16u + #{quad*4}u], query_lse_delta[half * 16u + #{quad*4+1}u]);
                let far = vec4<f32>(query_lse_delta[half * 16u + #{quad*4+2}u], query_lse_delta[half * 16u + #{quad*4+3}u]);
                let log_sums = vec4<f32>(near.xz, far.xz);
                let deltas = vec4<f32>(near.yw, far.yw);
#end
#repeat by_queries BY_QUERIES
                let log_sums = own_lse_delta.x;
                let deltas = own_lse_delta.y;
#end
                let weights = vec4_weights_of(score_tile[own_scores + #{quad}u] * factor - log_sums);
#repeat weights WEIGHTS
                weight_tile[own_weights + #{quad}u] = vec4<f16>(weights * 32768.0);
#end
#repeat grads SCORE_GRADS
                score_grad_tile[own_weights + #{quad}u] = vec4<f16>(weights * (grad_tile[own_scores + #{quad}u] * GRAD_UNIT - deltas));
#end
            }
#end
        }
#end

// Adds the products of weights and gradients of scores with the inner rows.
#block add_products
#repeat half_step 2
#repeat weights WEIGHTS
        let weight_#{half_step} = coopLoadT<coop_mat16x16<f16, A>>(&weight_tile[weight_index_#{half_step}], 10u);
#end
#repeat grads SCORE_GRADS
        let score_grad_#{half_step} = coopLoadT<coop_mat16x16<f16, A>>(&score_grad_tile[weight_index_#{half_step}], 10u);
#end
#repeat depth DEPTHS
        let matrix_index_#{half_step}_#{depth} = #{half_step*16*STRIDE+depth*4}u;
#repeat weights WEIGHTS
        let other_matrix_#{half_step}_#{depth} = coopLoadT<coop_mat16x16<f16, B>>(&grad_right_tile[matrix_index_#{half_step}_#{depth}], STRIDE);
        other_#{depth} = coopMultiplyAdd(weight_#{half_step}, other_matrix_#{half_step}_#{depth}, other_#{depth});
#end
#repeat grads SCORE_GRADS
        let out_matrix_#{half_step}_#{depth} = coopLoadT<coop_mat16x16<f16, B>>(&right_tile[matrix_index_#{half_step}_#{depth}], STRIDE);
        out_#{depth} = coopMultiplyAdd(score_grad_#{half_step}, out_matrix_#{half_step}_#{depth}, out_#{depth});
#end
#end
#end
#end

// Writes an output in blocks of 32 columns: 8 threads write the vec4 of a row.
#block put_out
#repeat grads SCORE_GRADS
    let out_head = (params.offsets.x + batch * params.out.x + head * params.out.y) / 4u;
    let out_power = 25i - grad_power - bitcast<i32>(records[8u * kv_number + 2u + BY_QUERIES]);
#repeat part DEPTHS/2
    workgroupBarrier();
#repeat column 2
    coopStoreT(out_#{part*2+column}, &score_tile[score_index_#{column}], 9u);
#end
    workgroupBarrier();
    for (var iteration = 0u; iteration < 4u; iteration += 1u) {
        let line = own_line + iteration * 4u + lane % 32u / 8u;
        if (first_line + line < count_of_lines() && column + #{part*8}u < params.head_dim / 4u) {
            let element_index = out_head + (first_line + line) * (params.out.z / 4u) + column + #{part*8}u;
            out_put_vec4(element_index, vec4_times_power_of_two(score_tile[line * 9u + column] * params.scale, out_power));
        }
    }
#end
#end
#end

#block put_other
#repeat weights WEIGHTS
    let other_head = (params.offsets.y + batch * params.other.x + head * params.other.y) / 4u;
    let other_power = -15i - bitcast<i32>(records[8u * kv_number + 5u]);
#repeat part DEPTHS/2
    workgroupBarrier();
#repeat column 2
    coopStoreT(other_#{part*2+column}, &score_tile[score_index_#{column}], 9u);
#end
    workgroupBarrier();
    for (var iteration = 0u; iteration < 4u; iteration += 1u) {
        let line = own_line + iteration * 4u + lane % 32u / 8u;
        if (first_line + line < count_of_lines() && column + #{part*8}u < params.value_dim / 4u) {
            let element_index = other_head + (first_line + line) * (params.other.z / 4u) + column + #{part*8}u;
            other_put_vec4(element_index, vec4_times_power_of_two(score_tile[line * 9u + column], other_power));
        }
    }
#end
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
    let kv_number = head_number / (params.q_heads_per_kv * BY_QUERIES + BY_KEYS);
    if (records[8u * kv_number] == 0u) {
        return;
    }
    let factor = bitcast<f32>(records[8u * kv_number + 1u]);
    let grad_power = bitcast<i32>(records[8u * kv_number + 4u]) + bitcast<i32>(records[8u * kv_number + 5u]);
    // The rows with the most work under a causal mask come first: the first keys, the last queries.
    let tile = number % params.tiles;
    let first_line = select(params.tiles - 1u - tile, tile, BY_KEYS == 1u) * LINES;
    let own_line = lane / 32u * 16u;
    let row = own_line + lane % 16u;
    let half = lane % 32u / 16u;
    let range = inner_range(first_line, row);
    // Inner rows are stored head by head.
    let padded_lines = params.padded_queries * BY_QUERIES + params.padded_keys * BY_KEYS;
    let padded_inner = params.padded_keys * BY_QUERIES + params.padded_queries * BY_KEYS;
    let members = params.q_heads_per_kv * BY_KEYS + BY_QUERIES;
    let first_inner_head = kv_number * members;
    let steps = select(0u, (range.end - range.begin + 31u) / 32u, range.begin < range.end) * members;
    let left_index = (head_number * padded_lines + first_line + own_line) * VEC4S;
#inline load_left
    var member = 0u;
    var step = range.begin;
    let first_index = (first_inner_head * padded_inner + min(range.begin, padded_inner - 32u)) * VEC4S + lane;
#repeat load LOADS
    let put_#{load} = (lane + #{load*THREADS}u) / VEC4S * STRIDE + (lane + #{load*THREADS}u) % VEC4S;
    var read_right_#{load} = RIGHT_F16(first_index + #{load*THREADS}u);
    var read_grad_right_#{load} = GRAD_RIGHT_F16(first_index + #{load*THREADS}u);
#end
#repeat by_keys BY_KEYS
    var read_lse_delta = lse_and_delta_of(first_inner_head, range.begin + lane % 32u, grad_power);
#end
#repeat by_queries BY_QUERIES
    let own_lse_delta = lse_and_delta_of(head_number, first_line + row, grad_power);
#end
#repeat column 2
    let score_index_#{column} = own_line * 9u + #{column*4}u;
    let weight_index_#{column} = own_line * 10u + #{column*4}u;
#end
    let own_scores = row * 9u + half * 4u;
    let own_weights = row * 10u + half * 4u;
#inline begin_sums
    for (var done = 0u; done < steps; done += 1u) {
#inline read_step
#inline scores
        workgroupBarrier();
#inline put_weights
        workgroupBarrier();
#inline add_products
    }
    let batch = head_number / params.heads;
    let head = head_number % params.heads;
    let column = lane % 8u;
#inline put_out
#inline put_other
}
