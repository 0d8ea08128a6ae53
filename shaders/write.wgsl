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
