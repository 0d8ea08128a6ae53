// Tiles of attention, for 128 threads: a thread holds 4 rows by 4 inner rows of the scores, and 4
// rows by 8 columns of the output.
//
//      right  [32 inner][depth]                   matrix [32 inner][64 columns]
//   left [64 rows][depth] -> scores 64 x 32  ->  weights, in workgroup memory  ->
//       output 64 x 64 += weights * matrix
//
// The shader provides LEFT(which, line, index) and RIGHT(which, inner, index) -> f32, the operands
// of scores `which`, and MATRIX(inner, column) -> f32. Each returns 0 beyond its edges. Workgroup
// memory: 15 KiB.

// [16 indices][64 rows, padded by 4 so that neighbors are in different banks]. Also holds a part of
// the matrix in the same layout, and row values that threads exchange.
var<workgroup> attention_left: array<vec4<f32>, 272>;
// [16 indices][32 inner rows, padded by 4].
var<workgroup> attention_right: array<vec4<f32>, 144>;
// [32 inner rows][64 rows, padded by 4].
var<workgroup> score_weights: array<vec4<f32>, 544>;

// A thread's part of a tile of scores: 4 rows for each of its 4 inner rows.
struct Scores {
    inner_0: vec4<f32>,
    inner_1: vec4<f32>,
    inner_2: vec4<f32>,
    inner_3: vec4<f32>,
}

// A thread's part of the output: 4 rows, in 4 columns from 4 (lane % 8) on, and 4 columns 32
// further.
var<private> output_near_0: vec4<f32>;
var<private> output_near_1: vec4<f32>;
var<private> output_near_2: vec4<f32>;
var<private> output_near_3: vec4<f32>;
var<private> output_far_0: vec4<f32>;
var<private> output_far_1: vec4<f32>;
var<private> output_far_2: vec4<f32>;
var<private> output_far_3: vec4<f32>;

// Returns left * right^T of scores `which`.
fn tile_scores(which: u32, first_line: u32, first_inner: u32, depth: u32, lane: u32) -> Scores {
    var scores = Scores();
    let lines = lane / 8u;
    let inners = lane % 8u;
    let element_index = lane % 16u;
    for (var step = 0u; step < depth; step += 16u) {
        workgroupBarrier();
        for (var line = lane / 16u; line < 64u; line += 8u) {
            attention_left[element_index * 17u + line / 4u][line % 4u] = LEFT(which, first_line + line, step + element_index);
        }
        for (var inner = lane / 16u; inner < 32u; inner += 8u) {
            attention_right[element_index * 9u + inner / 4u][inner % 4u] = RIGHT(which, first_inner + inner, step + element_index);
        }
        workgroupBarrier();
        for (var index = 0u; index < 16u; index += 2u) {
            let left = attention_left[index * 17u + lines];
            let right = attention_right[index * 9u + inners];
            let left_next = attention_left[index * 17u + 17u + lines];
            let right_next = attention_right[index * 9u + 9u + inners];
            scores.inner_0 += left * right.x;
            scores.inner_1 += left * right.y;
            scores.inner_2 += left * right.z;
            scores.inner_3 += left * right.w;
            scores.inner_0 += left_next * right_next.x;
            scores.inner_1 += left_next * right_next.y;
            scores.inner_2 += left_next * right_next.z;
            scores.inner_3 += left_next * right_next.w;
        }
    }
    return scores;
}

// Stores a thread's part of the weights in workgroup memory.
fn put_weights(part: Scores, lane: u32) {
    let index = lane % 8u * 68u + lane / 8u;
    score_weights[index] = part.inner_0;
    score_weights[index + 17u] = part.inner_1;
    score_weights[index + 34u] = part.inner_2;
    score_weights[index + 51u] = part.inner_3;
}

// Adds weights * matrix to the output. Begins and ends with a barrier.
fn add_product(first_inner: u32, first_column: u32, lane: u32) {
    let lines = lane / 8u;
    let columns = lane % 8u;
    for (var half = 0u; half < 32u; half += 16u) {
        workgroupBarrier();
        let column = lane % 64u;
        for (var inner = lane / 64u; inner < 16u; inner += 2u) {
            attention_left[inner * 17u + column / 4u][column % 4u] = MATRIX(first_inner + half + inner, first_column + column);
        }
        workgroupBarrier();
        for (var index = 0u; index < 16u; index += 1u) {
            let weight = score_weights[(half + index) * 17u + lines];
            let near = attention_left[index * 17u + columns];
            let far = attention_left[index * 17u + columns + 8u];
            output_near_0 += weight.x * near;
            output_near_1 += weight.y * near;
            output_near_2 += weight.z * near;
            output_near_3 += weight.w * near;
            output_far_0 += weight.x * far;
            output_far_1 += weight.y * far;
            output_far_2 += weight.z * far;
            output_far_3 += weight.w * far;
        }
    }
    workgroupBarrier();
}

// Returns the output of a thread's row `row` (0 to 3): the near columns, or the columns 32 further.
fn output_row(row: u32, far: bool) -> vec4<f32> {
    let near_part = select(select(output_near_0, output_near_1, row == 1u), select(output_near_2, output_near_3, row == 3u), row >= 2u);
    let far_part = select(select(output_far_0, output_far_1, row == 1u), select(output_far_2, output_far_3, row == 3u), row >= 2u);
    return select(near_part, far_part, far);
}

// ---------------------------------------------------------------- masking

// Returns whether a query attends to a key by their positions; `window_left` and `window_right` are
// the bounds.
fn is_in_window(query: u32, key: u32) -> bool {
    let position = i32(query) + i32(params.keys) - i32(params.queries);
    return i32(key) > position - params.window_left && i32(key) < position + params.window_right;
}

// scale * product + mask, or -infinity if the key is masked.
fn score_of(product: f32, query: u32, key: u32, mask_head: u32) -> f32 {
    if (query >= params.queries || key >= params.keys || !is_in_window(query, key)) {
        return lowest();
    }
    return APPLY_MASK(product * params.scale, mask_head + query * params.mask.z + key * params.mask.w);
}

fn no_mask(score: f32, element_index: u32) -> f32 {
    return score;
}

fn apply_bool_mask(score: f32, element_index: u32) -> f32 {
    return select(lowest(), score, mask_at(element_index) != 0u);
}

fn apply_additive_mask(score: f32, element_index: u32) -> f32 {
    return score + mask_at(element_index);
}
