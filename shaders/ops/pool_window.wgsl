// RESULT of pool.wgsl: the bits of element `number` of y. CONDITION returns whether the launch
// computes anything.

fn always() -> bool { return true; }
fn has_out_of_window() -> bool { return out_of_window_bits(0u) != 0u; }

fn max_of_window(number: u32) -> y_BITS {
    let coord = image_coord(params.sizes[0], number);
    let plane = plane_at(1u, coord);
    let top = window_start(params.vertical, coord.row);
    let left = window_start(params.horizontal, coord.column);
    let rows = tap_range(params.vertical, top);
    let columns = tap_range(params.horizontal, left);
    // The first index on the image is the result unless a value is larger than -infinity.
    var best = lowest();
    var winner = (top + rows.low * params.vertical.dilation) * params.horizontal.size + left + columns.low * params.horizontal.dilation;
    for (var i = rows.low; i < rows.high; i += 1i) {
        let row = top + i * params.vertical.dilation;
        for (var j = columns.low; j < columns.high; j += 1i) {
            let column = left + j * params.horizontal.dilation;
            let value = x_at(plane + pixel_at(1u, row, column));
            if (!is_nan(best) && (is_nan(value) || less(best, value))) {
                best = value;
                winner = row * params.horizontal.size + column;
            }
        }
    }
    positions_put_bits(plane_at(2u, coord) + pixel_at(2u, coord.row, coord.column), u32(winner));
    return y_rounded(best);
}

// The divisor of the sum of a window.
fn divisor_of(rows: TapRange, columns: TapRange) -> f32 {
    if (params.divisor > 0.0) {
        return params.divisor;
    }
    return f32((rows.high - rows.low) * (columns.high - columns.low));
}

fn mean_of_window(number: u32) -> y_BITS {
    let coord = image_coord(params.sizes[0], number);
    let plane = plane_at(1u, coord);
    let top = window_start(params.vertical, coord.row);
    let left = window_start(params.horizontal, coord.column);
    let rows = tap_range(params.vertical, top);
    let columns = tap_range(params.horizontal, left);
    var sum = 0.0;
    for (var i = rows.low; i < rows.high; i += 1i) {
        for (var j = columns.low; j < columns.high; j += 1i) {
            sum += x_at(plane + pixel_at(1u, top + i, left + j));
        }
    }
    return y_rounded(sum / divisor_of(rows, columns));
}

fn mean_of_window_grad(number: u32) -> y_BITS {
    let coord = image_coord(params.sizes[0], number);
    let plane = plane_at(1u, coord);
    let rows = windows_containing(params.vertical, coord.row);
    let columns = windows_containing(params.horizontal, coord.column);
    var sum = 0.0;
    for (var o = rows.first; o <= rows.last; o += 1i) {
        let row_taps = tap_range(params.vertical, window_start(params.vertical, o));
        for (var q = columns.first; q <= columns.last; q += 1i) {
            let divisor = divisor_of(row_taps, tap_range(params.horizontal, window_start(params.horizontal, q)));
            sum += x_at(plane + pixel_at(1u, o, q)) / divisor;
        }
    }
    return y_rounded(sum);
}

// Records a position outside the plane, and sets the flag for a position outside its window.
fn check_window(number: u32) {
    let counts = vec4<u32>(params.sizes[0].xy, u32(params.vertical.count), u32(params.horizontal.count));
    let coord = image_coord(counts, number);
    let winner = bitcast<i32>(positions_bits(plane_at(2u, coord) + pixel_at(2u, coord.row, coord.column)));
    let row = winner / params.horizontal.size;
    if (winner < 0i || row >= params.vertical.size) {
        record_index_error(wide_from_i32(winner));
    } else if (!contains_pixel(params.vertical, coord.row, row) || !contains_pixel(params.horizontal, coord.column, winner - row * params.horizontal.size)) {
        atomicStore(&out_of_window[0], 1u);
    }
}

fn max_of_window_grad(number: u32) -> y_BITS {
    for (var window = number; window < params.windows; window += params.count) {
        check_window(window);
    }
    let coord = image_coord(params.sizes[0], number);
    let own = u32(coord.row * params.horizontal.size + coord.column);
    let plane = plane_at(1u, coord);
    let positions_plane = plane_at(2u, coord);
    let rows = windows_containing(params.vertical, coord.row);
    let columns = windows_containing(params.horizontal, coord.column);
    var sum = 0.0;
    for (var o = rows.first; o <= rows.last; o += params.vertical.window_step) {
        for (var q = columns.first; q <= columns.last; q += params.horizontal.window_step) {
            if (positions_bits(positions_plane + pixel_at(2u, o, q)) == own) {
                sum += x_at(plane + pixel_at(1u, o, q));
            }
        }
    }
    return y_rounded(sum);
}

// Sums over all windows of the plane, if a position is outside its own window.
fn max_of_plane_grad(number: u32) -> y_BITS {
    let coord = image_coord(params.sizes[0], number);
    let own = u32(coord.row * params.horizontal.size + coord.column);
    let plane = plane_at(1u, coord);
    let positions_plane = plane_at(2u, coord);
    var sum = 0.0;
    for (var o = 0i; o < params.vertical.count; o += 1i) {
        for (var q = 0i; q < params.horizontal.count; q += 1i) {
            if (positions_bits(positions_plane + pixel_at(2u, o, q)) == own) {
                sum += x_at(plane + pixel_at(1u, o, q));
            }
        }
    }
    return y_rounded(sum);
}
