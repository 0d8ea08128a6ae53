// Gradients of attention as in grad.wgsl, for head_dim and value_dim up to 128, multiples of 4, and
// tensors whose rows can be read as vec4.
//
//   q, dq [batch, heads, queries, head_dim]     k, dk [batch, kv_heads, keys, head_dim]
//   v, dv [batch, kv_heads, keys, value_dim]    dy [batch, heads, queries, value_dim]
//   mask  [batch, heads, queries, keys]         lse_and_delta [batch, heads, queries, 2]
//
// BY_KEYS selects one of two launches. A workgroup computes 64 rows in all columns, with the tiles
// of tile_vec4.wgsl, 64 inner rows at a time:
//
//                    BY_KEYS: 64 keys, over the queries     otherwise: 64 queries, over the keys
//                    of all heads that share the key head
//   p    [64, 64]    exp(scale * k qT + mask - lse)         exp(scale * q kT + mask - lse)
//                    dv (other) += p dy
//   ds   [64, 64]    p * (v dyT - delta)                    p * (dy vT - delta)
//                    dk (out) += ds q                       dq (out) += ds k
//
// p stays in the memory of the weights until ds replaces it. Workgroup memory: 28 KiB. With
// head_dim = value_dim = 128, a step costs each thread, with BY_KEYS, 16384 multiply-adds, 1296
// vec4 reads from workgroup memory, 50 barriers and 32 exponentials; otherwise 12288, 1040, 42 and
// 32. Each element is summed by one thread, in a fixed order. Registers: with BY_KEYS 128 for the
// outputs (64 if not WIDE), 32 for scores, 16 for what is read ahead, about 30 more. LEFTOVER 1:
// the launch computes only the groups of heads that the records of pack_f16.wgsl reject.

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
    // Unused (1), and the number of workgroups along the rows of the gradients.
    chunks: u32,
    tiles: u32,
    scale: f32,
    // A query attends to keys above position - window_left and below position + window_right.
    window_left: i32,
    window_right: i32,
    // Unused, and the number of query heads.
    key_chunks: u32,
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

fn choose_heads(batch: u32, head: u32) {
    let kv_head = head / params.q_heads_per_kv;
    q_head = params.offsets.x + batch * params.q.x + head * params.q.y;
    k_head = params.offsets.y + batch * params.k.x + kv_head * params.k.y;
    v_head = params.offsets.z + batch * params.v.x + kv_head * params.v.y;
    dy_head = params.offsets.w + batch * params.dy.x + head * params.dy.y;
    mask_head = params.more_offsets.x + batch * params.mask.x + head * params.mask.y;
    first_row = (batch * params.all_heads + head) * params.queries;
}

// Returns a row of q for scores 0, or of dy for scores 1.
fn query_row(which: u32, query: u32) -> u32 {
    let line = min(query, params.queries - 1u);
    return select(q_head + line * params.q.z, dy_head + line * params.dy.z, which == 1u) / 4u;
}

fn query_words(which: u32, element_index: u32) -> q_WORDS {
    if (which == 1u) {
        return dy_words(element_index);
    }
    return q_words(element_index);
}

// Returns a row of k for scores 0, or of v for scores 1.
fn key_row(which: u32, key: u32) -> u32 {
    let line = min(key, params.keys - 1u);
    return select(k_head + line * params.k.z, v_head + line * params.v.z, which == 1u) / 4u;
}

fn key_words(which: u32, element_index: u32) -> q_WORDS {
    if (which == 1u) {
        return v_words(element_index);
    }
    return k_words(element_index);
}

// The index of the last vec4 of a row.
fn last_vec4(which: u32) -> u32 {
    return select(params.head_dim, params.value_dim, which == 1u) / 4u - 1u;
}

fn query_index(which: u32, query: u32, column: u32) -> u32 {
    return query_row(which, query) + min(column, last_vec4(which));
}

fn key_index(which: u32, key: u32, column: u32) -> u32 {
    return key_row(which, key) + min(column, last_vec4(which));
}

// Returns value `which` of a query: lse for 0, delta for 1.
fn query_number(query: u32, which: u32) -> f32 {
    return lse_and_delta_at(2u * (first_row + min(query, params.queries - 1u)) + which);
}

fn query_numbers(query: u32, which: u32) -> vec4<f32> {
    return vec4<f32>(query_number(query, which), query_number(query + 1u, which), query_number(query + 2u, which), query_number(query + 3u, which));
}

// Returns value `which` for the queries of four scores: their four rows or, with BY_KEYS, their
// inner row.
fn vec4_numbers(line: u32, inner: u32, which: u32) -> vec4<f32> {
    if (BY_KEYS) {
        return vec4<f32>(query_number(inner, which));
    }
    return query_numbers(line, which);
}

// Replaces a thread's products, which are in the memory of the weights, with p. On an edge, some of
// them may be masked. `line` and `inner` are the thread's first row and inner row. The code is
// long, so it exists only once for all vec4.
fn softmax_weights(line: u32, inner: u32, is_edge: bool, lane: u32) {
    for (var own = 0u; own < 8u; own += 1u) {
        let element_index = own_index(own, lane);
        let own_line = line + own % 2u * 32u;
        let own_inner = inner + own / 2u * 16u;
        var scores = tile_memory[element_index];
        if (!is_edge) {
            scores *= params.scale;
        } else if (BY_KEYS) {
            scores = mask_keys(scores, own_inner, own_line, mask_head);
        } else {
            scores = mask_queries(scores, own_line, own_inner, mask_head);
        }
        tile_memory[element_index] = vec4_weights(scores - vec4_numbers(own_line, own_inner, 0u));
    }
}

