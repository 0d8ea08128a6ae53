// The values of each row that the gradients of attention need: lse, and delta = rowsum(dy * y).
//
//   dy, y [batch, heads, queries, width], lse [batch, heads, queries]    any strides
//   lse_and_delta [batch, heads, queries, 2], dense
//
// A workgroup processes 16 rows. 16 threads share a row, and read it as vec4 if its layout allows
// it (VEC4S is 1, otherwise ELEMENTS is 1).

struct Parameters {
    launched: u32,
    // Number of rows.
    count: u32,
    rank: u32,
    width: u32,
    // First elements of dy, y and lse, and the strides of dy and y along a row.
    offsets: vec4<u32>,
    steps: vec4<u32>,
    // Sizes and strides of the space of rows.
    sizes: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 8>,
}

// [16 rows][16 threads, padded by 1 so that columns are in different banks].
var<workgroup> parts: array<f32, 272>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = workgroup_index(group, groups) * 16u + lane / 16u;
    let own = lane / 16u * 17u + lane % 16u;
    var sum = 0.0;
    if (row < params.count) {
        let dy_row = strided_index(0u, row);
        let y_row = strided_index(1u, row);
#repeat vec4_count VEC4S
        for (var element_index = lane % 16u; element_index < params.width / 4u; element_index += 16u) {
            sum += dot(dy_vec4(dy_row / 4u + element_index), y_vec4(y_row / 4u + element_index));
        }
#end
#repeat elements ELEMENTS
        for (var element_index = lane % 16u; element_index < params.width; element_index += 16u) {
            sum += dy_at(dy_row + element_index * params.steps.x) * y_at(y_row + element_index * params.steps.y);
        }
#end
    }
    parts[own] = sum;
    for (var width = 8u; width > 0u; width /= 2u) {
        workgroupBarrier();
        if (lane % 16u < width) {
            parts[own] += parts[own + width];
        }
    }
    if (lane % 16u == 0u && row < params.count) {
        // In a fully masked row, all weights are exp(-infinity - 0).
        let log_sum = lse_at(strided_index(2u, row));
        lse_and_delta_put(row * 2u, select(log_sum, 0.0, bitcast<u32>(log_sum) == 0xff800000u));
        lse_and_delta_put(row * 2u + 1u, parts[own]);
    }
}
