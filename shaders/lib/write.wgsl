// Ways of an elementwise shader to store RESULT(number), the bits of element `number` of y, counted in row-major order.

// A word of y that lies dense, one element in it.
fn write_single(word: u32) {
    if (word < params.count) {
        y_put_word(params.offsets.x + word, RESULT(word));
    }
}

// A word of y that lies dense, several elements in it. Those that are not y's keep their bits.
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
    let place = params.offsets.x / y_PER + word;
    if (mask != 0xffffffffu) {
        bits |= y_word(place) & ~mask;
    }
    y_put_word(place, bits);
}

// An element of y, wherever it lies.
fn write_anywhere(number: u32) {
    if (number < params.count) {
        y_put_bits(located(0u, number), RESULT(number));
    }
}

// ---------------------------------------------------------------- four elements that lie side by side, of y and of the inputs that have more than one

var<private> four_first: u32;
var<private> four_places: vec4<u32>;

// Where an input has element `number`, one of the four that are formed: side by side from a multiple of four on, or all at one place.
fn place_in_four(tensor: u32, number: u32) -> u32 {
    if (((RUNS >> tensor) & 1u) != 0u) {
        return four_places[tensor] / 4u * 4u + (number - four_first);
    }
    return four_places[tensor];
}

// Where the four that begins with element `number` begins in y, a, b and c, over RANK axes (0: any number). Each division is done once for all of them.
fn places_of_four(number: u32) -> vec4<u32> {
    let along_last = vec4<u32>(1u, (RUNS >> 1u) & 1u, (RUNS >> 2u) & 1u, (RUNS >> 3u) & 1u);
    if (RANK == 1u) {
        return params.offsets + number * along_last;
    }
    if (RANK == 2u) {
        let row = number / params.sizes[0].y;
        return params.offsets + row * strides_along(0u) + (number - row * params.sizes[0].y) * along_last;
    }
    var rest = number;
    var places = params.offsets;
    for (var axis = params.rank - 1u; axis > 0u; axis -= 1u) {
        let size = params.sizes[axis / 4u][axis % 4u];
        let next = rest / size;
        places += (rest - next * size) * strides_along(axis);
        rest = next;
    }
    return places + rest * strides_along(0u);
}

// Those of y, a, b and c.
fn strides_along(axis: u32) -> vec4<u32> {
    let half = axis / 4u;
    let part = axis % 4u;
    return vec4<u32>(params.strides[half][part], params.strides[2u + half][part], params.strides[4u + half][part], params.strides[6u + half][part]);
}

// The bits of the four that begins with element `number`; behind the last element they mean nothing.
fn bits_of_four(number: u32, places: vec4<u32>) -> vec4<u32> {
    if (number >= params.count) {
        return vec4<u32>();
    }
    four_first = number;
    four_places = places;
    return vec4<u32>(RESULT(number), RESULT(number + 1u), RESULT(number + 2u), RESULT(number + 3u));
}

// Stores them from `place` on. What lies behind the last element is not y's and stays.
fn put_bits_of_four(number: u32, place: u32, bits: vec4<u32>) {
    if (number >= params.count) {
        return;
    }
    if (number + 4u <= params.count) {
        y_put_four_bits(place / 4u, bits);
        return;
    }
    let is_ours = vec4<u32>(number, number + 1u, number + 2u, number + 3u) < vec4<u32>(params.count);
    y_put_four_bits(place / 4u, select(y_four_bits(place / 4u), bits, is_ours));
}

fn write_fours(thread: u32) {
    let number = 4u * thread;
    let places = places_of_four(number);
    put_bits_of_four(number, places.x, bits_of_four(number, places));
}

// Two fours of a thread, 256 apart: reads of both are under way together.
fn write_fours_twice(thread: u32) {
    let near = 4u * (thread / 256u * 512u + thread % 256u);
    let far = near + 1024u;
    let near_places = places_of_four(near);
    let far_places = places_of_four(far);
    let near_bits = bits_of_four(near, near_places);
    let far_bits = bits_of_four(far, far_places);
    put_bits_of_four(near, near_places.x, near_bits);
    put_bits_of_four(far, far_places.x, far_bits);
}
