// Attention and its gradients as separate matrix products, for operands that can be read as vec4,
// some heads at a time. The weights of these heads are stored in memory, in `weights` [heads of the
// launch][padded_queries][padded_keys], f32, padded to tiles of 128.
//
//   q, dq [batch, heads, queries, head_dim]     k, dk [batch, kv_heads, keys, head_dim]
//   v, dv [batch, kv_heads, keys, value_dim]    y, dy [batch, heads, queries, value_dim]
//   mask  [batch, heads, queries, keys]         lse_and_delta [batch, heads, queries, 2]
//
// A launch is one STEP, and a workgroup computes one tile of it (tile_vec4.wgsl: 128 x 128, or 128
// x 64 if an output is no wider), in this order:
//
//   forward   tile_of_weights      s = scale q kT (+ mask)
//                                  weights = exp(s - largest)
//                                  parts = largest, sum of weights: of each row of the tile
//             tile_of_output       y = sum over tiles of exp(largest - lse) weights v,
//                                  where lse is of all tiles of a row
//   gradient  tile_of_probabilities
//                                  weights = exp(s - lse)
//             tile_of_key_output   dv = weightsT dy
//             tile_of_score_grads  weights = weights * (dy vT - delta)
//             tile_of_key_output   dk = scale weightsT q     over all heads that share the key head
//             tile_of_output       dq = scale weights k      without factors
//
// Each of the five products of a gradient is computed once, while shaders that keep weights on chip
// compute seven products. Also, these tiles perform more multiplications for each element that they
// read. This path therefore takes less time, but needs a bounded amount of additional memory. Tiles
// without an unmasked element are neither computed nor read:
//
//                keys ->  k0      k1      k2
//   queries  q0         | used  |       |     a row of tiles is read from its first unmasked key to
//            q1         | used  | used  |     its last, a column from its first query to its last
//
// If an output has few tiles, its sums are split into `splits` partial sums, which add_parts adds.
// A fully masked query has y = 0 and lse = -infinity. Limits: the weights must fit in one binding;
// 2^32 elements of an operand.

struct Parameters {
    launched: u32,
    queries: u32,
    keys: u32,
    heads: u32,
    // Number of query heads that share a key head.
    q_heads_per_kv: u32,
    // The first head of the launch, among those of all batches.
    first_head: u32,
    padded_queries: u32,
    padded_keys: u32,
    scale: f32,
    // A query attends to keys above position - window_left and below position + window_right.
    window_left: i32,
    window_right: i32,
    // Number of partial sums of each element.
    splits: u32,
    // Sizes of the product: rows of the left operand, rows of the right one, inner indices.
    m: u32,
    n: u32,
    inner: u32,
    // Rows of the output without padding, and the factor of the output: 1, or scale for dq and dk.
    lines: u32,
    factor: f32,
    // Distance from one partial sum of an element to the next.
    split_stride: u32,
    mask_offset: u32,
    lse_offset: u32,
    // Strides of each operand: of batches, of heads, of heads within this launch; and the number of
    // query heads that share a head.
    left_heads: vec4<u32>,
    right_heads: vec4<u32>,
    out_heads: vec4<u32>,
    // First elements of left, right and out; the stride of out's rows.
    offsets: vec4<u32>,
    // Strides of rows and inner indices: left, right.
    strides: vec4<u32>,
    // Strides of mask.
    mask: vec4<u32>,
    // Strides of lse and, under an additive mask, the first element of lse_error.
    lse: vec4<u32>,
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let number = workgroup_index(group, groups);
    if (number < params.launched) {
        STEP(number, lane);
    }
}
