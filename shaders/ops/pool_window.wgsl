// RESULT of pool.wgsl: the bits of element `number` of y. WANTED: whether the launch does anything.

fn always() -> bool { return true; }
fn where_strays() -> bool { return stray_bits(0u) != 0u; }

fn max_of_window(number: u32) -> y_BITS {
    let spot = spot_of(params.sizes[0], number);
    let plane = plane_at(1u, spot);
    let top = start_of(params.down, spot.row);
    let left = start_of(params.across, spot.column);
    let rows = taps_of(params.down, top);
    let columns = taps_of(params.across, left);
    // The first index on the image is the result unless a value is larger than -infinity.
    var best = lowest();
    var winner = (top + rows.low * params.down.dilation) * params.across.size + left + columns.low * params.across.dilation;
    for (var i = rows.low; i < rows.high; i += 1i) {
        let row = top + i * params.down.dilation;
        for (var j = columns.low; j < columns.high; j += 1i) {
            let column = left + j * params.across.dilation;
            let value = x_at(plane + pixel_at(1u, row, column));
            if (!is_nan(best) && (is_nan(value) || less(best, value))) {
                best = value;
                winner = row * params.across.size + column;
            }
        }
    }
    positions_put_bits(plane_at(2u, spot) + pixel_at(2u, spot.row, spot.column), u32(winner));
    return y_rounded(best);
}

// The divisor of the sum of a window.
fn divisor_of(rows: Taps, columns: Taps) -> f32 {
    if (params.whole > 0.0) {
        return params.whole;
    }
    return f32((rows.high - rows.low) * (columns.high - columns.low));
}

fn mean_of_window(number: u32) -> y_BITS {
    let spot = spot_of(params.sizes[0], number);
    let plane = plane_at(1u, spot);
    let top = start_of(params.down, spot.row);
    let left = start_of(params.across, spot.column);
    let rows = taps_of(params.down, top);
    let columns = taps_of(params.across, left);
    var sum = 0.0;
    for (var i = rows.low; i < rows.high; i += 1i) {
        for (var j = columns.low; j < columns.high; j += 1i) {
            sum += x_at(plane + pixel_at(1u, top + i, left + j));
        }
    }
    return y_rounded(sum / divisor_of(rows, columns));
}

fn mean_of_window_grad(number: u32) -> y_BITS {
    let spot = spot_of(params.sizes[0], number);
    let plane = plane_at(1u, spot);
    let rows = windows_over(params.down, spot.row);
    let columns = windows_over(params.across, spot.column);
    var sum = 0.0;
    for (var o = rows.first; o <= rows.last; o += 1i) {
        let row_taps = taps_of(params.down, start_of(params.down, o));
        for (var q = columns.first; q <= columns.last; q += 1i) {
            let divisor = divisor_of(row_taps, taps_of(params.across, start_of(params.across, q)));
            sum += x_at(plane + pixel_at(1u, o, q)) / divisor;
        }
    }
    return y_rounded(sum);
}

// Records a position outside the plane, and sets the flag for a position outside its window.
fn check_window(number: u32) {
    let counts = vec4<u32>(params.sizes[0].xy, u32(params.down.count), u32(params.across.count));
    let spot = spot_of(counts, number);
    let winner = bitcast<i32>(positions_bits(plane_at(2u, spot) + pixel_at(2u, spot.row, spot.column)));
    let row = winner / params.across.size;
    if (winner < 0i || row >= params.down.size) {
        note_fault(wide_from_i32(winner));
    } else if (!shows(params.down, spot.row, row) || !shows(params.across, spot.column, winner - row * params.across.size)) {
        atomicStore(&stray[0], 1u);
    }
}

fn max_of_window_grad(number: u32) -> y_BITS {
    for (var window = number; window < params.windows; window += params.count) {
        check_window(window);
    }
    let spot = spot_of(params.sizes[0], number);
    let own = u32(spot.row * params.across.size + spot.column);
    let plane = plane_at(1u, spot);
    let positions_plane = plane_at(2u, spot);
    let rows = windows_over(params.down, spot.row);
    let columns = windows_over(params.across, spot.column);
    var sum = 0.0;
    for (var o = rows.first; o <= rows.last; o += params.down.window_step) {
        for (var q = columns.first; q <= columns.last; q += params.across.window_step) {
            if (positions_bits(positions_plane + pixel_at(2u, o, q)) == own) {
                sum += x_at(plane + pixel_at(1u, o, q));
            }
        }
    }
    return y_rounded(sum);
}

// Sums over all windows of the plane, if a position is outside its own window.
fn strays_of_plane(number: u32) -> y_BITS {
    let spot = spot_of(params.sizes[0], number);
    let own = u32(spot.row * params.across.size + spot.column);
    let plane = plane_at(1u, spot);
    let positions_plane = plane_at(2u, spot);
    var sum = 0.0;
    for (var o = 0i; o < params.down.count; o += 1i) {
        for (var q = 0i; q < params.across.count; q += 1i) {
            if (positions_bits(positions_plane + pixel_at(2u, o, q)) == own) {
                sum += x_at(plane + pixel_at(1u, o, q));
            }
        }
    }
    return y_rounded(sum);
}
