// Tiles of attention whose operands are read as vec4, for 128 threads and widths up to 128.
//
//       right [64 inner][depth]                    matrix [64 inner][width]
//   left [64 rows][depth] -> scores 64 x 64   ->  weights, in workgroup memory  ->
//       output 64 x width += weights * matrix
//
// Threads are arranged 8 x 16. A thread with index i down (0 to 7) and j across (0 to 15) has the
// four rows from 4 i on of scores and output, and the four rows 32 further. Of the scores it has 4
// inner rows, 16 apart. Of the output it has the four columns from 4 j on and, with WIDE (more than
// 64 columns), the four columns 64 further.
//
//                      multiply-adds   vec4 reads from     barriers (twice as many if steps
//                                      workgroup memory    do not alternate between two buffers)
//   scores, 16 deep    512             48                  1
//   output, 16 inner   1024 (WIDE)     64                  2
//
// Registers: 32 for scores, 64 for an output (WIDE), 16 for what is read ahead (8 for 16-bit
// floats), about 20 for operands.
//
// For the operands of scores `which`, the shader provides LEFT_ROW(which, line) and
// RIGHT_ROW(which, inner), the index of a row's first vec4, and LEFT_WORDS(which, index) and
// RIGHT_WORDS(which, index), a vec4 in its memory format, which is that of q for all operands. For
// matrix `which`, it provides MATRIX_INDEX(which, inner, column), the index of the vec4 in this
// column of vec4, and MATRIX_WORDS(which, index). All of them use the last index for indices beyond
// an edge. VEC4S_ACROSS is the number of vec4 columns of a tile: 16, or 32 with WIDE.
//
// Workgroup memory, in vec4. OPERANDS_AT, OPERANDS_STRIDE, MATRIX_AT and TILE_MEMORY are in this
// unit:
//   weights    [64 inner][64 rows, padded by 4], from 0 on
//   operands   left [64 rows][16 indices, padded by 4; 4 more after each 4 rows],
//              right [64 inner][16 indices, padded by 4]: 656, from OPERANDS_AT on. Steps alternate
//              between two such buffers, OPERANDS_STRIDE apart, or use only one if that is 0
//   matrix     two buffers of 256, from MATRIX_AT on: 8 inner rows of 128 columns, or 16 of 64

var<workgroup> tile_memory: array<vec4<f32>, TILE_MEMORY>;

// The position of a thread. The 32 threads of a subgroup are arranged 4 x 8: they read 4 different
// vec4 of the left operand, and 8 of the right one.
fn tile_line(lane: u32) -> u32 {
    return lane % 32u / 8u + lane / 64u * 4u;
}

fn tile_across(lane: u32) -> u32 {
    return lane % 8u + lane / 32u % 2u * 8u;
}

// A thread's part of a tile of scores: for its 4 inner rows, its near 4 rows and its far 4.
struct TileScores {
#repeat inner 4
    near_#{inner}: vec4<f32>,
    far_#{inner}: vec4<f32>,
#end
}

// Values that are read ahead, in their memory format: a conversion to floats would wait for them.
#repeat load 2
var<private> left_row_#{load}: u32;
var<private> right_row_#{load}: u32;
var<private> next_left_#{load}: q_WORDS;
var<private> next_right_#{load}: q_WORDS;
var<private> next_matrix_#{load}: q_WORDS;
#end

// A thread's part of two outputs.
#repeat set 2
#repeat row 8
var<private> out_#{set}_near_#{row}: vec4<f32>;
var<private> out_#{set}_far_#{row}: vec4<f32>;
#end
#end

// Reads operands from index `begin` on; zeros beyond the depth.
fn read_operands(which: u32, begin: u32, depth: u32, lane: u32) {
    let in_depth = begin + lane % 4u * 4u < depth;
#repeat load 2
    next_left_#{load} = q_WORDS();
    next_right_#{load} = q_WORDS();
#end
    if (in_depth) {
#repeat load 2
        next_left_#{load} = LEFT_WORDS(which, left_row_#{load} + begin / 4u);
        next_right_#{load} = RIGHT_WORDS(which, right_row_#{load} + begin / 4u);
#end
    }
}

// Reads the first operands of a tile.
fn prefetch_scores(which: u32, first_line: u32, first_inner: u32, depth: u32, lane: u32) {
#repeat load 2
    left_row_#{load} = LEFT_ROW(which, first_line + lane / 4u + #{load*32}u) + lane % 4u;
    right_row_#{load} = RIGHT_ROW(which, first_inner + lane / 4u + #{load*32}u) + lane % 4u;
#end
    read_operands(which, 0u, depth, lane);
}

