"""Functions whose arguments or defaults at PyTorch's top level differ from those in
`nn.functional`, and PyTorch's argument names."""

import pytest
from pytorch_reference import close, torch_of

import ternion

X, Y, TARGET = [[0.5, -1.0, 2.0], [1.5, 0.25, -0.5]], [[1.0, 0.5, -1.5], [0.5, 2.0, 1.0]], [[1.0, -1.0, 1.0], [-1.0, 1.0, 1.0]]


def tensors(T, *lists):
    return [T.tensor(values, dtype=T.float64) for values in lists]


REDUCED = {
    "hinge_embedding_loss": lambda T: tensors(T, X, TARGET),
    "margin_ranking_loss": lambda T: tensors(T, X, Y, TARGET),
    "cosine_embedding_loss": lambda T: tensors(T, X, Y, [1.0, -1.0]),
    "triplet_margin_loss": lambda T: tensors(T, X, Y, TARGET),
    "kl_div": lambda T: tensors(T, X, Y),
    "binary_cross_entropy_with_logits": lambda T: tensors(T, X, [[0.0, 1.0, 0.5], [1.0, 1.0, 0.0]]),
    "ctc_loss": lambda T: [T.tensor([[X[0], X[1]]] * 4, dtype=T.float64).log_softmax(-1).reshape(4, 2, 3), T.tensor([[1, 2], [2, 1]]), [4, 4], [2, 1]],
    "poisson_nll_loss": lambda T: [*tensors(T, X, Y), True, False, 1e-8],
}


class TestReductions:
    """Reductions given as numbers, where 0 is none: the losses are not reduced."""

    @pytest.mark.parametrize("name", REDUCED)
    def test_values(self, name):
        torch = torch_of()
        for reduction in ([], [0], [1], [2]):
            if name == "poisson_nll_loss" and not reduction:
                continue
            results = [getattr(T, name)(*REDUCED[name](T), **dict(zip(["reduction"], reduction))) for T in (ternion, torch)]
            assert tuple(results[0].shape) == tuple(results[1].shape)
            close(*results)

    def test_by_position(self):
        torch = torch_of()
        for T in (ternion, torch):
            x, y, target = tensors(T, X, Y, TARGET)
            one = T.tensor([1.0, -1.0], dtype=T.float64)
            assert T.hinge_embedding_loss(x, target, 0.5, 1).shape == T.margin_ranking_loss(x, y, target, 0.5, 2).shape == T.kl_div(x, y, 1).shape == ()
            assert T.triplet_margin_loss(x, y, target, 1.0, 2.0, 1e-6, False, 2).shape == T.cosine_embedding_loss(x, y, one, 0.1, 1).shape == ()
            assert T.binary_cross_entropy_with_logits(x, y, None, y, 1).shape == T.poisson_nll_loss(x, y, True, False, 1e-8, 2).shape == ()
            assert T.ctc_loss(*REDUCED["ctc_loss"](T), 0, 2, True).shape == ()

    @pytest.mark.parametrize("name", REDUCED)
    @pytest.mark.parametrize("reduction", ["mean", "none", True, 3, -1])
    def test_what_is_no_number_of_a_reduction(self, name, reduction):
        with pytest.raises((TypeError, ValueError), match=f"^{name}: reduction"):
            getattr(ternion, name)(*REDUCED[name](ternion), reduction=reduction)

    def test_layers_take_names(self):
        x, target = tensors(ternion, X, TARGET)
        assert ternion.nn.functional.hinge_embedding_loss(x, target).shape == ternion.nn.HingeEmbeddingLoss()(x, target).shape == ()


