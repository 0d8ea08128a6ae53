// Sums of matrix products of f16, in f32, by cooperative matrices of 16 x 16 x 16 (tensor cores): parts[part, .., i, j] = sum over the part's k of
// a[.., i, k] * b[.., k, j]. A second launch (matmul.wgsl, sum_padded_parts) adds up the parts and does what follows.
//
//   parts   [splits, matrices, rows, columns], f32, dense: m and n rounded up to whole tiles
//   a       [.., m, k]     b [.., k, n]        four elements side by side along one of the two axes
//
//      right   k x n  |--|16|--|  128 columns          a step: 16 inner of 128 rows and 128 columns lie in work-group memory, twice: one is
//   left m x k  128 rows -> [ 128 x 128 of y ]         read while the other is written. 4 subgroups of 32 threads, each 64 x 64: 16 matrices
//
// Where vec4s lie along the inner axis, ACROSS is 4, else 32 (128 lines); a four more or two in STRIDE keep neighbours in different banks; UNIT is what a
// line counts in there, in elements. Compilers keep matrices in registers only in plain code: strides are numbers of the text, nothing in the loop is
// conditional, and all of it stands in the entry point, where its pieces (#block) are written out (#inline). So k is a multiple of 16, lines beyond an
// edge are read as the last ones, and there is room for their sums.

struct Parameters {
    launched: u32,
    rank: u32,
    m: u32,
    n: u32,
    splits: u32,
    // Inner indices, of all and of a part.
    k: u32,
    split_length: u32,
    matrices: u32,
    // From one inner index, row or column to the next, where that is not 1.
    left_slow: u32,
    right_slow: u32,
    // Rows and columns in `parts`.
    rows: u32,
    columns: u32,
    // First elements; nothing, a, b, nothing.
    offsets: vec4<u32>,
    // Of the axes before the matrices.
    sizes: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 8>,
}

var<workgroup> left_tile: array<vec4<f16>, 1536>;
var<workgroup> right_tile: array<vec4<f16>, 1536>;

// Tiles of a matrix.
fn count_of_tiles() -> u32 {
    return params.rows / 128u * (params.columns / 128u);
}

// The first row and column of a tile. Tiles that run together share rows and columns: bands of 8 rows of tiles, column by column.
fn corner_of_tile(tile: u32) -> vec2<u32> {
    let tile_columns = params.columns / 128u;
    let band = tile / (8u * tile_columns) * 8u;
    let high = min(params.rows / 128u - band, 8u);
    return vec2<u32>(band + tile % (8u * tile_columns) % high, tile % (8u * tile_columns) / high) * 128u;
}

// ---------------------------------------------------------------- pieces of the entry point

// Where a thread's vec4s of a step lie, in both operands and in work-group memory; reads those of the first step.
#block begin_reads
#repeat turn 4
    let left_slow_#{turn} = (lane + #{turn*128}u) / LEFT_ACROSS;
    let left_fast_#{turn} = (lane + #{turn*128}u) % LEFT_ACROSS;
    let left_put_#{turn} = left_slow_#{turn} * LEFT_STRIDE + left_fast_#{turn};
    var left_at_#{turn} = left_matrix + select((begin + left_slow_#{turn}) * params.left_slow + min(row + left_fast_#{turn} * 4u, params.m - 4u),
        min(row + left_slow_#{turn}, params.m - 1u) * params.left_slow + begin + left_fast_#{turn} * 4u, LEFT_RUNS) / 4u;
    let right_slow_#{turn} = (lane + #{turn*128}u) / RIGHT_ACROSS;
    let right_fast_#{turn} = (lane + #{turn*128}u) % RIGHT_ACROSS;
    let right_put_#{turn} = right_slow_#{turn} * RIGHT_STRIDE + right_fast_#{turn};
    var right_at_#{turn} = right_matrix + select((begin + right_slow_#{turn}) * params.right_slow + min(column + right_fast_#{turn} * 4u, params.n - 4u),
        min(column + right_slow_#{turn}, params.n - 1u) * params.right_slow + begin + right_fast_#{turn} * 4u, RIGHT_RUNS) / 4u;
    var left_#{turn} = a_f16(left_at_#{turn});
    var right_#{turn} = b_f16(right_at_#{turn});
#end
#end

// Adds the products of the step in this half of work-group memory.
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
    // Written out: a compiler that checks that all threads come to a matrix does not look into functions.
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
    let left_step = select(4u * params.left_slow, 4u, LEFT_RUNS);
    let right_step = select(4u * params.right_slow, 4u, RIGHT_RUNS);
    let own_row = lane / 64u * 64u;
    let own_column = lane / 32u % 2u * 64u;
    let own_left = own_row * LEFT_UNIT / 4u;
    let own_right = own_column * RIGHT_UNIT / 4u;
#repeat part 16
    var sums_#{part}: coop_mat16x16<f32, SUM>;
#end
#repeat turn 4
    left_tile[left_put_#{turn}] = left_#{turn};
    right_tile[right_put_#{turn}] = right_#{turn};
#end
    workgroupBarrier();
    var half = 0u;
    for (var step = 1u; step < steps; step += 1u) {
#repeat turn 4
        left_at_#{turn} += left_step;
        left_#{turn} = a_f16(left_at_#{turn});
        right_at_#{turn} += right_step;
        right_#{turn} = b_f16(right_at_#{turn});
#end
#inline add_products
        half = 768u - half;
#repeat turn 4
        left_tile[half + left_put_#{turn}] = left_#{turn};
        right_tile[half + right_put_#{turn}] = right_#{turn};
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
