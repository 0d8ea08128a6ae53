// The steps of gemm.wgsl. All functions here use its parameters.

// ---------------------------------------------------------------- heads and operands

// The index of the current head among those of the launch, and the first elements of its operands.
var<private> own_head: u32;
var<private> left_first: u32;
var<private> right_first: u32;

// Returns the first element of head `number` of the launch, in a tensor that begins at `offset` and
// has these strides of heads (left_heads and so on).
fn head_offset(offset: u32, strides: vec4<u32>, number: u32) -> u32 {
    let global_head = params.first_head + number;
    return offset + global_head / params.heads * strides.x + global_head % params.heads / strides.w * strides.y + number / strides.w * strides.z;
}

fn choose_head(number: u32) {
    own_head = number;
    left_first = head_offset(params.offsets.x, params.left_heads, number);
    right_first = head_offset(params.offsets.y, params.right_heads, number);
}

fn left_vec4_index(line: u32, inner: u32) -> u32 {
    return (left_first + line * params.strides.x + inner * params.strides.y) / 4u;
}

fn right_vec4_index(line: u32, inner: u32) -> u32 {
    return (right_first + line * params.strides.z + inner * params.strides.w) / 4u;
}

fn left_vec4_step(inner: u32) -> u32 { return inner * params.strides.y / 4u; }
fn right_vec4_step(inner: u32) -> u32 { return inner * params.strides.w / 4u; }

// ---------------------------------------------------------------- masking by position

// The keys that are unmasked for any of 128 queries, and those that are unmasked for all of them.
struct KeyRange {
    first: u32,
    end: u32,
    first_inner: u32,
    end_inner: u32,
}

fn key_range_128(first_query: u32) -> KeyRange {
    let position = i32(first_query) + i32(params.keys) - i32(params.queries);
    let last = position + i32(min(127u, params.queries - 1u - first_query));
    return KeyRange(
        u32(max(position - params.window_left + 1i, 0i)),
        u32(clamp(last + params.window_right, 0i, i32(params.keys))),
        u32(max(last - params.window_left + 1i, 0i)),
        u32(clamp(position + params.window_right, 0i, i32(params.keys))),
    );
}

// Returns the first query that attends to any of 128 keys, and the end of these queries.
fn query_range(first_key: u32) -> vec2<u32> {
    let shift = i32(params.queries) - i32(params.keys);
    let last_key = i32(min(first_key + 127u, params.keys - 1u));
    return vec2<u32>(
        u32(max(i32(first_key) - params.window_right + 1i + shift, 0i)),
        u32(clamp(last_key + params.window_left + shift, 0i, i32(params.queries))),
    );
}

// ---------------------------------------------------------------- tiles of weights

// A tile of weights of a head.
struct WeightTile {
    first_query: u32,
    first_key: u32,
    // Whether any element of the tile is unmasked; whether all are.
    has_unmasked: bool,
    is_unmasked: bool,
}

// Returns the tile of a workgroup, and makes its head the current one.
fn tile_of_number(number: u32) -> WeightTile {
    let across = params.padded_keys / 128u;
    let down = params.padded_queries / 128u;
    choose_head(number / across / down);
    let first_query = number / across % down * 128u;
    let first_key = number % across * 128u;
    let keys = key_range_128(first_query);
    return WeightTile(
        first_query,
        first_key,
        first_key < keys.end && first_key + 128u > keys.first,
        first_key >= keys.first_inner && first_key + 128u <= keys.end_inner,
    );
}

// Replaces the products in the accumulators with scores.
fn compute_scores(tile: WeightTile, lane: u32) {
    if (!HAS_MASK && tile.is_unmasked) {
#repeat part 16
        sums_#{part} *= params.scale;
#end
        return;
    }
    let global_head = params.first_head + own_head;
    let mask_head = params.mask_offset + global_head / params.heads * params.mask.x + global_head % params.heads * params.mask.y;
    let query = tile.first_query + vec4s_row(lane) * 4u;
    let key = tile.first_key + vec4s_column(lane) * 4u;
#repeat part 16
    sums_#{part} = mask_keys(sums_#{part}, query + #{part/2%4+part/8*64}u, key + #{part%2*64}u, mask_head);
#end
}