// Returns left * right^T, after prefetch_scores. No thread may still use the memory of the
// operands.
fn tile_of_scores(which: u32, depth: u32, lane: u32) -> TileScores {
#repeat row 8
#repeat inner 4
    var s_#{row}_#{inner} = 0.0;
#end
#end
    let write = lane / 4u * 5u + lane % 4u;
    let write_left = OPERANDS_AT + write + lane / 16u;
    let write_right = OPERANDS_AT + 336u + write;
    let read_left = OPERANDS_AT + tile_line(lane) * 21u;
    let read_right = OPERANDS_AT + 336u + tile_across(lane) * 5u;
    var buffer = 0u;
    for (var begin = 0u; begin < depth; begin += 16u) {
        tile_memory[buffer + write_left] = q_of_words(next_left_0);
        tile_memory[buffer + write_left + 168u] = q_of_words(next_left_1);
        tile_memory[buffer + write_right] = q_of_words(next_right_0);
        tile_memory[buffer + write_right + 160u] = q_of_words(next_right_1);
        workgroupBarrier();
        if (begin + 16u < depth) {
            read_operands(which, begin + 16u, depth, lane);
        }
        let left = buffer + read_left;
        let right = buffer + read_right;
#repeat quad 4
        {
#repeat inner 4
            let b_#{inner} = tile_memory[right + #{inner*80+quad}u];
#end
#repeat row 8
            let a_#{row} = tile_memory[left + #{row/4*168+row%4*5+quad}u];
#repeat inner 4
            s_#{row}_#{inner} += a_#{row}.x * b_#{inner}.x;
            s_#{row}_#{inner} += a_#{row}.y * b_#{inner}.y;
            s_#{row}_#{inner} += a_#{row}.z * b_#{inner}.z;
            s_#{row}_#{inner} += a_#{row}.w * b_#{inner}.w;
#end
#end
        }
#end
        if (OPERANDS_STRIDE == 0u) {
            workgroupBarrier();
        }
        buffer = OPERANDS_STRIDE - buffer;
    }
    var scores: TileScores;
#repeat inner 4
    scores.near_#{inner} = vec4<f32>(s_0_#{inner}, s_1_#{inner}, s_2_#{inner}, s_3_#{inner});
    scores.far_#{inner} = vec4<f32>(s_4_#{inner}, s_5_#{inner}, s_6_#{inner}, s_7_#{inner});
#end
    return scores;
}

// The index of a thread's vec4 `own` of the weights: near and far rows of its first inner row, of
// its second, and so on.
fn own_index(own: u32, lane: u32) -> u32 {
    return tile_across(lane) * 17u + tile_line(lane) + own / 2u * 272u + own % 2u * 8u;
}