// Returns p * (gradient - delta).
fn score_grads(weights: TileScores, grads: TileScores, line: u32, inner: u32) -> TileScores {
    var results: TileScores;
#repeat inner 4
    {
        let near = vec4_numbers(line, inner + #{inner*16}u, 1u);
        let far = vec4_numbers(line + 32u, inner + #{inner*16}u, 1u);
        results.near_#{inner} = weights.near_#{inner} * (grads.near_#{inner} - near);
        results.far_#{inner} = weights.far_#{inner} * (grads.far_#{inner} - far);
    }
#end
    return results;
}

// The inner rows from `begin` to `end` are unmasked for at least one row of a tile; those from
// `all_begin` to `all_end` are unmasked for all rows.
struct InnerRange {
    begin: u32,
    end: u32,
    all_begin: u32,
    all_end: u32,
}

fn inner_range(first_line: u32) -> InnerRange {
    let shift = i32(params.keys) - i32(params.queries);
    let first = i32(first_line) + select(shift, -shift, BY_KEYS);
    let last = first + i32(min(63u, select(params.queries, params.keys, BY_KEYS) - 1u - first_line));
    let below = select(params.window_left, params.window_right, BY_KEYS);
    let above = select(params.window_right, params.window_left, BY_KEYS);
    let count = i32(select(params.keys, params.queries, BY_KEYS));
    return InnerRange(
        u32(max(first - below + 1i, 0i)),
        u32(clamp(last + above, 0i, count)),
        u32(max(last - below + 1i, 0i)),
        u32(clamp(first + above, 0i, count)),
    );
}

// The depth of the scores `which`.
fn depth_of(which: u32) -> u32 {
    return select(params.head_dim, params.value_dim, which == 1u);
}

// Adds the contribution of the current heads.
fn add_heads(first_line: u32, range: InnerRange, lane: u32) {
    let line = first_line + tile_line(lane) * 4u;
    if (range.begin < range.end) {
        prefetch_scores(0u, first_line, range.begin, params.head_dim, lane);
    }
    for (var step = range.begin; step < range.end; step += 64u) {
        let inner = step + tile_across(lane);
        let is_edge = HAS_MASK || step < range.all_begin || step + 64u > range.all_end;
        // Computes the scores first, then their gradients. The code is long, so it exists only once
        // for both.
        for (var which = 0u; which < 2u; which += 1u) {
            workgroupBarrier();
            let products = tile_of_scores(which, depth_of(which), lane);
            if (BY_KEYS || which == 1u) {
                read_matrix(1u - which, step, lane);
            }
            if (which == 0u) {
                put_tile(products, lane);
                softmax_weights(line, inner, is_edge, lane);
            } else {
                put_tile(score_grads(own_part(lane), products, line, inner), lane);
            }
            let next = step + which * 64u;
            if (next < range.end) {
                prefetch_scores(1u - which, first_line, next, depth_of(1u - which), lane);
            }
            if (which == 1u) {
                add_tile_product_1(0u, step, lane);
            } else if (BY_KEYS) {
                add_tile_product_0(1u, step, lane);
            }
        }
    }
}

// Writes four columns of a row of out; if `far`, the four columns 64 further.
fn put_out(row: u32, element_index: u32, far: bool, lane: u32) {
    let column = tile_across(lane) + select(0u, 16u, far);
    if (column * 4u < params.head_dim) {
        out_put_vec4(element_index / 4u + column, out_row_1(row, far) * params.scale);
    }
}

// Writes four columns of a row of dv, likewise.
fn put_other(row: u32, element_index: u32, far: bool, lane: u32) {
    let column = tile_across(lane) + select(0u, 16u, far);
    if (column * 4u < params.value_dim) {
        STORE_OTHER_VEC4(element_index / 4u + column, out_row_0(row, far));
    }
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let number = workgroup_index(group, groups);
    if (number >= params.launched) {
        return;
    }
    // The rows with the most work under a causal mask come first: the first keys, the last queries.
    let tile = number % params.tiles;
    let first_line = select(params.tiles - 1u - tile, tile, BY_KEYS) * 64u;
    let head_number = number / params.tiles;
    let head = head_number % params.heads;
    let batch = head_number / params.heads;
    let range = inner_range(first_line);
#repeat leftover LEFTOVER
    if (records_bits(8u * (head_number / select(params.q_heads_per_kv, 1u, BY_KEYS))) != 0u) {
        return;
    }
#end
    if (BY_KEYS) {
        for (var member = 0u; member < params.q_heads_per_kv; member += 1u) {
            choose_heads(batch, head * params.q_heads_per_kv + member);
            add_heads(first_line, range, lane);
        }
    } else {
        choose_heads(batch, head);
        add_heads(first_line, range, lane);
    }
    let lines = select(params.queries, params.keys, BY_KEYS);
    let head_out = params.more_offsets.y + batch * params.out.x + head * params.out.y;
    let head_other = params.more_offsets.z + batch * params.other.x + head * params.other.y;
    for (var row = 0u; row < 8u; row += 1u) {
        let line = first_line + row_offset(row, lane);
        if (line >= lines) {
            continue;
        }
        put_out(row, head_out + line * params.out.z, false, lane);
        if (WIDE) {
            put_out(row, head_out + line * params.out.z, true, lane);
        }
        if (BY_KEYS) {
            put_other(row, head_other + line * params.other.z, false, lane);
            if (WIDE) {
                put_other(row, head_other + line * params.other.z, true, lane);
            }
        }
    }
}