fn store_weights(tile: WeightTile, lane: u32) {
    let row = own_head * params.padded_queries + tile.first_query + vec4s_row(lane) * 4u;
    let index = (row * params.padded_keys + tile.first_key) / 4u + vec4s_column(lane);
    let across = params.padded_keys / 4u;
#repeat part 16
    weights_put_vec4(index + #{part/2%4+part/8*64}u * across + #{part%2*16}u, sums_#{part});
#end
}

// One number for each of a thread's 8 rows: the near 4 and the far 4.
struct RowNumbers {
    near: vec4<f32>,
    far: vec4<f32>,
}

// The threads across a row store their numbers, one thread of each row combines them, and all
// threads read the result. This uses the memory of the operands, in which [16 threads across][128
// rows, padded by 4] fit.
fn put_across(own: RowNumbers, lane: u32) {
    let index = vec4s_column(lane) * 33u + vec4s_row(lane);
    vec4s_left[index] = own.near;
    vec4s_left[index + 16u] = own.far;
    workgroupBarrier();
}

fn broadcast_across(value: f32, lane: u32) -> RowNumbers {
    if (lane < 128u) {
        vec4s_right[lane / 4u][lane % 4u] = value;
    }
    workgroupBarrier();
    return RowNumbers(vec4s_right[vec4s_row(lane)], vec4s_right[vec4s_row(lane) + 16u]);
}

fn tile_of_weights(number: u32, lane: u32) {
    let tile = tile_of_number(number);
    if (!tile.has_unmasked) {
        return;
    }
    sum_vec4s(Work(tile.first_query, tile.first_key, 0u, params.inner), lane);
    compute_scores(tile, lane);
    var own: RowNumbers;
#repeat row 4
    {
        let near = max(sums_#{row*2}, sums_#{row*2+1});
        let far = max(sums_#{row*2+8}, sums_#{row*2+9});
        own.near[#{row}] = max(max(near.x, near.y), max(near.z, near.w));
        own.far[#{row}] = max(max(far.x, far.y), max(far.z, far.w));
    }
#end
    put_across(own, lane);
    let row = lane % 128u;
    var largest = vec4s_left[row / 4u][row % 4u];
#repeat other 15
    largest = max(largest, vec4s_left[#{other*33+33}u + row / 4u][row % 4u]);
#end
    let all_largest = broadcast_across(largest, lane);
    let base = RowNumbers(bases_of(all_largest.near), bases_of(all_largest.far));
#repeat row 4
    {
        sums_#{row*2} = vec4_exponentials(sums_#{row*2} - base.near[#{row}]);
        sums_#{row*2+1} = vec4_exponentials(sums_#{row*2+1} - base.near[#{row}]);
        sums_#{row*2+8} = vec4_exponentials(sums_#{row*2+8} - base.far[#{row}]);
        sums_#{row*2+9} = vec4_exponentials(sums_#{row*2+9} - base.far[#{row}]);
        let near = sums_#{row*2} + sums_#{row*2+1};
        let far = sums_#{row*2+8} + sums_#{row*2+9};
        own.near[#{row}] = (near.x + near.y) + (near.z + near.w);
        own.far[#{row}] = (far.x + far.y) + (far.z + far.w);
    }
#end
    store_weights(tile, lane);
    put_across(own, lane);
    if (lane < 128u) {
        var sum = 0.0;
        for (var other = 0u; other < 16u; other += 1u) {
            sum += vec4s_left[other * 33u + row / 4u][row % 4u];
        }
        parts_put_pair(2u * part_index(tile.first_query + row, tile.first_key), largest, sum);
    }
}

// Returns the index of a row's pair in `parts`, [heads][tiles across][padded_queries].
fn part_index(query: u32, key: u32) -> u32 {
    return (own_head * (params.padded_keys / 128u) + key / 128u) * params.padded_queries + query;
}

// Returns the index of a query's lse in lse_and_delta. Its delta follows.
fn lse_and_delta_index(query: u32) -> u32 {
    return 2u * ((params.first_head + own_head) * params.queries + min(query, params.queries - 1u));
}

fn tile_of_probabilities(number: u32, lane: u32) {
    let tile = tile_of_number(number);
    if (!tile.has_unmasked) {
        return;
    }
    sum_vec4s(Work(tile.first_query, tile.first_key, 0u, params.inner), lane);
    compute_scores(tile, lane);
    let query = tile.first_query + vec4s_row(lane) * 4u;
#repeat row 8
    {
        let log_sum = lse_and_delta_at(lse_and_delta_index(query + #{row%4+row/4*64}u));
        sums_#{row*2} = vec4_weights(sums_#{row*2} - log_sum);
        sums_#{row*2+1} = vec4_weights(sums_#{row*2+1} - log_sum);
    }
#end
    store_weights(tile, lane);
}

// Returns the gradients of scores, or 0 in columns beyond the last key, whose products are
// undefined.
fn grads_of_keys(grads: vec4<f32>, key: u32) -> vec4<f32> {
    return select(grads, vec4<f32>(), vec4<u32>(key, key + 1u, key + 2u, key + 3u) >= vec4<u32>(params.keys));
}

fn tile_of_score_grads(number: u32, lane: u32) {
    let tile = tile_of_number(number);
    if (!tile.has_unmasked) {
        return;
    }
    sum_vec4s(Work(tile.first_query, tile.first_key, 0u, params.inner), lane);
    let query = tile.first_query + vec4s_row(lane) * 4u;
    let key = tile.first_key + vec4s_column(lane) * 4u;
    let across = params.padded_keys / 4u;
    let index = (own_head * params.padded_queries + query) * across + key / 4u;
#repeat row 8
    {
        let delta = lse_and_delta_at(lse_and_delta_index(query + #{row%4+row/4*64}u) + 1u);
        let near = weights_vec4(index + #{row%4+row/4*64}u * across);
        let far = weights_vec4(index + #{row%4+row/4*64}u * across + 16u);
        sums_#{row*2} = grads_of_keys(near * (sums_#{row*2} - delta), key);
        sums_#{row*2+1} = grads_of_keys(far * (sums_#{row*2+1} - delta), key + 64u);
    }
#end
    store_weights(tile, lane);
}

// ---------------------------------------------------------------- tiles of outputs

// Stores a thread's part of a tile of the output, or of partial sum `split`.
fn put_output(first_line: u32, split: u32, lane: u32) {
    let first = head_offset(params.offsets.z, params.out_heads, own_head) + split * params.split_stride;
    let line = first_line + vec4s_row(lane) * 4u;
    let column = vec4s_column(lane) * 4u;
#repeat part 16
    if (line + #{part/2%4+part/8*64}u < params.lines && column + #{part%2}u * (VEC4S_COLUMNS / 2u) < params.n) {
        let element_index = first + (line + #{part/2%4+part/8*64}u) * params.offsets.w + column + #{part%2}u * (VEC4S_COLUMNS / 2u);
        out_put_vec4(element_index / 4u, OUTPUT(sums_#{part} * params.factor, line + #{part/2%4+part/8*64}u));
    }
#end
}

fn all_rows(output: vec4<f32>, line: u32) -> vec4<f32> {
    return output;
}

// Returns 0 for a fully masked row: its weights of 0 may have been multiplied by infinity or NaN.
fn unmasked_rows(output: vec4<f32>, line: u32) -> vec4<f32> {
    return select(output, vec4<f32>(), line_inverse_sum[line % 128u] == 0.0);
}

// Returns the range of indices, among those from `begin` to `end`, of partial sum `split`. All
// ranges except the last one consist of whole tiles.
fn part_of(begin: u32, end: u32, split: u32) -> vec2<u32> {
    let tiles = (max(end, begin) - begin + 127u) / 128u;
    let length = (tiles + params.splits - 1u) / params.splits * 128u;
    let first = begin + split * length;
    return vec2<u32>(first, min(first + length, end));
}

fn tile_of_output(number: u32, lane: u32) {
    let split = number % params.splits;
    let down = params.padded_queries / 128u;
    // The last queries come first: with a causal mask they have the most work.
    let first_query = (down - 1u - number / params.splits % down) * 128u;
    choose_head(number / params.splits / down);
    let keys = key_range_128(first_query);
    FIND_FACTORS(first_query, keys, split, lane);
    let part = part_of(keys.first / 128u * 128u, keys.end, split);
    sum_vec4s(Work(first_query, 0u, part.x, part.y), lane);
    put_output(first_query, split, lane);
}

// Without an additive mask, the error is not an output.
fn skip_lse_error(index: u32, error: f32) {}

// For each row of a tile of the output: the largest score of the row, or 0 if all its keys are
// masked; and 1 / the sum of its weights relative to that score, or 0 for a fully masked row.
var<workgroup> line_base: array<f32, 128>;
var<workgroup> line_inverse_sum: array<f32, 128>;

// Computes the rescaling of the weights of 128 queries, and stores their lse.
fn find_factors(first_query: u32, keys: KeyRange, split: u32, lane: u32) {
    let query = first_query + lane % 128u;
    var largest = lowest();
    for (var key = keys.first / 128u * 128u; key < keys.end; key += 128u) {
        largest = max(largest, parts_at(2u * part_index(query, key)));
    }
    let base = bases_of(vec4<f32>(largest)).x;
    var sum = 0.0;
    for (var key = keys.first / 128u * 128u; key < keys.end; key += 128u) {
        let element_index = 2u * part_index(query, key);
        sum += parts_at(element_index + 1u) * exponential(parts_at(element_index) - base);
    }
    let fully_masked = sum == 0.0 && !is_nan(sum);
    if (lane < 128u) {
        line_base[lane] = base;
        line_inverse_sum[lane] = select(1.0 / sum, 0.0, fully_masked);
        if (split == 0u && query < params.queries) {
            let global_head = params.first_head + own_head;
            let in_head = global_head / params.heads * params.lse.x + global_head % params.heads * params.lse.y;
            let log_sum = base + log_of(sum);
            lse_put(params.lse_offset + in_head + query * params.lse.z, select(log_sum, lowest(), fully_masked));
            let error = (base - opaque(log_sum)) + log_of(sum);
            STORE_LSE_ERROR(params.lse.w + in_head + query * params.lse.z, select(error, 0.0, fully_masked));
        }
    }
    workgroupBarrier();
}

fn skip_factors(first_query: u32, keys: KeyRange, split: u32, lane: u32) {}

// LEFT_PREFETCH and LEFT_FACTOR of tile_vec4.wgsl: the largest score of a row in a tile of weights,
// and the factor that makes these weights relative to all keys.
fn max_of_part(line: u32, inner: u32) -> f32 {
    return parts_at(2u * part_index(line, inner));
}

fn factor_of_part(line: u32, largest: f32) -> f32 {
    return exponential(largest - line_base[line % 128u]) * line_inverse_sum[line % 128u];
}

fn tile_of_key_output(number: u32, lane: u32) {
    let split = number % params.splits;
    let down = params.padded_keys / 128u;
    let first_key = number / params.splits % down * 128u;
    let first = number / params.splits / down * params.q_heads_per_kv;
    let queries = query_range(first_key);
    let part = part_of(queries.x, queries.y, split);
    for (var head = 0u; head < params.q_heads_per_kv; head += 1u) {
        choose_head(first + head);
        sum_vec4s(Work(first_key, 0u, part.x, part.y), lane);
    }
    put_output(first_key, split, lane);
}

// A thread adds the parts of a vec4 of an output, which are stored in `left`:
// [splits][heads][lines][columns].
fn add_parts(number: u32, lane: u32) {
    let across = params.n / 4u;
    let quad = number * THREADS + lane;
    let line = quad / across % params.lines;
    let head = quad / across / params.lines;
    if (head >= params.m) {
        return;
    }
    var sum = vec4<f32>();
    for (var split = 0u; split < params.splits; split += 1u) {
        sum += left_vec4(quad + split * (params.split_stride / 4u));
    }
    let first = head_offset(params.offsets.z, params.out_heads, head * params.out_heads.w);
    out_put_vec4((first + line * params.offsets.w) / 4u + quad % across, sum);
}
