// Copies y = x where elements that are contiguous in y are rows apart in x: a tile is read along
// one axis and written along the other one, through workgroup memory.
//
//   y [batch.., rows, columns]   dense
//   x of the same shape, with a stride of 1 along the rows
//
//      x, columns apart       tile        y, rows apart
//        ----------->         in          |   |   |
//        ----------->         workgroup   v   v   v       (lanes of a team are adjacent)
//                             memory
//
// A tile has 64 columns of x, of LINES words each: 64 if elements are words (COPY_TILE is
// copy_words), 32 if there are two in a word (copy_pairs), where pairs of rows become pairs of
// columns. Indices and strides are counted in words. The words of a column of the tile are permuted
// (XOR with the column or, for pairs, with half of it), so that the words that a team reads are in
// different banks. Limits: for pairs, rows, columns, offsets and strides are even; fewer than 2^31
// elements.

struct Parameters {
    launched: u32,
    // Axes of the batch.
    rank: u32,
    // Stride of x along the columns, and of y along the rows.
    x_step: u32,
    y_step: u32,
    // Words of a column of x, and number of columns.
    lines: u32,
    columns: u32,
    horizontal_tiles: u32,
    vertical_tiles: u32,
    batches: u32,
    _padding_0: u32,
    _padding_1: u32,
    _padding_2: u32,
    // First words of y and x.
    offsets: vec4<u32>,
    // Sizes and strides of the batch, in y and x.
    sizes: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 8>,
}

var<workgroup> tile: array<u32, 64u * LINES>;

// Where a tile begins: its batch in y and x, its first word along x, its first column.
struct Corner {
    y: u32,
    x: u32,
    line: u32,
    column: u32,
}

fn copy_words(corner: Corner, lane: u32) {
    let along = lane % 64u;
    let team = lane / 64u;
#repeat k 16
    let column_#{k} = min(corner.column + team + #{4 * k}u, params.columns - 1u);
    let word_#{k} = x_bits(corner.x + column_#{k} * params.x_step + min(corner.line + along, params.lines - 1u));
#end
#repeat k 16
    tile[(team + #{4 * k}u) * 64u + (along ^ (team + #{4 * k}u))] = word_#{k};
#end
    workgroupBarrier();
    let element_index = corner.y + corner.line * params.y_step + corner.column + along;
#repeat k 16
    if (corner.column + along < params.columns && corner.line + team + #{4 * k}u < params.lines) {
        y_put_word(element_index + (team + #{4 * k}u) * params.y_step, tile[along * 64u + ((team + #{4 * k}u) ^ along)]);
    }
#end
}

// `line` counts pairs of rows.
fn copy_pairs(corner: Corner, lane: u32) {
    let along = lane % 32u;
    let team = lane / 32u;
#repeat k 8
    let column_#{k} = min(corner.column + team + #{8 * k}u, params.columns - 1u);
    let word_#{k} = x_bits(corner.x + column_#{k} * params.x_step + min(corner.line + along, params.lines - 1u));
#end
#repeat k 8
    tile[(team + #{8 * k}u) * 32u + (along ^ ((team + #{8 * k}u) / 2u))] = word_#{k};
#end
    workgroupBarrier();
    let element_index = corner.y + 2u * corner.line * params.y_step + corner.column / 2u + along;
#repeat k 4
    let even_#{k} = tile[along * 64u + ((team + #{8 * k}u) ^ along)];
    let odd_#{k} = tile[along * 64u + 32u + ((team + #{8 * k}u) ^ along)];
    if (corner.column + 2u * along < params.columns && corner.line + team + #{8 * k}u < params.lines) {
        let first_#{k} = element_index + 2u * (team + #{8 * k}u) * params.y_step;
        y_put_word(first_#{k}, (even_#{k} & 0xffffu) | (odd_#{k} << 16u));
        y_put_word(first_#{k} + params.y_step, (even_#{k} >> 16u) | (odd_#{k} & 0xffff0000u));
    }
#end
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let number = workgroup_index(group, groups);
    let across = number / params.horizontal_tiles;
    let batch = across / params.vertical_tiles;
    let column = (number - across * params.horizontal_tiles) * 64u;
    let line = (across - batch * params.vertical_tiles) * LINES;
    if (batch < params.batches) {
        COPY_TILE(Corner(strided_index(0u, batch), strided_index(1u, batch), line, column), lane);
    }
}
