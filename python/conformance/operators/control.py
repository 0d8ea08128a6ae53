"""Subgraphs, sequences and optional values. A sequence is a list, and an empty optional value is
None."""

import ternion

from .table import numbers, operator, positive


@operator("If")
def conditional(node, condition):
    return tuple(node.run_graph("then_branch" if condition.item() else "else_branch"))


@operator("Loop")
def loop(node, count, condition, *carried):
    """Runs the body while the condition holds and the count is not reached. Outputs after the
    carried values are stacked."""
    limit = None if count is None else int(count.item())
    is_running = condition is None or bool(condition.item())
    values, gathered, iteration = list(carried), None, 0
    while is_running and (limit is None or iteration < limit):
        condition, *results = node.run_graph("body", ternion.tensor(iteration), ternion.tensor(is_running), *values)
        values, scans = results[: len(carried)], results[len(carried) :]
        gathered = [[] for _ in scans] if gathered is None else gathered
        for rows, row in zip(gathered, scans):
            rows.append(row)
        is_running, iteration = bool(condition.item()), iteration + 1
    if gathered is None and len(node.outputs) > len(carried):
        raise node.unsupported("no turn, whose outputs' shapes are not known")
    return tuple(values + [ternion.stack(rows) for rows in gathered or []])


@operator("Scan")
def scan(node, *values):
    """Runs the body for each element along the axes of the scanned inputs, forward or in
    reverse."""
    if node.opset < 9:
        raise node.unsupported("opset 8, which has an axis of batches")
    count = node.attribute("num_scan_inputs")
    state, scanned = list(values[:-count]), values[-count:]
    axes = node.attribute("scan_input_axes", [0] * count)
    backward = node.attribute("scan_input_directions", [0] * count)
    rows = [list(x.unbind(positive(axis, x.dim()))) for x, axis in zip(scanned, axes)]
    rows = [row[::-1] if is_backward else row for row, is_backward in zip(rows, backward)]
    gathered = [[] for _ in range(len(node.outputs) - len(state))]
    for elements in zip(*rows):
        results = node.run_graph("body", *state, *elements)
        state = results[: len(state)]
        for collected, row in zip(gathered, results[len(state) :]):
            collected.append(row)
    axes = node.attribute("scan_output_axes", [0] * len(gathered))
    backward = node.attribute("scan_output_directions", [0] * len(gathered))
    stacked = [ternion.stack(collected[::-1] if is_backward else collected, axis) for collected, axis, is_backward in zip(gathered, axes, backward)]
    return tuple(state + stacked)


@operator("SequenceEmpty")
def sequence_empty(node):
    return []


@operator("SequenceConstruct")
def sequence_construct(node, *values):
    return list(values)


@operator("SequenceLength")
def sequence_length(node, sequence):
    return ternion.tensor(len(sequence))


@operator("SequenceAt")
def sequence_at(node, sequence, position):
    return sequence[int(position.item())]


@operator("SequenceInsert")
def sequence_insert(node, sequence, value, position=None):
    index = len(sequence) if position is None else positive(int(position.item()), len(sequence))
    return sequence[:index] + [value] + sequence[index:]


@operator("SequenceErase")
def sequence_erase(node, sequence, position=None):
    index = positive(-1 if position is None else int(position.item()), len(sequence))
    return sequence[:index] + sequence[index + 1 :]


@operator("ConcatFromSequence")
def concat_from_sequence(node, sequence):
    join = ternion.stack if node.attribute("new_axis", 0) else ternion.cat
    return join(sequence, node.attribute("axis"))


@operator("SplitToSequence")
def split_to_sequence(node, x, split=None):
    """Splits into parts of these sizes, of one size, or into single elements, whose axis `keepdims`
    may remove."""
    axis = positive(node.attribute("axis", 0), x.dim())
    if split is None:
        return list(x.split(1, axis) if node.attribute("keepdims", 1) else x.unbind(axis))
    return list(x.split(int(split.item()) if split.dim() == 0 else numbers(split), axis))


@operator("SequenceMap")
def sequence_map(node, sequence, *others):
    """Runs the body for each item, together with the items of other sequences at the same index,
    and with other tensors."""
    results = []
    for index, item in enumerate(sequence):
        extra_items = [other[index] if isinstance(other, list) else other for other in others]
        results.append(node.run_graph("body", item, *extra_items))
    return tuple(list(column) for column in zip(*results))


@operator("Optional")
def optional(node, value=None):
    return value


@operator("OptionalHasElement")
def optional_has_element(node, value=None):
    return ternion.tensor(value is not None)


@operator("OptionalGetElement")
def optional_get_element(node, value):
    if value is None:
        raise ValueError("OptionalGetElement: there is no element")
    return value
