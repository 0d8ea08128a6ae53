"""Names of PyTorch that were missing, compared with PyTorch if it is installed."""

import warnings

import pytest
from pytorch_reference import close, pair, torch_of, with_same_weights

import ternion
from ternion import nn, optim, testing
from ternion.nn import functional as F
from ternion.utils.checkpoint import checkpoint_sequential


class TestFunctions:
    @pytest.mark.parametrize("p", [0.0, 1.0, 1.5, 2.0, float("inf")])
    def test_pdist(self, p):
        torch = torch_of()
        ours, theirs = pair(torch, 5, 3)
        actual, expected = F.pdist(ours, p), torch.nn.functional.pdist(theirs, p)
        close(actual, expected)
        if p >= 1:
            actual.square().sum().backward()
            expected.square().sum().backward()
            close(ours.grad, theirs.grad)
        with pytest.raises(ValueError, match=r"pdist: expected 2 axes, got shape \[2, 3, 4\]"):
            F.pdist(ternion.ones(2, 3, 4))

    @pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
    def test_pdist_of_several_blocks(self, p):
        torch = torch_of()
        ours, theirs = pair(torch, 1100, 30)
        actual, expected = F.pdist(ours, p), torch.nn.functional.pdist(theirs, p)
        close(actual, expected)
        actual.square().sum().backward()
        expected.square().sum().backward()
        close(ours.grad, theirs.grad)

    @pytest.mark.parametrize("name, settings", [("relu_", ()), ("elu_", (0.5,)), ("leaky_relu_", (0.2,))])
    def test_in_place(self, name, settings):
        x = ternion.tensor([-2.0, 0.0, 3.0])
        expected = getattr(F, name[:-1])(x, *settings)
        assert getattr(F, name)(x, *settings).equal(expected) and x.equal(expected)

    @pytest.mark.parametrize("settings", [{}, dict(swap=True, margin=0.5), dict(reduction="sum"), dict(distance_function=lambda a, b: (a - b).abs().sum(-1))])
    def test_triplets(self, settings):
        torch = torch_of()
        ours, theirs = zip(*(pair(torch, 6, 3) for _ in range(3)))
        expected = torch.nn.functional.triplet_margin_with_distance_loss(*theirs, **settings)
        close(F.triplet_margin_with_distance_loss(*ours, **settings), expected)
        close(nn.TripletMarginWithDistanceLoss(**settings)(*ours), expected)
        for call in (F.triplet_margin_with_distance_loss, lambda *_, **given: nn.TripletMarginWithDistanceLoss(**given)):
            with pytest.raises(ValueError, match="margin 0, expected above 0"):
                call(*ours, margin=0)

    @pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 3), (1, 3)])
    def test_variances_of_rows(self, shape):
        torch = torch_of()
        (ours, theirs), (target, their_target) = pair(torch, 4, 3), pair(torch, 4, 3)
        var = torch.rand(shape, dtype=torch.float64) + 0.1
        for reduction in ("none", "mean"):
            expected = torch.nn.functional.gaussian_nll_loss(theirs, their_target, var, reduction=reduction)
            close(F.gaussian_nll_loss(ours, target, ternion.tensor(var.numpy()), reduction=reduction), expected)

    def test_variances_that_are_none(self):
        x = ternion.zeros(4, 3)
        with pytest.raises(ValueError, match=r"gaussian_nll_loss: var of shape \(3,\) for an input of shape \(4, 3\)"):
            F.gaussian_nll_loss(x, x, ternion.ones(3))
        with pytest.raises(ValueError, match="gaussian_nll_loss: a variance below 0"):
            F.gaussian_nll_loss(x, x, ternion.full((4,), -1.0))
        # If there are as many rows as columns, a variance belongs to a row.
        square = ternion.zeros(2, 2)
        assert F.gaussian_nll_loss(square, square, ternion.tensor([1.0, 7.0]), reduction="none")[0].tolist() == [0, 0]

    @pytest.mark.parametrize("settings", [dict(scale_factor=1e9), dict(size=(2**40, 2**40)), dict(scale_factor=float("inf"))])
    def test_images_that_no_memory_holds(self, settings):
        with pytest.raises(MemoryError, match="interpolate: a result of shape .* more than memory holds"):
            nn.Upsample(**settings)(ternion.ones(1, 1, 2, 2))