class TestOtherArguments:
    @pytest.mark.parametrize("call", [
        lambda T, x: T.batch_norm(x, None, None, None, None, True, 0.1, 1e-5, True),
        lambda T, x: T.batch_norm(x, T.ones(2).double() * 2, T.ones(2).double(), T.ones(2).double(), T.ones(2).double() * 4, False, 0.1, 1e-5, False),
        lambda T, x: T.instance_norm(x, T.ones(2).double() * 2, None, None, None, True, 0.1, 1e-5, False),
        lambda T, x: T.layer_norm(x, (3,), None, None, 1e-5, False),
        lambda T, x: T.layer_norm(x, (3,), cudnn_enable=True),
        lambda T, x: T.group_norm(x, 2, None, None, 1e-5, False),
        lambda T, x: T.group_norm(x, 2, cudnn_enabled=False),
        lambda T, x: T.celu(x, 0.5), lambda T, x: T.selu(x), lambda T, x: T.threshold(x, 0.1, -2.0), lambda T, x: T.rrelu(x, 0.1, 0.3, False),
        lambda T, x: T.max_pool1d(x, 2, 1, 1, 1, True),
    ])  # fmt: skip
    def test_values(self, call):
        torch = torch_of()
        close(*(call(T, T.tensor([X, Y], dtype=T.float64)) for T in (ternion, torch)), 1e-9)

    @pytest.mark.parametrize("call", [
        lambda T, x: T.celu(x, 0.5, True), lambda T, x: T.selu(x, True), lambda T, x: T.threshold(x, 0.1, -2.0, True), lambda T, x: T.max_pool1d(x, 2, return_indices=True),
        lambda T, x: T.batch_norm(x, None, None, None, None, True, 0.1, 1e-5), lambda T, x: T.poisson_nll_loss(x, x), lambda T, x: T.hinge_embedding_loss(x, x, size_average=True),
    ])  # fmt: skip
    def test_those_of_layers_are_rejected(self, call):
        torch = torch_of()
        for T in (torch, ternion):
            with pytest.raises(TypeError):
                call(T, T.ones(1, 2, 3))

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("options", [(), (False, 0), (False, 1), (False, 2), (False, 0, False, None, False, 1)])
    def test_what_belongs_to_bags(self, dtype, options):
        torch = torch_of()
        actual, expected = (T.embedding_bag(T.tensor(X, dtype=getattr(T, dtype)), T.tensor([0, 1, 1]), T.tensor([0, 2]), *options) for T in (ternion, torch))
        assert [part.tolist() for part in actual] == [part.tolist() for part in expected]


# Calls with PyTorch's argument names.
BY_NAME = [
    lambda T, x, i: T.max(input=x, other=-x), lambda T, x, i: x.max(other=-x), lambda T, x, i: T.min(input=x, other=-x), lambda T, x, i: x.min(other=-x),
    lambda T, x, i: T.gather(x, 0, i, sparse_grad=False), lambda T, x, i: T.isin(x, x[0], assume_unique=True), lambda T, x, i: T.dot(x[0], tensor=x[1]),
    lambda T, x, i: x[0].dot(tensor=x[1]), lambda T, x, i: T.broadcast_to(x, size=(2, 2, 3)), lambda T, x, i: x.broadcast_to(size=(2, 2, 3)), lambda T, x, i: x.expand(size=(2, 2, 3)),
    lambda T, x, i: x.repeat(repeats=(2, 1)), lambda T, x, i: x.tile(dims=(2, 1)), lambda T, x, i: T.tile(x, dims=(2,)), lambda T, x, i: T.swapdims(x, dim0=0, dim1=1),
    lambda T, x, i: x.swapdims(0, dim1=1), lambda T, x, i: T.split(tensor=x, split_size_or_sections=1)[1], lambda T, x, i: T.tensor_split(x, sections=2)[1],
    lambda T, x, i: x.tensor_split(indices=[1], dim=1)[1], lambda T, x, i: T.hsplit(x, sections=3)[2], lambda T, x, i: x.hsplit(indices=[1])[1], lambda T, x, i: x.vsplit(sections=2)[1],
    lambda T, x, i: T.vsplit(x, indices=[1])[0], lambda T, x, i: x[None].dsplit(sections=3)[1], lambda T, x, i: T.dsplit(x[None], indices=[1])[1], lambda T, x, i: x.new_zeros(size=(2, 3)),
    lambda T, x, i: x.new_ones(size=(2, 3)), lambda T, x, i: x.new_empty(size=(2, 3)).shape, lambda T, x, i: x.clone().copy_(other=-x), lambda T, x, i: T.linalg.vector_norm(x=x, ord=1),
    lambda T, x, i: T.linalg.vector_norm(input=x), lambda T, x, i: x.narrow_copy(1, -2, 2), lambda T, x, i: T.narrow_copy(x, dim=1, start=T.tensor(1), length=1),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BY_NAME)))
