"""Packed sequences, the recurrent layers that accept them, and single cells, compared with
PyTorch."""

import pytest

import ternion
from pytorch_reference import close, pair, same_gradients, torch_of, with_same_weights
from ternion import nn
from ternion.nn.utils import rnn

LENGTHS = [3, 5, 1, 5, 2]


def same_packed(ours, theirs):
    assert ours.batch_sizes.tolist() == theirs.batch_sizes.tolist()
    close(ours.data, theirs.data)
    for name in ("sorted_indices", "unsorted_indices"):
        index = getattr(theirs, name)
        assert (getattr(ours, name) is None) == (index is None)
    if theirs.sorted_indices is not None:
        assert ours.unsorted_indices[ours.sorted_indices].tolist() == list(range(len(index)))


class TestPacking:
    @pytest.mark.parametrize("batch_first", [False, True])
    @pytest.mark.parametrize("lengths, enforce_sorted", [(LENGTHS, False), ([6, 4, 4, 2, 1], True), ([2, 2, 2, 2, 2], True)])
    def test_and_padding_again_are_pytorchs(self, batch_first, lengths, enforce_sorted):
        torch = torch_of()
        x = pair(torch, 5, 6, 2) if batch_first else pair(torch, 6, 5, 2)
        ours = rnn.pack_padded_sequence(x[0], ternion.tensor(lengths), batch_first, enforce_sorted)
        theirs = torch.nn.utils.rnn.pack_padded_sequence(x[1], torch.tensor(lengths), batch_first, enforce_sorted)
        same_packed(ours, theirs)
        for settings in (dict(), dict(batch_first=True, padding_value=-1.0), dict(total_length=8)):
            actual, expected = rnn.pad_packed_sequence(ours, **settings), torch.nn.utils.rnn.pad_packed_sequence(theirs, **settings)
            close(actual[0], expected[0])
            assert actual[1].tolist() == expected[1].tolist() == lengths
        (ours.data * ours.data).sum().backward(), (theirs.data * theirs.data).sum().backward()
        close(x[0].grad, x[1].grad)

    @pytest.mark.parametrize("enforce_sorted", [False, True])
    def test_lists_are_packed_as_by_pytorch(self, enforce_sorted):
        torch = torch_of()
        lengths = sorted(LENGTHS, reverse=True) if enforce_sorted else LENGTHS
        ternion_sequences = [ternion.arange(length * 2).reshape(length, 2) for length in lengths]
        torch_sequences = [torch.arange(length * 2).reshape(length, 2) for length in lengths]
        ours, theirs = rnn.pack_sequence(ternion_sequences, enforce_sorted), torch.nn.utils.rnn.pack_sequence(torch_sequences, enforce_sorted)
        same_packed(ours, theirs)
        assert all(one.equal(other) for one, other in zip(rnn.unpack_sequence(ours), ternion_sequences))
        assert ours.to(ternion.float64).data.dtype == ternion.float64 and ours.cpu().data.tolist() == ours.data.tolist() and not ours.is_cuda

    def test_what_is_rejected(self):
        x = ternion.ones(4, 2, 3)
        for call, message in [
            (lambda: rnn.pack_padded_sequence(x, [2, 3]), "lengths \\[2, 3\\], expected the longest first: enforce_sorted=False"),
            (lambda: rnn.pack_padded_sequence(x, [5, 3]), "lengths \\[5, 3\\], expected 1 to 4"),
            (lambda: rnn.pack_padded_sequence(x, [3, 0]), "expected 1 to 4"),
            (lambda: rnn.pack_padded_sequence(x, [3]), "lengths of shape \\(1,\\) for 2 sequences"),
            (lambda: rnn.pad_packed_sequence(rnn.pack_padded_sequence(x, [3, 1]), total_length=2), "total_length 2, expected at least 3"),
            (lambda: nn.GRU(2, 3)(rnn.pack_padded_sequence(x, [3, 1])), "GRU: packed data of shape \\(4, 3\\), expected 2 axes, the last of 2"),
            (lambda: nn.GRU(3, 3)(rnn.pack_padded_sequence(x, [3, 1]), ternion.ones(1, 3, 3)), "a state of shape \\(1, 3, 3\\), expected \\(1, 2, 3\\)"),
        ]:
            with pytest.raises(ValueError, match=message):
                call()


def states_of(kind, torch, *shape):
    pairs = [pair(torch, *shape) for _ in range(2 if "LSTM" in kind else 1)]
    ternion_states, torch_states = tuple(ours for ours, _ in pairs), tuple(theirs for _, theirs in pairs)
    return pairs, (ternion_states if "LSTM" in kind else ternion_states[0]), (torch_states if "LSTM" in kind else torch_states[0])


def flat(kind, last):
    return list(last) if "LSTM" in kind else [last]


def same_results(ternion_layer, torch_layer, actual, expected, inputs):
    for ours, theirs in zip(actual, expected):
        close(ours, theirs)
    sum((ours * ours).sum() for ours in actual).backward()
    sum((theirs * theirs).sum() for theirs in expected).backward()
    same_gradients(ternion_layer, torch_layer, inputs)


LAYERS = [
    ("LSTM", dict()), ("LSTM", dict(num_layers=2, bidirectional=True)), ("GRU", dict(bidirectional=True, batch_first=True)),
    ("GRU", dict(num_layers=3, bias=False)), ("RNN", dict()), ("RNN", dict(nonlinearity="relu", num_layers=2, bidirectional=True)),
]  # fmt: skip