class TestLayers:
    def test_softmax2d(self):
        torch = torch_of()
        for shape in ((2, 3, 4, 5), (3, 4, 5)):
            ours, theirs = pair(torch, *shape)
            close(nn.Softmax2d()(ours), torch.nn.Softmax2d()(theirs))
        with pytest.raises(ValueError, match=r"Softmax2d: an input of shape \(2, 3\), expected 3 or 4 axes"):
            nn.Softmax2d()(ternion.ones(2, 3))

    def test_buffers(self):
        values = ternion.ones(2)

        class Scaled(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = nn.Buffer(values)
                self.counts = nn.Buffer(ternion.zeros(1), persistent=False)
                self.plain = ternion.ones(1)

        module = Scaled()
        assert isinstance(module.scale, nn.Buffer) and not isinstance(values, nn.Buffer) and not isinstance(nn.Parameter(values), nn.Buffer)
        assert [name for name, _ in module.named_buffers()] == ["scale", "counts"] and list(module.state_dict()) == ["scale"]
        assert module.double().scale.dtype is ternion.float64 and module.plain.dtype is ternion.float32
        with pytest.raises(TypeError, match="Buffer: data of type int, expected a tensor"):
            nn.Buffer(3)

    def test_bases_and_weights_of_recurrent_layers(self):
        torch = torch_of()
        ternion_layer, torch_layer = with_same_weights(nn.LSTM(2, 3, 2, bidirectional=True), torch.nn.LSTM(2, 3, 2, bidirectional=True))
        assert isinstance(ternion_layer, nn.RNNBase) and isinstance(nn.GRUCell(2, 3), nn.RNNCellBase) and not isinstance(nn.Linear(1, 1), nn.RNNBase)
        for ours, theirs in zip(ternion_layer.all_weights, torch_layer.all_weights):
            assert len(ours) == len(theirs) == 4
            for one, other in zip(ours, theirs):
                close(one, other)
        assert [len(each) for each in nn.GRU(2, 3, bias=False).all_weights] == [2]

    def test_names(self):
        class Named(nn.Linear):
            def _get_name(self):
                return "Line"

        assert nn.ReLU()._get_name() == "ReLU" and repr(Named(1, 2)).startswith("Line(in_features=1")

    def test_parameter_dicts(self):
        parameter = nn.Parameter(ternion.ones(1))
        values = nn.ParameterDict({"a": parameter})
        assert values.get("a") is parameter and values.get("b") is None and values.get("b", 3) == 3
        assert values.setdefault("a", ternion.zeros(1)) is parameter and values.setdefault("b", ternion.zeros(1)).item() == 0
        copied = values.copy()
        assert isinstance(copied, nn.ParameterDict) and copied["a"] is parameter and list(copied) == ["a", "b"]
        assert values.popitem()[0] == "b" and list(values) == ["a"]
        assert list(values.fromkeys(["x", "y"], parameter)) == ["x", "y"]
        values.clear()
        with pytest.raises(KeyError):
            values.popitem()


def renaming(framework):
    class Renamed(framework.nn.Linear):
        def _load_from_state_dict(self, state_dict, prefix, *others):
            if prefix + "old" in state_dict:
                state_dict[prefix + "weight"] = state_dict.pop(prefix + "old")
            super()._load_from_state_dict(state_dict, prefix, *others)

    class Own(framework.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kept", framework.zeros(2))

        def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
            self.told = sorted(key for key in state_dict if key.startswith(prefix))
            if prefix + "needed" not in state_dict:
                missing_keys.append(prefix + "needed")

    return framework.nn.Sequential(Renamed(2, 1), Own(), framework.nn.Linear(1, 1))


class TestLoading:
    def test_modules_that_say_how(self):
        torch = torch_of()
        models = renaming(ternion), renaming(torch)
        results = []
        for framework, model in zip((ternion, torch), models):
            state = {key: framework.full(tuple(value.shape), 5.0) for key, value in model.state_dict().items()}
            state["0.old"] = state.pop("0.weight")
            state["1.more"] = framework.ones(1)
            before = dict(state)
            keys = model.load_state_dict(state, strict=False)
            assert list(state) == list(before)
            results.append((list(keys.missing_keys), list(keys.unexpected_keys), model[1].told, model[0].weight.tolist(), model[1].kept.tolist(), model[2].bias.tolist()))
        assert results[0] == results[1] == (["1.needed"], [], ["1.kept", "1.more"], [[5.0, 5.0]], [0.0, 0.0], [5.0])
        with pytest.raises(RuntimeError, match="missing: 1.needed"):
            models[0].load_state_dict(models[0].state_dict())


class TestTools:
    @pytest.mark.parametrize("segments", [1, 2, 3, 5])
    def test_checkpoints_of_sequences(self, segments):
        model = nn.Sequential(*(layer for _ in range(2) for layer in (nn.Linear(3, 3), nn.Tanh())), nn.Linear(3, 3))
        x = ternion.randn(4, 3, requires_grad=True)
        model(x).square().sum().backward()
        expected, x.grad = x.grad, None
        for functions in (model, list(model)):
            checkpoint_sequential(functions, segments, x, use_reentrant=False).square().sum().backward()
            assert x.grad.allclose(expected, atol=1e-6)
            x.grad = None
        with pytest.raises(ValueError, match="checkpoint_sequential: 6 segments of 5 functions, expected from 1 to as many"):
            checkpoint_sequential(model, 6, x)

    @pytest.mark.parametrize("kind, bias, affine", [("Conv2d", True, True), ("Conv1d", False, False), ("ConvTranspose2d", True, True), ("Linear", True, True)])
    def test_a_norm_within_the_layer_before(self, kind, bias, affine):
        layer = getattr(nn, kind)(*((3, 4) if kind == "Linear" else (3, 4, 2)), bias=bias)
        norm = getattr(nn, "BatchNorm2d" if kind.endswith("2d") else "BatchNorm1d")(4, affine=affine)
        x = ternion.randn(*dict(Conv2d=(6, 3, 5, 5), Conv1d=(6, 3, 5), ConvTranspose2d=(6, 3, 5, 5), Linear=(6, 3))[kind])
        for _ in range(3):
            norm(layer(x))
        if affine:
            norm.weight.data.uniform_(0.5, 2.0), norm.bias.data.normal_()
        layer.eval(), norm.eval()
        if kind == "Linear":
            fused = nn.utils.fuse_linear_bn_eval(layer, norm)
        else:
            fused = nn.utils.fuse_conv_bn_eval(layer, norm, transpose="Transpose" in kind)
        assert type(fused) is type(layer) and fused(x).allclose(norm(layer(x)), atol=1e-5)
        with pytest.raises(ValueError, match="bn_eval: modules in training"):
            nn.utils.fuse_conv_bn_eval(layer.train(), norm)
        with pytest.raises(ValueError, match="bn_eval: a batch norm without running statistics"):
            nn.utils.fuse_conv_bn_eval(layer.eval(), nn.BatchNorm1d(4, track_running_stats=False).eval())

    def test_layers_without_first_values(self):
        before = ternion.get_rng_state()
        layer = nn.utils.skip_init(nn.Linear, 3, 2, bias=False)
        assert layer.weight.shape == (2, 3) and layer.bias is None and ternion.get_rng_state() == before
        with pytest.raises(TypeError, match="skip_init: 3, expected a class of modules"):
            nn.utils.skip_init(3)

    @pytest.mark.parametrize("settings", [{}, dict(anneal_strategy="linear", anneal_epochs=4), dict(anneal_epochs=0), dict(swa_lr=[0.05, 0.2], anneal_epochs=3)])
    def test_rates_of_averaging(self, settings):
        torch = pytest.importorskip("torch")
        settings = {"swa_lr": 0.05, **settings}

        def rates(module, steps=8):
            groups = [{"params": [module.nn.Parameter(module.zeros(1))], "lr": lr} for lr in (0.4, 0.8)]
            optimizer = module.optim.SGD(groups, lr=0.1)
            before = module.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
            schedule, values = module.optim.swa_utils.SWALR(optimizer, **settings), []
            for step in range(steps):
                values += [group["lr"] for group in optimizer.param_groups]
                optimizer.step()
                # In Ternion, the last of several schedules determines the rate. With
                # anneal_epochs=0 the schedule ends at once, and only it is stepped.
                (before if step < 2 and settings.get("anneal_epochs") != 0 else schedule).step()
            return values

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert rates(ternion) == pytest.approx(rates(torch), rel=1e-12)
        for wrong, message in [(dict(anneal_strategy="x"), "anneal_strategy 'x'"), (dict(anneal_epochs=-1), "anneal_epochs -1"), (dict(swa_lr=[1.0, 2.0]), "2 rates for 1")]:
            with pytest.raises(ValueError, match=f"SWALR: {message}"):
                optim.swa_utils.SWALR(optim.SGD([nn.Parameter(ternion.zeros(1))]), **{**settings, "swa_lr": 0.1, **wrong})


class TestTesting:
    def test_gradcheck_takes_pytorchs_arguments(self):
        x = ternion.randn(3, dtype=ternion.float64, requires_grad=True)
        settings = dict(fast_mode=True, check_undefined_grad=False, check_batched_grad=False, check_grad_dtypes=True, masked=False)
        assert testing.gradcheck(func=lambda x: x.tanh(), inputs=(x,), **settings)
        for wrong in (dict(check_batched_grad=True), dict(check_forward_ad=True), dict(check_backward_ad=False)):
            ((name, value),) = wrong.items()
            with pytest.raises(ValueError, match=f"gradcheck: {name}={value}, expected {not value}"):
                testing.gradcheck(lambda x: x, x, **wrong)

    def test_gradients_of_gradients(self):
        x, w = (ternion.randn(3, 3, dtype=ternion.float64, requires_grad=True) for _ in range(2))
        assert testing.gradgradcheck(lambda x, w: ((x @ w).tanh(), x.exp()), (x, w))
        assert testing.gradgradcheck(lambda x: x * 3, x, gen_non_contig_grad_outputs=True)
        assert testing.gradgradcheck(lambda x: x.square().sum(), (x,), ternion.tensor(2.0, dtype=ternion.float64))

        class Cubed(ternion.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x**3

            @staticmethod
            def backward(ctx, grad):
                # The gradient is correct, but its gradient is not: the factor is treated as a
                # constant.
                return grad * 3 * ctx.saved_tensors[0].detach() ** 2

        assert testing.gradcheck(Cubed.apply, x) and not testing.gradgradcheck(Cubed.apply, x, raise_exception=False)
        with pytest.raises(testing.GradcheckError, match="^gradgradcheck: of the gradients: Jacobian mismatch for output 0 with respect to input 0"):
            testing.gradgradcheck(Cubed.apply, x)
        with pytest.raises(ValueError, match="gradgradcheck: 2 grad_outputs for 1 outputs"):
            testing.gradgradcheck(lambda x: x.exp(), x, (x, x))
        with pytest.raises(ValueError, match="gradgradcheck: check_fwd_over_rev=True, expected False"):
            testing.gradgradcheck(lambda x: x, x, check_fwd_over_rev=True)

    @pytest.mark.parametrize("dtype, low, high", [("float32", -9, 9), ("float64", -9, 9), ("float16", -9, 9), ("int64", -9, 9), ("int8", -9, 9), ("uint8", 0, 9), ("bool", 0, 1)])
    def test_made_tensors(self, dtype, low, high):
        kind = getattr(ternion, dtype)
        x = testing.make_tensor((40, 50), dtype=kind, device="cpu")
        assert x.shape == (40, 50) and x.dtype is kind and x.float().min().item() >= low and x.float().max().item() <= high
        assert x.float().max().item() > low + 0.8 * (high - low)
        x = testing.make_tensor(4, 6, dtype=kind, device="cpu", noncontiguous=True, low=0, high=2, exclude_zero=True)
        assert x.shape == (4, 6) and not x.is_contiguous() and not (x == 0).any()

    def test_made_tensors_that_ask_for_gradients(self):
        x = testing.make_tensor(3, dtype=ternion.float64, device="cpu", low=1, high=2, requires_grad=True)
        assert x.requires_grad and x.is_leaf and x.min() >= 1 and x.max() < 2
        for settings, message in [
            (dict(dtype=ternion.int64, requires_grad=True), "requires_grad of ternion.int64, expected a floating dtype"),
            (dict(dtype=ternion.float32, low=2, high=1), "from 2 to 1, expected the lower number first"),
            (dict(dtype=ternion.float32, low=float("nan")), "from nan to 9"), (dict(dtype=ternion.uint8, low=-7, high=-3), "from -7 to -3"),
            (dict(dtype=ternion.float32, noncontiguous=True, memory_format=1), "noncontiguous and memory_format"),
        ]:  # fmt: skip
            with pytest.raises(ValueError, match=f"make_tensor: {message}"):
                testing.make_tensor(2, device="cpu", **settings)
