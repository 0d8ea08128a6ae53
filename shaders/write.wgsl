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

// Where element `number` of an input lies, one of the four that are formed: side by side from a multiple of four on, or all at one place.
fn place_in_four(tensor: u32, number: u32) -> u32 {
    if (((RUNS >> tensor) & 1u) != 0u) {
        return four_places[tensor] / 4u * 4u + (number - four_first);
    }
    return four_places[tensor];
}

// The bits of the four with this number; behind the last element they mean nothing.
fn bits_of_four(four: u32) -> vec4<u32> {
    let number = four * 4u;
    if (number >= params.count) {
        return vec4<u32>();
    }
    four_first = number;
    if (params.rank == 1u) {
        // One axis: side by side, or all at one place.
        four_places = params.offsets + number * vec4<u32>(0u, (RUNS >> 1u) & 1u, (RUNS >> 2u) & 1u, (RUNS >> 3u) & 1u);
    } else {
        four_places = vec4<u32>(0u, located(1u, number), located(2u, number), located(3u, number));
    }
    return vec4<u32>(RESULT(number), RESULT(number + 1u), RESULT(number + 2u), RESULT(number + 3u));
}

// Stores them. What lies behind the last element is not y's and stays.
fn put_bits_of_four(four: u32, bits: vec4<u32>) {
    let number = four * 4u;
    if (number >= params.count) {
        return;
    }
    var place = params.offsets.x + number;
    if (params.rank != 1u) {
        place = located(0u, number);
    }
    if (number + 4u <= params.count) {
        y_put_four_bits(place / 4u, bits);
        return;
    }
    let is_ours = vec4<u32>(number, number + 1u, number + 2u, number + 3u) < vec4<u32>(params.count);
    y_put_four_bits(place / 4u, select(y_four_bits(place / 4u), bits, is_ours));
}

fn write_fours(thread: u32) {
    put_bits_of_four(thread, bits_of_four(thread));
}

// Two fours of a thread, 256 apart: reads of both are under way together.
fn write_fours_twice(thread: u32) {
    let near = thread / 256u * 512u + thread % 256u;
    let near_bits = bits_of_four(near);
    let far_bits = bits_of_four(near + 256u);
    put_bits_of_four(near, near_bits);
    put_bits_of_four(near + 256u, far_bits);
}
