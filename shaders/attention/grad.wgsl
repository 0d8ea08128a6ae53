// Gradients of attention (Dao et al. 2022, algorithm 4): with p = exp(scale * q kT + mask - lse)
// and ds = p * (dy vT - delta), dq = scale * ds k, dk = scale * dsT q, dv = pT dy, where delta =
// rowsum(dy * y) (grad_rows.wgsl).
//
//   q, dq [batch, heads, queries, head_dim]     k, dk [batch, kv_heads, keys, head_dim]
//   v, dv [batch, kv_heads, keys, value_dim]    dy [batch, heads, queries, value_dim]
//   mask  [batch, heads, queries, keys]         lse_and_delta [batch, heads, queries, 2]
//
// A workgroup computes 64 rows by 64 columns of one gradient. BY_KEYS: rows are keys. The workgroup
// loops over the queries that attend to them, 32 at a time, of all query heads that share the key
// head. It computes dk (`out`) or, in the chunks after those of dk, dv (`other`). Otherwise rows
// are queries, and the workgroup loops over the keys to which they attend, and computes dq (`out`).
// Each element is summed by one thread, in a fixed order.
//
// This shader is for tensors that grad_vec4.wgsl does not support: wider than 128, or with rows
// that cannot be read as vec4.

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
    // Workgroups across the columns of the gradients, and along their rows.
    chunks: u32,
    tiles: u32,
    scale: f32,
    // A query attends to keys above position - window_left and below position + window_right.
    window_left: i32,
    window_right: i32,
    // Number of chunks of dk, which are followed by those of dv.
    key_chunks: u32,
    // Number of query heads.
    all_heads: u32,
    _padding_0: u32,
    _padding_1: u32,
    // First elements of q, k, v, dy; of mask, out, other. lse_and_delta is dense and begins at 0.
    offsets: vec4<u32>,
    more_offsets: vec4<u32>,
    // Strides.
    q: vec4<u32>,
    k: vec4<u32>,
    v: vec4<u32>,
    dy: vec4<u32>,
    mask: vec4<u32>,
    out: vec4<u32>,
    other: vec4<u32>,
}

// First elements of the current heads.
var<private> q_head: u32;
var<private> k_head: u32;
var<private> v_head: u32;
var<private> dy_head: u32;
var<private> mask_head: u32;
// The row of the current head's first query in lse_and_delta.
var<private> first_row: u32;
// Whether this workgroup computes dv.
var<private> is_dv: bool;

fn choose_heads(batch: u32, head: u32) {
    let kv_head = head / params.q_heads_per_kv;
    q_head = params.offsets.x + batch * params.q.x + head * params.q.y;
    k_head = params.offsets.y + batch * params.k.x + kv_head * params.k.y;
    v_head = params.offsets.z + batch * params.v.x + kv_head * params.v.y;
    dy_head = params.offsets.w + batch * params.dy.x + head * params.dy.y;
    mask_head = params.more_offsets.x + batch * params.mask.x + head * params.mask.y;
    first_row = (batch * params.all_heads + head) * params.queries;
}

// Returns an element of q for scores 0, or of dy for scores 1.
fn query_element(which: u32, query: u32, element_index: u32) -> f32 {
    if (query >= params.queries || element_index >= select(params.head_dim, params.value_dim, which == 1u)) {
        return 0.0;
    }
    if (which == 1u) {
        return dy_at(dy_head + query * params.dy.z + element_index * params.dy.w);
    }
    return q_at(q_head + query * params.q.z + element_index * params.q.w);
}

// Returns an element of k for scores 0, or of v for scores 1.
fn key_element(which: u32, key: u32, element_index: u32) -> f32 {
    if (key >= params.keys || element_index >= select(params.head_dim, params.value_dim, which == 1u)) {
        return 0.0;
    }
    if (which == 1u) {
        return v_at(v_head + key * params.v.z + element_index * params.v.w);
    }
    return k_at(k_head + key * params.k.z + element_index * params.k.w);
}

// The matrix by which the weights are multiplied.
fn query_matrix(query: u32, column: u32) -> f32 {
    return query_element(u32(is_dv), query, column);
}

fn key_matrix(key: u32, column: u32) -> f32 {
    return key_element(0u, key, column);
}

// Returns p for dv, otherwise ds.
fn weight_of(product: f32, grad: f32, line: u32, inner: u32) -> f32 {
    let query = select(line, inner, BY_KEYS);
    let key = select(inner, line, BY_KEYS);
    let score = score_of(product, query, key, mask_head);
    if (query >= params.queries || key >= params.keys) {
        return 0.0;
    }
    let row = 2u * (first_row + query);
    let weight = exp_of(score - lse_and_delta_at(row));
    if (is_dv) {
        return weight;
    }
    return weight * (grad - lse_and_delta_at(row + 1u));
}

