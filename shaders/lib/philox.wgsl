// Philox 4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"), which maps a
// counter and a key to 128 random bits, and the numbers that random.wgsl computes from them. Plain
// integer arithmetic, as in core's philox.rs.

const FIRST_MULTIPLIER: u32 = 0xD2511F53u;
const SECOND_MULTIPLIER: u32 = 0xCD9E8D57u;
// The golden ratio and the square root of 3, minus 1: added to the key after each round.
const FIRST_KEY_STEP: u32 = 0x9E3779B9u;
const SECOND_KEY_STEP: u32 = 0xBB67AE85u;

// Words 4 * number to 4 * number + 3 of the stream of `seed`.
fn philox(seed: vec2<u32>, number: vec2<u32>) -> vec4<u32> {
    var counter = vec4<u32>(number, 0u, 0u);
    var key = seed;
    for (var round = 0u; round < 10u; round += 1u) {
        let first_product = multiply_wide(FIRST_MULTIPLIER, counter.x);
        let second_product = multiply_wide(SECOND_MULTIPLIER, counter.z);
        counter = vec4<u32>(
            second_product.y ^ counter.y ^ key.x, second_product.x, first_product.y ^ counter.w ^ key.y, first_product.x);
        key += vec2<u32>(FIRST_KEY_STEP, SECOND_KEY_STEP);
    }
    return counter;
}

// The words of one block of this launch.
fn words_of(block: u32) -> vec4<u32> {
    let base = wide_add(state_bits(params.offsets.y + params.state_step), params.first_block);
    return philox(state_bits(params.offsets.y), wide_add(base, vec2<u32>(block, 0u)));
}

// ---------------------------------------------------------------- NUMBER of random.wgsl
//
// Returns the bits of element `number`, which is element `local` of the workgroup.

// The words of the workgroup, in order.
var<workgroup> drawn: array<u32, 1024>;

fn draw_words(block: u32, lane: u32) {
    let words = words_of(block);
    for (var part = 0u; part < 4u; part += 1u) {
        drawn[lane * 4u + part] = words[part];
    }
}

const UNIT: f32 = 5.9604644775390625e-8;

fn bits_number(number: u32, local: u32) -> u32 {
    return drawn[local] >> params.shift;
}

fn uniform_number(number: u32, local: u32) -> u32 {
    return y_rounded(f32(drawn[local] >> 8u) * UNIT);
}

// Uses two words for each element.
fn normal_number(number: u32, local: u32) -> u32 {
    return y_rounded(normal_of(drawn[2u * local], drawn[2u * local + 1u]));
}

fn dropout_number(number: u32, local: u32) -> u32 {
    if ((drawn[local] >> 8u) < params.threshold) {
        return 0u;
    }
    return y_rounded(x_at(element_index(2u, number)) * params.scale);
}

// ---------------------------------------------------------------- WRITE of random.wgsl
//
// Writes the elements of a workgroup, from `first` on.

fn write_elements(first: u32, lane: u32) {
    for (var local = lane; local < 256u * ELEMENTS; local += 256u) {
        let number = first + local;
        if (number < params.count) {
            y_put_bits(element_index(0u, number), NUMBER(number, local));
        }
    }
}

// For two elements in a word, where y begins at a word. Bits after the last element are kept.
fn write_pairs(first: u32, lane: u32) {
    for (var local = 2u * lane; local < 1024u; local += 512u) {
        let number = first + local;
        if (number < params.count) {
            let word = (params.offsets.x + number) / 2u;
            var bits = NUMBER(number, local);
            if (number + 1u < params.count) {
                bits |= NUMBER(number + 1u, local + 1u) << 16u;
            } else {
                bits |= y_word(word) & 0xffff0000u;
            }
            y_put_word(word, bits);
        }
    }
}
