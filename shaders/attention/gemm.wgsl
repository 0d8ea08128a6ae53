// Attention and its gradients by whole matrix products, for operands that can be read four elements at a time, of some heads at a time: their weights
// pass through memory, in `weights` [heads of the launch][padded_queries][padded_keys] of f32, padded to tiles of 128.
//
//   q, dq [batch, heads, queries, head_dim]     k, dk [batch, kv_heads, keys, head_dim]       v, dv [batch, kv_heads, keys, value_dim]
//   y, dy [batch, heads, queries, value_dim]    row_numbers: lse, delta of each query         mask [batch, heads, queries, keys]
//
// A launch is one STEP, a work group one tile of it (tile_vec4.wgsl: 128 x 128, or 128 x 64 where an output is no wider), in this order:
//
//   forward   tile_of_weights     s = scale q kT (+ mask)                 weights = exp(s - largest), parts = largest, sum of weights: of each row of the tile
//             tile_of_output      y = sum over tiles of exp(largest - lse) weights v, where lse is of all tiles of a row
//   gradient  tile_of_shares      weights = exp(s - lse)
//             tile_of_key_output  dv = weightsT dy
//             tile_of_score_grads      weights = weights * (dy vT - delta)
//             tile_of_key_output  dk = scale weightsT q                   over all heads that share the key head
//             tile_of_output      dq = scale weights k                    without factors
//
// Each of the five products of a gradient is made once, where shaders that keep weights to themselves make seven: for that, and as these tiles multiply
// more for each element that they read, it takes the less time, and a bounded memory more. Tiles that nobody sees are neither made nor read:
//
//                keys ->  k0      k1      k2
//   queries  q0         | made  |       |        a row of tiles is read from its first key that is seen to its last, a column from its
//            q1         | made  | made  |        first query to its last
//
// Where an output has few tiles, its sums are made in `splits` parts, and add_parts adds these up. A query that sees no key gives 0 and -infinity.
// Limits: as many weights as a binding holds; 2^32 elements of an operand.

struct Parameters {
    launched: u32,
    queries: u32,
    keys: u32,
    heads: u32,
    // Query heads that share a key head.
    shared_by: u32,
    // The first head of the launch, of all batches.
    first_head: u32,
    padded_queries: u32,
    padded_keys: u32,
    scale: f32,
    // Keys above position - back and below position + ahead are seen.
    back: i32,
    ahead: i32,
    splits: u32,
    // Of the product: lines of the left operand, lines of the right one, inner indices.
    m: u32,
    n: u32,
    inner: u32,
    // Lines of the output that there are.
    lines: u32,
    factor: f32,
    // From one part of sums to the next.
    split_stride: u32,
    mask_offset: u32,
    lse_offset: u32,
    // Strides of each operand: of batches, heads, heads of this launch, and how many heads share one.
    left_heads: vec4<u32>,
    right_heads: vec4<u32>,
    out_heads: vec4<u32>,
    // First elements of left, right and out; the stride of out's lines.
    offsets: vec4<u32>,
    // Strides of lines and inner indices: left, right.
    strides: vec4<u32>,
    mask: vec4<u32>,
    // And the first element of lse_error, under an additive mask.
    lse: vec4<u32>,
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let number = group_number(group, groups);
    if (number < params.launched) {
        STEP(number, lane);
    }
}
