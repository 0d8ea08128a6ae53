"""Helpers for tests that compare with PyTorch: values, weights and gradients on both sides."""

import numpy as np
import pytest

import ternion


def torch_of():
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    return torch


def with_same_weights(ours, theirs):
    """Returns both modules in float64, after loading the weights of `there` (PyTorch) into
    `here`."""
    ours.double().load_state_dict({key: ternion.tensor(value.numpy()) for key, value in theirs.double().state_dict().items()})
    return ours, theirs


def close(actual, expected, tolerance=1e-10):
    np.testing.assert_allclose(actual.detach().numpy(), expected.detach().numpy(), rtol=tolerance, atol=tolerance)


def pair(torch, *shape):
    values = torch.randn(*shape, dtype=torch.float64)
    return ternion.tensor(values.numpy()).requires_grad_(), values.requires_grad_()


def same_gradients(our_module, their_module, inputs):
    for name, parameter in their_module.named_parameters():
        close(dict(our_module.named_parameters())[name].grad, parameter.grad)
    for ours, theirs in inputs:
        close(ours.grad, theirs.grad)
