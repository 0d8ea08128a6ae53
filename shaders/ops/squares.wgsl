// Sums of squares over the whole range of f32, for multi_tensor.wgsl and multi_tensor_root.wgsl: x
// is the sum for numbers whose squares overflow, which are multiplied by 2^-152; z for numbers
// whose squares underflow, which are multiplied by 2^176; y for all others (Blue 1978; the
// counterpart of Squares in kernels/lib/reduce.cuh).

// Infinity and NaN count as large.
fn squares_of(x: f32) -> vec4<f32> {
    let size = abs_bits(x);
    let is_large = size > 0x58800000u; // 2^50
    let is_small = size < 0x26800000u; // 2^-50
    // Subnormal numbers, which a device may flush to 0, are converted from their bits.
    let small = select(bitcast<f32>(size) * 0x1p88, f32(size) * 0x1p-61, size < 0x00800000u);
    let large = bitcast<f32>(size) * 0x1p-76;
    let middle = select(bitcast<f32>(size), 0.0, is_large || is_small);
    return vec4<f32>(select(0.0, large * large, is_large), middle * middle, select(0.0, small * small, is_small), 0.0);
}

fn squares_of_vec4(x: vec4<f32>) -> vec4<f32> {
    return (squares_of(x.x) + squares_of(x.y)) + (squares_of(x.z) + squares_of(x.w));
}

var<workgroup> group_squares: array<vec4<f32>, 256>;

// Adds the values of all threads of the workgroup pairwise; thread 0 has the sum.
fn squares_of_group(own: vec4<f32>, lane: u32) -> vec4<f32> {
    group_squares[lane] = own;
    for (var offset = 128u; offset > 0u; offset /= 2u) {
        workgroupBarrier();
        if (lane < offset) {
            group_squares[lane] += group_squares[lane + offset];
        }
    }
    return group_squares[lane];
}

// The root of the sum of all three. `opaque`, because compilers would otherwise multiply the
// powers of two first, and their product is out of the range of f32.
fn root_of_squares(sum: vec4<f32>) -> f32 {
    if (abs_bits(sum.x) >= 0x7f800000u) {
        return sum.x;
    }
    if (abs_bits(sum.x) != 0u) {
        return scaled(sqrt_of(sum.x + opaque(sum.y * 0x1p-76) * 0x1p-76), 76);
    }
    if (abs_bits(sum.y) != 0u) {
        return sqrt_of(sum.y + opaque(sum.z * 0x1p-88) * 0x1p-88);
    }
    return scaled(sqrt_of(sum.z), -88);
}
