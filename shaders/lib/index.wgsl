// Numbers of threads and indices of elements. What stands here reads the fields of a shader's own Parameters: count, rank, offsets, sizes, strides.

// The number of the work group of a launch, which folds what does not fit one dimension into two: those from params.launched on have nothing to do.
fn group_number(group: vec3<u32>, groups: vec3<u32>) -> u32 {
    return group.y * groups.x + group.x;
}

// The index of element `number`, counted in row-major order, in the tensor with this number.
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

// The same of tensors that lie dense.
fn contiguous_index(tensor: u32, number: u32) -> u32 {
    return params.offsets[tensor] + number;
}

// Notes an index that is out of range, if it is the first since the host last looked. The record: how many, which launch, the index.
fn note_fault(index: vec2<u32>) {
    if (atomicAdd(&faults[0], 1u) == 0u) {
        atomicStore(&faults[1], params.fault);
        atomicStore(&faults[2], index.x);
        atomicStore(&faults[3], index.y);
    }
}

// A position from the bits of an element of an index tensor.
fn position_of_i32(bits: u32) -> vec2<u32> {
    return wide_from_i32(bitcast<i32>(bits));
}
fn position_of_i64(bits: vec2<u32>) -> vec2<u32> {
    return bits;
}