fn weights_of(products: vec4<f32>, grads: vec4<f32>, line: u32, inner: u32) -> vec4<f32> {
    return vec4<f32>(
        weight_of(products.x, grads.x, line, inner),
        weight_of(products.y, grads.y, line + 1u, inner),
        weight_of(products.z, grads.z, line + 2u, inner),
        weight_of(products.w, grads.w, line + 3u, inner),
    );
}

// Adds the contribution of 32 inner rows.
fn add_step(first_line: u32, first_column: u32, step: u32, lane: u32) {
    let products = tile_scores(0u, first_line, step, params.head_dim, lane);
    // dv does not need the gradients of weights: their depth is 0.
    let grads = tile_scores(1u, first_line, step, select(params.value_dim, 0u, is_dv), lane);
    let line = first_line + lane / 8u * 4u;
    let inner = step + lane % 8u * 4u;
    var part = Scores();
    part.inner_0 = weights_of(products.inner_0, grads.inner_0, line, inner);
    part.inner_1 = weights_of(products.inner_1, grads.inner_1, line, inner + 1u);
    part.inner_2 = weights_of(products.inner_2, grads.inner_2, line, inner + 2u);
    part.inner_3 = weights_of(products.inner_3, grads.inner_3, line, inner + 3u);
    put_weights(part, lane);
    add_product(step, first_column, lane);
}

// Writes two columns of the row that begins at `element_index`.
fn put_columns(element_index: u32, column: u32, width: u32, stride: u32, results: vec2<f32>) {
    let index = element_index + column * stride;
    if (stride == 1u && column + 1u < width) {
        if (is_dv) {
            STORE_OTHER_PAIR(index, results.x, results.y);
        } else {
            out_put_pair(index, results.x, results.y);
        }
        return;
    }
    if (column < width) {
        put_one(index, results.x);
    }
    if (column + 1u < width) {
        put_one(index + stride, results.y);
    }
}

fn put_one(index: u32, result: f32) {
    if (is_dv) {
        STORE_OTHER(index, result);
    } else {
        out_put(index, result);
    }
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let number = workgroup_index(group, groups);
    if (number >= params.launched) {
        return;
    }
    let chunk = number % params.chunks;
    is_dv = BY_KEYS && chunk >= params.key_chunks;
    let first_column = (chunk - select(0u, params.key_chunks, is_dv)) * 64u;
    let first_line = number / params.chunks % params.tiles * 64u;
    let head_number = number / params.chunks / params.tiles;
    let head = head_number % params.heads;
    let batch = head_number / params.heads;
    let shift = i32(params.keys) - i32(params.queries);
    if (BY_KEYS) {
        let first_inner = u32(max(i32(first_line) - params.window_right + 1i - shift, 0i));
        let end = u32(clamp(i32(first_line) + 63i + params.window_left - shift, 0i, i32(params.queries)));
        for (var member = 0u; member < params.q_heads_per_kv; member += 1u) {
            choose_heads(batch, head * params.q_heads_per_kv + member);
            for (var step = first_inner; step < end; step += 32u) {
                add_step(first_line, first_column, step, lane);
            }
        }
    } else {
        choose_heads(batch, head);
        let first_inner = u32(max(i32(first_line) + shift - params.window_left + 1i, 0i));
        let end = u32(clamp(i32(first_line) + 63i + shift + params.window_right, 0i, i32(params.keys)));
        for (var step = first_inner; step < end; step += 32u) {
            add_step(first_line, first_column, step, lane);
        }
    }
    let lines = select(params.queries, params.keys, BY_KEYS);
    let strides = select(params.out, params.other, vec4<bool>(is_dv));
    let head_out = select(params.more_offsets.y, params.more_offsets.z, is_dv) + batch * strides.x + head * strides.y;
    let width = select(params.head_dim, params.value_dim, is_dv);
    let factor = select(params.scale, 1.0, is_dv);
    for (var part = 0u; part < 8u; part += 1u) {
        let line = first_line + lane / 8u * 4u + part / 2u;
        let outputs = output_row(part / 2u, part % 2u == 1u);
        let column = first_column + lane % 8u * 4u + part % 2u * 32u;
        if (line < lines) {
            let element_index = head_out + line * strides.z;
            put_columns(element_index, column, width, strides.w, factor * outputs.xy);
            put_columns(element_index, column + 2u, width, strides.w, factor * outputs.zw);
        }
    }
}
