// Indices of threads and elements. These functions read the fields count, rank, offsets, sizes and
// strides of the shader's Parameters.

// Returns the index of the workgroup. A launch that does not fit in one dimension is folded into
// two: workgroups from params.launched on have no work.
fn workgroup_index(group: vec3<u32>, groups: vec3<u32>) -> u32 {
    return group.y * groups.x + group.x;
}

// Returns the index of element `number`, counted in row-major order, in tensor `tensor`.
fn strided_index(tensor: u32, number: u32) -> u32 {
    var rest = number;
    var element_index = params.offsets[tensor];
    for (var axis = params.rank - 1u; axis > 0u; axis -= 1u) {
        let size = params.sizes[axis / 4u][axis % 4u];
        let next = rest / size;
        element_index += (rest - next * size) * params.strides[tensor * 2u + axis / 4u][axis % 4u];
        rest = next;
    }
    return element_index + rest * params.strides[tensor * 2u][0];
}

// Returns the index of element `number` of a contiguous tensor.
fn contiguous_index(tensor: u32, number: u32) -> u32 {
    return params.offsets[tensor] + number;
}

// Records an index that is out of range, if it is the first since the host last read the record.
// The record contains the count, the id of the launch's check, and the index.
fn record_index_error(index: vec2<u32>) {
    if (atomicAdd(&index_errors[0], 1u) == 0u) {
        atomicStore(&index_errors[1], params.index_check);
        atomicStore(&index_errors[2], index.x);
        atomicStore(&index_errors[3], index.y);
    }
}

// Converts the bits of an element of an index tensor to a 64-bit position: the low and high word.
fn position_of_i32(bits: u32) -> vec2<u32> {
    return wide_from_i32(bitcast<i32>(bits));
}
fn position_of_i64(bits: vec2<u32>) -> vec2<u32> {
    return bits;
}