def test_arguments_by_their_names(number):
    torch = torch_of()
    actual, expected = (BY_NAME[number](T, T.tensor(X), T.tensor([[0, 1, 0]])) for T in (ternion, torch))
    assert (actual.tolist() == expected.tolist()) if hasattr(actual, "tolist") else tuple(actual) == tuple(expected)


@pytest.mark.parametrize("call, message", [
    (lambda x: x.gather(0, ternion.tensor([[0]]), sparse_grad=True), "gather: sparse_grad=True"), (lambda x: x.expand(2, 3, size=(2, 3)), "expand: size twice"),
    (lambda x: x.repeat(2, 3, repeats=(2, 3)), "repeat: repeats twice"), (lambda x: x.tile(2, dims=(2,)), "tile: dims twice"), (lambda x: x.new_zeros(2, size=(2,)), "new_zeros: size twice"),
    (lambda x: x.tensor_split(2, sections=2), "tensor_split: 2 of"), (lambda x: x.hsplit(), "hsplit: 0 of"), (lambda x: x.uniform_(0.0, 1.0, to=2.0), "uniform_: an end twice"),
    (lambda x: x.uniform_(begin=1.0), "unexpected keyword argument 'begin'"), (lambda x: ternion.linalg.vector_norm(), "neither of input and x"), (lambda x: x.max(0, other=x), "max: both"),
    (lambda x: x.bernoulli_(ternion.ones(2, 3) * 2), "bernoulli_: probabilities from 2 to 2"), (lambda x: x.bernoulli_(ternion.ones(5)), "bernoulli_: "),
])  # fmt: skip
def test_what_is_said_twice_or_not_at_all(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call(ternion.zeros(2, 3))


class TestDraws:
    def test_ends_by_their_names(self):
        x = ternion.zeros(1000)
        assert 2 < x.uniform_(**{"from": 2.0, "to": 3.0}).min() and x.max() < 3 and x.uniform_(to=0.5).max() < 0.5 and x.min() >= 0
        assert x.uniform_(-2.0, -1.0).max() < -1 and x.uniform_(**{"from": 0.5}).min() >= 0.5 and x.uniform_(low=0.5, high=0.75).max() < 0.75

    def test_probabilities_of_each_element(self):
        ternion.manual_seed(1)
        x = ternion.zeros(4000, 3)
        assert x.bernoulli_(ternion.tensor([0.0, 0.25, 1.0])) is x
        means = x.mean(0).tolist()
        assert means[0] == 0 and 0.2 < means[1] < 0.3 and means[2] == 1
        assert set(ternion.zeros(50, dtype=ternion.int64).bernoulli_(p=ternion.full((50,), 0.5, dtype=ternion.float64)).tolist()) == {0, 1}
        assert 400 < ternion.zeros(1000).bernoulli_().sum().item() < 600 and ternion.zeros(9).bernoulli_(1.0).sum() == 9

    @pytest.mark.parametrize("draw", [ternion.rand_like, ternion.randn_like, lambda x, **more: ternion.randint_like(x, 100, **more)])
    def test_generators(self, draw):
        x, create = ternion.zeros(3, 4, dtype=ternion.float64), lambda: ternion.Generator().manual_seed(5)
        first, again = draw(x, generator=create()), draw(x, generator=create())
        assert first.equal(again) and first.dtype == ternion.float64 and tuple(first.shape) == (3, 4) and not first.equal(draw(x))
        assert draw(x, generator=create(), dtype=ternion.float32, requires_grad=True).requires_grad
