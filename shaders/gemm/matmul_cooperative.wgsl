// Sums of matrix products of f16, in f32, with cooperative matrices of 16 x 16 x 16 (tensor cores):
// parts[part, .., i, j] = sum over the part's k of a[.., i, k] * b[.., k, j]. A second launch
// (matmul.wgsl, sum_padded_parts) adds the parts and applies the epilogue.
//
//   parts   [splits, matrices, rows, columns], f32, dense: m and n rounded up to whole tiles
//   a       [.., m, k]     b [.., k, n]        vec4 along one of the two axes
//
//      right   k x n  |--|16|--|  128 columns       a step: 16 inner indices of 128 rows and 128
//   left m x k  128 rows -> [ 128 x 128 of y ]      columns are in workgroup memory, twice: one
//                                                   buffer is read while the other is written
//
// A workgroup has 4 subgroups of 32 threads, each for 64 x 64 elements: 16 matrices. If vec4 are
// along the inner axis, ACROSS is 4, else 32 (128 rows or columns). STRIDE is larger by two, so
// that neighbors are in different banks. UNIT is the distance between rows or columns in workgroup
// memory, in elements. Compilers keep matrices in registers only in plain code: strides are literal
// numbers, nothing in the loop is conditional, and all of it is in the entry point, into which the
// blocks (#block) are inlined (#inline). Therefore k must be a multiple of 16, rows and columns
// beyond an edge are read as the last ones, and `parts` has space for their sums.

struct Parameters {
    launched: u32,
    rank: u32,
    m: u32,
    n: u32,
    // Number of partial sums of each element (split-K).
    splits: u32,
    // Inner indices, in total and of a partial sum.
    k: u32,
    split_length: u32,
    matrices: u32,
    // Stride from one inner index, row or column to the next, along the axis where it is not 1.
    left_slow: u32,
    right_slow: u32,
    // Rows and columns in `parts`.
    rows: u32,
    columns: u32,
    // First elements: unused, a, b, unused.
    offsets: vec4<u32>,
    // Sizes and strides of the axes before the matrices.
    sizes: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 8>,
}

var<workgroup> left_tile: array<vec4<f16>, 1536>;
var<workgroup> right_tile: array<vec4<f16>, 1536>;

// Number of tiles of a matrix.
fn count_of_tiles() -> u32 {
    return params.rows / 128u * (params.columns / 128u);
}

// The first row and column of a tile. Tiles that run at the same time share rows and columns: tiles
// are ordered in bands of 8 rows of tiles, column by column.
fn corner_of_tile(tile: u32) -> vec2<u32> {
    let tile_columns = params.columns / 128u;
    let band = tile / (8u * tile_columns) * 8u;
    let high = min(params.rows / 128u - band, 8u);
    return vec2<u32>(band + tile % (8u * tile_columns) % high, tile % (8u * tile_columns) / high) * 128u;
}

// ---------------------------------------------------------------- blocks of the entry point

// Computes the indices of a thread's vec4 of a step, in both operands and in workgroup memory, and
// reads the vec4 of the first step.
#block begin_reads
#repeat load 4
    let left_slow_#{load} = (lane + #{load*128}u) / LEFT_ACROSS;
    let left_fast_#{load} = (lane + #{load*128}u) % LEFT_ACROSS;
    let left_put_#{load} = left_slow_#{load} * LEFT_STRIDE + left_fast_#{load};
    var left_at_#{load} = left_matrix + select((begin + left_slow_#{load}) * params.left_slow + min(row + left_fast_#{load} * 4u, params.m - 4u),
        min(row + left_slow_#{load}, params.m - 1u) * params.left_slow + begin + left_fast_#{load} * 4u, LEFT_K_MAJOR) / 4u;
    let right_slow_#{load} = (lane + #{load*128}u) / RIGHT_ACROSS;
    let right_fast_#{load} = (lane + #{load*128}u) % RIGHT_ACROSS;
    let right_put_#{load} = right_slow_#{load} * RIGHT_STRIDE + right_fast_#{load};
    var right_at_#{load} = right_matrix + select((begin + right_slow_#{load}) * params.right_slow + min(column + right_fast_#{load} * 4u, params.n - 4u),
        min(column + right_slow_#{load}, params.n - 1u) * params.right_slow + begin + right_fast_#{load} * 4u, RIGHT_K_MAJOR) / 4u;
    var left_#{load} = a_f16(left_at_#{load});
    var right_#{load} = b_f16(right_at_#{load});
#end
#end

// Adds the products of the step in this half of workgroup memory.
#block add_products
#repeat i 4
        let a_index_#{i} = half + own_left + #{i*4*LEFT_UNIT}u;
        let a_#{i} = LOAD_LEFT<coop_mat16x16<f16, A>>(&left_tile[a_index_#{i}], LEFT_STRIDE);
#end
#repeat j 4
        let b_index_#{j} = half + own_right + #{j*4*RIGHT_UNIT}u;
        let b_#{j} = LOAD_RIGHT<coop_mat16x16<f16, B>>(&right_tile[b_index_#{j}], RIGHT_STRIDE);
#repeat i 4
        sums_#{i*4+j} = coopMultiplyAdd(a_#{i}, b_#{j}, sums_#{i*4+j});
#end
#end
#end

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    // This index is computed without a function call: a compiler that checks whether all threads
    // reach a matrix operation does not analyze functions.
    let number = group.y * groups.x + group.x;
    if (number >= params.launched) {
        return;
    }
    let plane = number / count_of_tiles();
    let corner = corner_of_tile(number % count_of_tiles());
    let row = corner.x;
    let column = corner.y;
    let split = plane / params.matrices;
    let matrix = plane % params.matrices;
    let begin = split * params.split_length;
    let steps = (min(params.split_length, params.k - begin)) / 16u;
    let left_matrix = strided_index(1u, matrix) / 4u;
    let right_matrix = strided_index(2u, matrix) / 4u;
#inline begin_reads
    let left_step = select(4u * params.left_slow, 4u, LEFT_K_MAJOR);
    let right_step = select(4u * params.right_slow, 4u, RIGHT_K_MAJOR);
    let own_row = lane / 64u * 64u;
    let own_column = lane / 32u % 2u * 64u;
    let own_left = own_row * LEFT_UNIT / 4u;
    let own_right = own_column * RIGHT_UNIT / 4u;
#repeat part 16
    var sums_#{part}: coop_mat16x16<f32, SUM>;
#end
#repeat load 4
    left_tile[left_put_#{load}] = left_#{load};
    right_tile[right_put_#{load}] = right_#{load};
#end
    workgroupBarrier();
    var half = 0u;
    for (var step = 1u; step < steps; step += 1u) {
#repeat load 4
        left_at_#{load} += left_step;
        left_#{load} = a_f16(left_at_#{load});
        right_at_#{load} += right_step;
        right_#{load} = b_f16(right_at_#{load});
#end
#inline add_products
        half = 768u - half;
#repeat load 4
        left_tile[half + left_put_#{load}] = left_#{load};
        right_tile[half + right_put_#{load}] = right_#{load};
#end
        workgroupBarrier();
    }
    {
#inline add_products
    }
    let stride = params.columns;
    let first = (plane * params.rows + row + own_row) * stride + column + own_column;
#repeat part 16
    let index_#{part} = first + #{part/4*16}u * stride + #{part%4*16}u;
    coopStoreT(sums_#{part}, &parts[index_#{part}], stride);
#end
}
