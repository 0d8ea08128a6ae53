// Matrix products: y[.., i, j] = activation(alpha * sum over k of a[.., i, k] * b[.., k, j] +
// bias[j]) + residual[.., i, j], and + the previous y if the product is accumulated.
//
//   y, residual   [.., m, n]     a [.., m, k]     b [.., k, n]     bias [n]
//   any strides, any offset
//
// TILE is a function of tile.wgsl or tile_vec4.wgsl, which have figures; FUNCTION is the
// activation. Slots of absent tensors are bound to a and not read. With split-K, y is
// [splits][.., m, n] and receives only partial sums. A second launch with TILE sum_parts adds them
// and applies the epilogue. After matmul_cooperative.wgsl, the second launch uses sum_padded_parts.

struct Parameters {
    launched: u32,
    // Elements of y.
    count: u32,
    rank: u32,
    // Bits. 1: alpha is not 1; 2: bias; 4: residual; 8: the result is added to the existing y.
    epilogue_flags: u32,
    m: u32,
    n: u32,
    k: u32,
    // Number of partial sums of each element (split-K), and inner indices of each partial sum.
    splits: u32,
    split_length: u32,
    // 1: neighbors along the inner axis are contiguous in a, in b; otherwise 0. For
    // sum_padded_parts: the padded numbers of rows and columns in the partial sums.
    left_layout: u32,
    right_layout: u32,
    // Distance from one partial sum of an element to the next in y.
    split_stride: u32,
    // First elements of y, a, b, residual.
    offsets: vec4<u32>,
    // Strides: of a's rows and inner axis, of b's inner axis and columns.
    inputs: vec4<u32>,
    // Strides of the rows and columns of y and of the residual.
    outputs: vec4<u32>,
    // First element and stride.
    bias: vec4<u32>,
    // alpha, and two constants of FUNCTION, as bits of numbers of the class.
    alpha: vec4<u32>,
    constants: vec4<u32>,
    // Sizes and strides of the axes before the matrices.
    sizes: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 8>,
}

// First elements of the current matrix in y (or in its partial sum), a, b and residual.
var<private> y_matrix: u32;
var<private> a_matrix: u32;
var<private> b_matrix: u32;
var<private> residual_matrix: u32;

fn first() -> C { return number_from(params.constants.xy); }
fn second() -> C { return number_from(params.constants.zw); }
fn unchanged(x: C) -> C { return x; }

fn begin(matrix: u32, split: u32) {
    y_matrix = strided_index(0u, matrix) + split * params.split_stride;
    a_matrix = strided_index(1u, matrix);
    b_matrix = strided_index(2u, matrix);
    residual_matrix = strided_index(3u, matrix);
}

// Returns the index of the first element of a row of a, and 1 if the row exists.
fn left_line(row: u32) -> vec3<u32> {
    return vec3<u32>(a_matrix + row * params.inputs.x, u32(row < params.m), 0u);
}

fn left_value(line: vec3<u32>, inner: u32) -> C {
    if (line.y == 0u) {
        return zero();
    }
    return a_at(line.x + inner * params.inputs.y);
}

// Returns the index of the first element of a column of b, and 1 if the column exists.
fn right_line(column: u32) -> vec3<u32> {
    return vec3<u32>(b_matrix + column * params.inputs.w, u32(column < params.n), 0u);
}

fn right_value(line: vec3<u32>, inner: u32) -> C {
    if (line.y == 0u) {
        return zero();
    }
    return b_at(line.x + inner * params.inputs.z);
}

// Indices of vec4 of contiguous elements.
fn left_vec4_index(line: u32, inner: u32) -> u32 {
    return (a_matrix + line * params.inputs.x + inner * params.inputs.y) / 4u;
}

fn right_vec4_index(line: u32, inner: u32) -> u32 {
    return (b_matrix + line * params.inputs.w + inner * params.inputs.z) / 4u;
}

fn left_vec4_step(inner: u32) -> u32 { return inner * params.inputs.y / 4u; }
fn right_vec4_step(inner: u32) -> u32 { return inner * params.inputs.z / 4u; }

// The value to store for a sum, at `element_index`.
fn apply_epilogue(row: u32, column: u32, element_index: u32, sum: C) -> C {
    var value = sum;
    if ((params.epilogue_flags & 1u) != 0u) {
        value = product_of(number_from(params.alpha.xy), value);
    }
    if ((params.epilogue_flags & 2u) != 0u) {
        value = sum_of(value, bias_at(params.bias.x + column * params.bias.y));
    }
    value = FUNCTION(value);
    if ((params.epilogue_flags & 4u) != 0u) {
        value = sum_of(value, residual_at(residual_matrix + row * params.outputs.z + column * params.outputs.w));
    }
    if ((params.epilogue_flags & 8u) != 0u) {
        value = sum_of(y_at(element_index), value);
    }
    return value;
}

fn index_of(row: u32, column: u32) -> u32 {
    return y_matrix + row * params.outputs.x + column * params.outputs.y;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let number = workgroup_index(group, groups);
    if (number < params.launched) {
        TILE(number, lane);
    }
}