@pytest.mark.parametrize("kind, settings", LAYERS)
@pytest.mark.parametrize("with_state", [False, True])
@pytest.mark.parametrize("enforce_sorted", [False, True])
def test_layers_take_packed_sequences_as_pytorchs(kind, settings, with_state, enforce_sorted):
    torch = torch_of()
    ternion_layer, torch_layer = with_same_weights(getattr(nn, kind)(4, 3, **settings), getattr(torch.nn, kind)(4, 3, **settings))
    lengths = sorted(LENGTHS, reverse=True) if enforce_sorted else LENGTHS
    x = pair(torch, 5, 5, 4)
    pairs, own_states, their_states = states_of(kind, torch, ternion_layer.num_layers * (2 if ternion_layer.bidirectional else 1), 5, 3)
    ours = rnn.pack_padded_sequence(x[0], lengths, enforce_sorted=enforce_sorted)
    theirs = torch.nn.utils.rnn.pack_padded_sequence(x[1], torch.tensor(lengths), enforce_sorted=enforce_sorted)
    own_output, own_last = ternion_layer(ours, own_states if with_state else None)
    their_output, their_last = torch_layer(theirs, their_states if with_state else None)
    # The order of two sequences of the same length is unspecified, so they are compared unpacked.
    actual, expected = rnn.pad_packed_sequence(own_output)[0], torch.nn.utils.rnn.pad_packed_sequence(their_output)[0]
    results = [actual, *flat(kind, own_last)], [expected, *flat(kind, their_last)]
    same_results(ternion_layer, torch_layer, *results, [x, *(pairs if with_state else [])])


@pytest.mark.parametrize("settings", [dict(), dict(nonlinearity="relu", bias=False), dict(num_layers=2, bidirectional=True, batch_first=True)])
@pytest.mark.parametrize("with_state", [False, True])
def test_a_plain_layer_is_pytorchs(settings, with_state):
    torch = torch_of()
    ternion_layer, torch_layer = with_same_weights(nn.RNN(4, 3, **settings), torch.nn.RNN(4, 3, **settings))
    assert list(ternion_layer.state_dict()) == list(torch_layer.state_dict())
    x = pair(torch, 2, 6, 4)
    pairs, ours, theirs = states_of("RNN", torch, ternion_layer.num_layers * (2 if ternion_layer.bidirectional else 1), 2 if ternion_layer.batch_first else 6, 3)
    actual, expected = ternion_layer(x[0], ours if with_state else None), torch_layer(x[1], theirs if with_state else None)
    same_results(ternion_layer, torch_layer, actual, expected, [x, *(pairs if with_state else [])])


CELLS = [("RNNCell", dict()), ("RNNCell", dict(nonlinearity="relu", bias=False)), ("GRUCell", dict()), ("LSTMCell", dict()), ("LSTMCell", dict(bias=False))]


@pytest.mark.parametrize("kind, settings", CELLS)
@pytest.mark.parametrize("batch", [(), (6,)])
@pytest.mark.parametrize("with_state", [False, True])
def test_cells_are_pytorchs(kind, settings, batch, with_state):
    torch = torch_of()
    ternion_layer, torch_layer = with_same_weights(getattr(nn, kind)(4, 3, **settings), getattr(torch.nn, kind)(4, 3, **settings))
    assert list(ternion_layer.state_dict()) == list(torch_layer.state_dict()) and repr(ternion_layer) == repr(torch_layer)
    x = pair(torch, *batch, 4)
    pairs, ours, theirs = states_of(kind, torch, *batch, 3)
    actual, expected = ternion_layer(x[0], ours if with_state else None), torch_layer(x[1], theirs if with_state else None)
    same_results(ternion_layer, torch_layer, flat(kind, actual), flat(kind, expected), [x, *(pairs if with_state else [])])


@pytest.mark.parametrize("kind", ["RNNCell", "GRUCell", "LSTMCell", "RNN"])
def test_first_weights_are_as_large_as_pytorchs(kind):
    for parameter in getattr(nn, kind)(20, 400).parameters():
        assert 0.04 < parameter.abs().max().item() <= 0.05 and abs(parameter.mean().item()) < 0.01


def test_what_cells_reject():
    for call, kind, message in [
        (lambda: nn.RNN(4, 3, nonlinearity="gelu"), ValueError, "RNN: nonlinearity 'gelu'"),
        (lambda: nn.RNNCell(4, 3, nonlinearity="gelu"), ValueError, "RNNCell: nonlinearity 'gelu'"),
        (lambda: nn.GRUCell(4, 0), ValueError, "GRUCell: width 0"),
        (lambda: nn.GRUCell(4, 3)(ternion.ones(2, 3)), ValueError, r"GRUCell: an input of shape \(2, 3\), expected 1 or 2 axes, the last of 4"),
        (lambda: nn.GRUCell(4, 3)(ternion.ones(2, 4), ternion.ones(3)), ValueError, r"a state of shape \(3,\), expected \(2, 3\)"),
        (lambda: nn.LSTMCell(4, 3)(ternion.ones(2, 4), ternion.ones(2, 3)), TypeError, "LSTMCell: hx, expected a pair"),
        (lambda: nn.RNNCell(4, 3)([1.0]), TypeError, "RNNCell: an input of type list"),
    ]:
        with pytest.raises(kind, match=message):
            call()
