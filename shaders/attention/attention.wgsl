// Attention with online softmax (Dao et al. 2022, algorithm 1): y = softmax(scale * q kT + mask) v,
// and the log-sum-exp of the scores.
//
//   q [batch, heads, queries, head_dim]     k [batch, kv_heads, keys, head_dim]
//   v [batch, kv_heads, keys, value_dim]    y [batch, heads, queries, value_dim]
//   lse, lse_error [batch, heads, queries]  mask [batch, heads, queries, keys]      any strides
//
// A workgroup computes 64 rows (queries) by 64 columns of y. It loops over the keys to which these
// queries attend, 32 at a time:
//
//                keys ->   k0        k1             s   = scale q kT (+ mask)            [64, 32]
//            +---------+---------+---------+        max = larger of max, rowmax s
//   queries  |  used   |  used   | masked  |        p   = exp(s - max)
//      |     +---------+---------+---------+        sum = sum * exp(old max - max) + rowsum p
//      v     |  used   |  used   |  used   |        y   = y * exp(old max - max) + p v
//            +---------+---------+---------+        then y / sum, and max + log sum
//
// Values wider than 64 columns need several workgroups, each of which recomputes the scores. A
// fully masked query has y = 0 and lse = -infinity. lse_error is the rounding error of lse; it is
// an output only with an additive mask.
//
// This shader is for tensors that attention_vec4.wgsl does not support: wider than 128, or with
// rows that cannot be read as vec4.