// Stores a thread's part of the weights in workgroup memory.
fn put_tile(part: TileScores, lane: u32) {
    let index = own_index(0u, lane);
#repeat inner 4
    tile_memory[index + #{inner*272}u] = part.near_#{inner};
    tile_memory[index + #{inner*272+8}u] = part.far_#{inner};
#end
}

// Returns the weights that this thread stored with put_tile.
fn own_part(lane: u32) -> TileScores {
    let index = own_index(0u, lane);
    var part: TileScores;
#repeat inner 4
    part.near_#{inner} = tile_memory[index + #{inner*272}u];
    part.far_#{inner} = tile_memory[index + #{inner*272+8}u];
#end
    return part;
}

// Reads the matrix from `inner` on.
fn read_matrix(which: u32, inner: u32, lane: u32) {
#repeat load 2
    let number_#{load} = lane + #{load*128}u;
    let index_#{load} = MATRIX_INDEX(which, inner + number_#{load} / VEC4S_ACROSS, number_#{load} % VEC4S_ACROSS);
    next_matrix_#{load} = MATRIX_WORDS(which, index_#{load});
#end
}

// Adds weights * matrix to an output, after put_tile and read_matrix. No thread may still use the
// memory of the matrix.
#repeat set 2
fn add_tile_product_#{set}(which: u32, first_inner: u32, lane: u32) {
    let chunk = 256u / VEC4S_ACROSS;
    let lines = tile_line(lane);
    let across = MATRIX_AT + tile_across(lane);
    var buffer = 0u;
    for (var begin = 0u; begin < 64u; begin += chunk) {
        tile_memory[MATRIX_AT + buffer + lane] = q_of_words(next_matrix_0);
        tile_memory[MATRIX_AT + buffer + lane + 128u] = q_of_words(next_matrix_1);
        workgroupBarrier();
        if (begin + chunk < 64u) {
            read_matrix(which, first_inner + begin + chunk, lane);
        }
        for (var part = 0u; part < chunk; part += 8u) {
            let weights = (begin + part) * 17u + lines;
            let matrix = buffer + part * VEC4S_ACROSS + across;
#repeat inner 8
            {
                let w_0 = tile_memory[weights + #{inner*17}u];
                let w_1 = tile_memory[weights + #{inner*17+8}u];
                let near = tile_memory[matrix + #{inner}u * VEC4S_ACROSS];
#repeat row 8
                out_#{set}_near_#{row} += w_#{row/4}[#{row%4}] * near;
#end
                if (WIDE) {
                    let far = tile_memory[matrix + #{inner}u * VEC4S_ACROSS + 16u];
#repeat row 8
                    out_#{set}_far_#{row} += w_#{row/4}[#{row%4}] * far;
#end
                }
            }
#end
        }
        buffer = 256u - buffer;
    }
}

// Returns the near or far columns of a thread's row `row`.
fn out_row_#{set}(row: u32, far: bool) -> vec4<f32> {
    switch (row) {
#repeat row 8
        case #{row}u: { return select(out_#{set}_near_#{row}, out_#{set}_far_#{row}, far); }
#end
        default: { return vec4<f32>(); }
    }
}
#end

// The distance from the first row of a tile to a thread's row `row`.
fn row_offset(row: u32, lane: u32) -> u32 {
    return tile_line(lane) * 4u + row % 4u + row / 4u * 32u;
}

// ---------------------------------------------------------------- scores of four rows

// scale * product + mask, or -infinity if the key is masked, for four queries.
fn mask_queries(products: vec4<f32>, query: u32, key: u32, mask_head: u32) -> vec4<f32> {
    return vec4<f32>(
        score_of(products.x, query, key, mask_head),
        score_of(products.y, query + 1u, key, mask_head),
        score_of(products.z, query + 2u, key, mask_head),
        score_of(products.w, query + 3u, key, mask_head),
    );
}

// scale * product + mask, or -infinity if the key is masked, for four keys.
fn mask_keys(products: vec4<f32>, query: u32, key: u32, mask_head: u32) -> vec4<f32> {
    return vec4<f32>(
        score_of(products.x, query, key, mask_head),
        score_of(products.y, query, key + 1u, mask_head),
        score_of(products.z, query, key + 2u, mask_head),
        score_of(products.w, query, key + 3u, mask_head),
    );
}

// scale * product, for scores that are all unmasked.
fn scaled_tile(products: TileScores) -> TileScores {
    var scores: TileScores;
#repeat inner 4
    scores.near_#{inner} = products.near_#{inner} * params.scale;
    scores.far_#{inner} = products.far_#{inner} * params.scale;
#end
    return scores;
}

// e^x of four numbers that are not above 0.
fn vec4_exponentials(x: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(exponential(x.x), exponential(x.y), exponential(x.z), exponential(x.w));
}

// e^x as `exponential` in row.wgsl, but also for x above 0: infinite from 88.4 on.
fn exponential_or_infinity(x: f32) -> f32 {
    let bounded = clamp(x, -88.0296936, 88.9);
    let shifted = opaque(bounded * 1.442695022 + 12582912.0);
    let power = opaque(shifted - 12582912.0);
    let r = opaque(bounded - power * 0.6931457520) - power * 1.428606765e-06;
    let p = 0.5 + r * (0.1666666716 + r * (4.166645557e-02 + r * (8.333310485e-03 + r * (1.393453218e-03 + r * 1.989197044e-04))));
    let value = (1.0 + (r + (r * r) * p)) * bitcast<f32>((bitcast<u32>(shifted) << 23u) + 0x3f800000u);
    return select(value, x, is_nan(x));
}

fn vec4_weights(x: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(exponential_or_infinity(x.x), exponential_or_infinity(x.y), exponential_or_infinity(x.z), exponential_or_infinity(x.w));
}

// Returns the scores that are subtracted from the scores of four rows: the largest one of each row,
// or 0 if all keys so far are masked. Weights are then 0 instead of exp(-inf + inf).
fn bases_of(row_max: vec4<f32>) -> vec4<f32> {
    let bits = bitcast<vec4<u32>>(row_max);
    return select(row_max, vec4<f32>(), bits == vec4<u32>(0xff800000u));
}
