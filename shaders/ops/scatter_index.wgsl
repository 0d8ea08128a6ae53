// The stages of scatter.wgsl, for one thread.

// Returns the index in y to which source `number` goes, or `invalid_key`.
fn key_of(number: u32) -> u32 {
    let position = POSITION(index_bits(strided_index(0u, number)));
    if (position.y != 0u || position.x >= params.size) {
        RECORD(position);
        return params.invalid_key;
    }
    return strided_index(1u, number) + position.x * params.step - params.low;
}

// RECORD of a stage whose positions an earlier stage has recorded.
fn record_nothing(position: vec2<u32>) {}

fn mark_winners(number: u32) {
    if (number < params.count) {
        let key = key_of(number);
        if (key != params.invalid_key) {
            winners_max(key, number + 1u);
        }
    }
}

fn put_winners(number: u32) {
    if (number < params.count) {
        let key = key_of(number);
        if (key != params.invalid_key && winners_bits(key) == number + 1u) {
            y_put_bits(params.low + key, source_bits(strided_index(2u, number)));
        }
    }
}

fn make_indices(number: u32) {
    if (number < params.count) {
        keys_put_bits(number, key_of(number));
        numbers_put_bits(number, number);
    }
}

// Returns whether a run of equal keys begins at pair `first`.
fn run_begins(first: u32) -> bool {
    let key = keys_bits(first);
    return key != params.invalid_key && (first == 0u || keys_bits(first - 1u) != key);
}

fn add_runs(first: u32) {
    if (first < params.count && run_begins(first)) {
        let key = keys_bits(first);
        let element_index = params.low + key;
        var sum = y_at(element_index);
        for (var pair = first; pair < params.count && keys_bits(pair) == key; pair += 1u) {
            sum = sum_of(sum, source_at(strided_index(2u, numbers_bits(pair))));
        }
        y_put(element_index, sum);
    }
}

fn add_rows(thread: u32) {
    let first = thread / params.columns;
    let column = thread - first * params.columns;
    if (first < params.count && run_begins(first)) {
        let key = keys_bits(first);
        let element_index = strided_index(0u, column) + key * params.y_row;
        let origin = strided_index(1u, column);
        var sum = y_at(element_index);
        for (var pair = first; pair < params.count && keys_bits(pair) == key; pair += 1u) {
            sum = sum_of(sum, source_at(origin + numbers_bits(pair) * params.source_row));
        }
        y_put(element_index, sum);
    }
}