struct Parameters {
    launched: u32,
    queries: u32,
    keys: u32,
    head_dim: u32,
    value_dim: u32,
    heads: u32,
    // Number of query heads that share a key head.
    q_heads_per_kv: u32,
    // Workgroups across the columns of y, and along its queries.
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

// For a thread's 4 rows: the largest score, and the sum of the weights of this thread's keys.
var<private> row_max: vec4<f32>;
var<private> row_sum: vec4<f32>;

fn choose_heads(batch: u32, head: u32) {
    let kv_head = head / params.q_heads_per_kv;
    q_head = params.offsets.x + batch * params.q.x + head * params.q.y;
    k_head = params.offsets.y + batch * params.k.x + kv_head * params.k.y;
    v_head = params.offsets.z + batch * params.v.x + kv_head * params.v.y;
    mask_head = params.more_offsets.y + batch * params.mask.x + head * params.mask.y;
}

fn query_element(which: u32, query: u32, element_index: u32) -> f32 {
    if (query >= params.queries || element_index >= params.head_dim) {
        return 0.0;
    }
    return q_at(q_head + query * params.q.z + element_index * params.q.w);
}

fn key_element(which: u32, key: u32, element_index: u32) -> f32 {
    if (key >= params.keys || element_index >= params.head_dim) {
        return 0.0;
    }
    return k_at(k_head + key * params.k.z + element_index * params.k.w);
}

fn value_element(key: u32, column: u32) -> f32 {
    if (key >= params.keys || column >= params.value_dim) {
        return 0.0;
    }
    return v_at(v_head + key * params.v.z + column * params.v.w);
}

fn is_lowest(x: f32) -> bool {
    return bitcast<u32>(x) == 0xff800000u;
}

// Returns the larger of a and b for each row, or a if b is NaN.
fn larger_of_rows(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    return select(a, b, b > a);
}

// Returns exp(score - base) for four rows.
fn weights_of(score: vec4<f32>, base: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(exp_of(score.x - base.x), exp_of(score.y - base.y), exp_of(score.z - base.z), exp_of(score.w - base.w));
}

// Returns the scores of four queries and a key from the products q kT.
fn scores_of(products: vec4<f32>, query: u32, key: u32) -> vec4<f32> {
    return vec4<f32>(
        score_of(products.x, query, key, mask_head),
        score_of(products.y, query + 1u, key, mask_head),
        score_of(products.z, query + 2u, key, mask_head),
        score_of(products.w, query + 3u, key, mask_head),
    );
}

// Returns the score that is subtracted from the scores of a row: the largest one, or 0 if all keys
// so far are masked. Weights are then 0 instead of exp(-inf + inf).
fn base_of(row_max: vec4<f32>) -> vec4<f32> {
    let bits = bitcast<vec4<u32>>(row_max);
    return select(row_max, vec4<f32>(), bits == vec4<u32>(0xff800000u));
}

// Writes two columns of the row that begins at `element_index`.
fn put_columns(element_index: u32, column: u32, results: vec2<f32>) {
    let index = element_index + column * params.y.w;
    if (params.y.w == 1u && column + 1u < params.value_dim) {
        y_put_pair(index, results.x, results.y);
        return;
    }
    if (column < params.value_dim) {
        y_put(index, results.x);
    }
    if (column + 1u < params.value_dim) {
        y_put(index + params.y.w, results.y);
    }
}

// Returns the first key that is unmasked for any query of a tile, and the end of these keys.
fn key_range(first_query: u32) -> vec2<u32> {
    let position = i32(first_query) + i32(params.keys) - i32(params.queries);
    let last = position + i32(min(63u, params.queries - 1u - first_query));
    return vec2<u32>(
        u32(max(position - params.window_left + 1i, 0i)),
        u32(clamp(last + params.window_right, 0i, i32(params.keys))),
    );
}

// Returns the largest score of each row, over all threads and all previous keys.
fn largest_of_rows(own: vec4<f32>, lane: u32) -> vec4<f32> {
    let lines = lane / 8u;
    workgroupBarrier();
    attention_left[lane % 8u * 17u + lines] = own;
    workgroupBarrier();
    var largest = row_max;
    for (var other = 0u; other < 8u; other += 1u) {
        largest = larger_of_rows(largest, attention_left[other * 17u + lines]);
    }
    return largest;
}

// Returns the sum of each row's weights over all threads.
fn sums_of_rows(lane: u32) -> vec4<f32> {
    let lines = lane / 8u;
    workgroupBarrier();
    attention_left[lane % 8u * 17u + lines] = row_sum;
    workgroupBarrier();
    var sums = vec4<f32>();
    for (var other = 0u; other < 8u; other += 1u) {
        sums += attention_left[other * 17u + lines];
    }
    return sums;
}

// Multiplies the output by a factor for each of a thread's four rows.
fn rescale_output(factors: vec4<f32>) {
#repeat row 4
    output_near_#{row} *= factors[#{row}];
    output_far_#{row} *= factors[#{row}];
#end
}

// Adds the contribution of 32 keys.
fn add_keys(first_query: u32, first_column: u32, step: u32, lane: u32) {
    let query = first_query + lane / 8u * 4u;
    let key = step + lane % 8u * 4u;
    var scores = tile_scores(0u, first_query, step, params.head_dim, lane);
#repeat inner 4
    scores.inner_#{inner} = scores_of(scores.inner_#{inner}, query, key + #{inner}u);
#end
    let own_max = larger_of_rows(larger_of_rows(scores.inner_0, scores.inner_1), larger_of_rows(scores.inner_2, scores.inner_3));
    let new_max = largest_of_rows(own_max, lane);
    let base = base_of(new_max);
    let rescale = weights_of(row_max, base);
    row_max = new_max;
#repeat inner 4
    scores.inner_#{inner} = weights_of(scores.inner_#{inner}, base);
#end
    row_sum = row_sum * rescale + (scores.inner_0 + scores.inner_1) + (scores.inner_2 + scores.inner_3);
    rescale_output(rescale);
    put_weights(scores, lane);
    add_product(step, first_column, lane);
}

// Without an additive mask, the error is not an output.
fn skip_lse_error(index: u32, error: f32) {}

// Stores a thread's part of y, and of lse if the workgroup computes the first columns. `head_y` is
// the first element of the head in y; `in_head` is the offset of the head in lse.
fn put_results(sums: vec4<f32>, first_query: u32, first_column: u32, head_y: u32, in_head: u32, lane: u32) {
    let query = first_query + lane / 8u * 4u;
    let inners = lane % 8u;
    for (var part = 0u; part < 8u; part += 1u) {
        let row = part / 2u;
        let sum = sums[row];
        let fully_masked = sum == 0.0 && !is_nan(sum);
        let outputs = output_row(row, part % 2u == 1u);
        if (query + row < params.queries) {
            let element_index = head_y + (query + row) * params.y.z;
            let column = first_column + inners * 4u + part % 2u * 32u;
            let results = select(outputs / sum, vec4<f32>(), fully_masked);
            put_columns(element_index, column, results.xy);
            put_columns(element_index, column + 2u, results.zw);
            if (first_column == 0u && inners == 0u && part % 2u == 0u) {
                // If NaN kept the maximum at -infinity, the weights were computed with base 0.
                let log_sum = base_of(row_max)[row] + log_of(sum);
                lse_put(params.more_offsets.x + in_head + (query + row) * params.lse.z, select(log_sum, lowest(), fully_masked));
                let error = (base_of(row_max)[row] - opaque(log_sum)) + log_of(sum);
                STORE_LSE_ERROR(params.more_offsets.z + in_head + (query + row) * params.lse.z, select(error, 0.0, fully_masked));
            }
        }
    }
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let number = workgroup_index(group, groups);
    if (number >= params.launched) {
        return;
    }
    let first_column = number % params.chunks * 64u;
    let first_query = number / params.chunks % params.tiles * 64u;
    let head_number = number / params.chunks / params.tiles;
    let head = head_number % params.heads;
    let batch = head_number / params.heads;
    choose_heads(batch, head);
    row_max = vec4<f32>(lowest());
    let keys = key_range(first_query);
    for (var step = keys.x; step < keys.y; step += 32u) {
        add_keys(first_query, first_column, step, lane);
    }
    let head_y = params.offsets.w + batch * params.y.x + head * params.y.y;
    let in_head = batch * params.lse.x + head * params.lse.y;
    put_results(sums_of_rows(lane), first_query, first_column, head_y, in_head, lane);
}
