// WRITE of elementwise shaders: functions that store RESULT(number), the bits of element `number`
// of y, counted in row-major order.

// A word of a contiguous y, with one element per word.
fn write_single(word: u32) {
    if (word < params.count) {
        y_put_word(params.offsets.x + word, RESULT(word));
    }
}

// A word of a contiguous y, with several elements per word. Bits of elements that do not belong to
// y are kept.
fn write_packed(word: u32) {
    let head = params.offsets.x % y_PER;
    if (word >= (head + params.count + y_PER - 1u) / y_PER) {
        return;
    }
    let width = 32u / y_PER;
    let ones = (1u << width) - 1u;
    var bits = 0u;
    var mask = 0u;
    for (var part = 0u; part < y_PER; part += 1u) {
        // Before the first element this wraps, and is not below the count.
        let number = word * y_PER + part - head;
        if (number < params.count) {
            bits |= (RESULT(number) & ones) << (part * width);
            mask |= ones << (part * width);
        }
    }
    let element_index = params.offsets.x / y_PER + word;
    if (mask != 0xffffffffu) {
        bits |= y_word(element_index) & ~mask;
    }
    y_put_word(element_index, bits);
}

// An element of y, for any strides.
fn write_anywhere(number: u32) {
    if (number < params.count) {
        y_put_bits(strided_index(0u, number), RESULT(number));
    }
}

// ---------------------------------------------------------------- vec4 of y and of inputs

// The vec4 of y that is computed: its first element, and where it begins in y and in each input.
var<private> vec4_first: u32;
var<private> vec4_indices: vec4<u32>;

// ELEMENT_INDEX: returns the index in an input of element `number` of y, which is in the vec4 that
// is computed. The input has a vec4 for the vec4 of y, or one element for all four elements.
fn index_in_vec4(tensor: u32, number: u32) -> u32 {
    if (((VEC4_MASK >> tensor) & 1u) != 0u) {
        return vec4_indices[tensor] / 4u * 4u + (number - vec4_first);
    }
    return vec4_indices[tensor];
}

// The indices of the vec4 that begins with element `number` in y, a, b and c, over RANK axes (0:
// any number). Each division is computed once for all of them.
fn indices_of_vec4(number: u32) -> vec4<u32> {
    let along_last = vec4<u32>(1u, (VEC4_MASK >> 1u) & 1u, (VEC4_MASK >> 2u) & 1u, (VEC4_MASK >> 3u) & 1u);
    if (RANK == 1u) {
        return params.offsets + number * along_last;
    }
    if (RANK == 2u) {
        let row = number / params.sizes[0].y;
        return params.offsets + row * strides_along(0u) + (number - row * params.sizes[0].y) * along_last;
    }
    var rest = number;
    var element_indices = params.offsets;
    for (var axis = params.rank - 1u; axis > 0u; axis -= 1u) {
        let size = params.sizes[axis / 4u][axis % 4u];
        let next = rest / size;
        element_indices += (rest - next * size) * strides_along(axis);
        rest = next;
    }
    return element_indices + rest * strides_along(0u);
}

// The strides of y, a, b and c.
fn strides_along(axis: u32) -> vec4<u32> {
    let half = axis / 4u;
    let part = axis % 4u;
    return vec4<u32>(params.strides[half][part], params.strides[2u + half][part], params.strides[4u + half][part], params.strides[6u + half][part]);
}

// The bits of the vec4 that begins with element `number`. Beyond the last element they are
// undefined.
fn bits_of_vec4(number: u32, element_indices: vec4<u32>) -> vec4<u32> {
    if (number >= params.count) {
        return vec4<u32>();
    }
    vec4_first = number;
    vec4_indices = element_indices;
    return vec4<u32>(RESULT(number), RESULT(number + 1u), RESULT(number + 2u), RESULT(number + 3u));
}

// Stores the bits of a vec4 at `element_index`. Elements of the vec4 after the last element do not
// belong to y and are kept.
fn put_bits_of_vec4(number: u32, element_index: u32, bits: vec4<u32>) {
    if (number >= params.count) {
        return;
    }
    if (number + 4u <= params.count) {
        y_put_vec4_bits(element_index / 4u, bits);
        return;
    }
    let is_in_y = vec4<u32>(number, number + 1u, number + 2u, number + 3u) < vec4<u32>(params.count);
    y_put_vec4_bits(element_index / 4u, select(y_vec4_bits(element_index / 4u), bits, is_in_y));
}

fn write_vec4(thread: u32) {
    let number = 4u * thread;
    let element_indices = indices_of_vec4(number);
    put_bits_of_vec4(number, element_indices.x, bits_of_vec4(number, element_indices));
}

// Two vec4 per thread, 256 apart: the reads of both are in flight at the same time.
fn write_vec4_twice(thread: u32) {
    let near = 4u * (thread / 256u * 512u + thread % 256u);
    let far = near + 1024u;
    let near_indices = indices_of_vec4(near);
    let far_indices = indices_of_vec4(far);
    let near_bits = bits_of_vec4(near, near_indices);
    let far_bits = bits_of_vec4(far, far_indices);
    put_bits_of_vec4(near, near_indices.x, near_bits);
    put_bits_of_vec4(far, far_indices.x, far_bits);
}
