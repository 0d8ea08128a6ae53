"""Helpers for tests that compare with PyTorch: values, weights and gradients on both sides."""

import numpy as np
import pytest

import ternion


def torch_of():
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    return torch


def taken(here, there):
    """Returns both modules in float64, after loading the weights of `there` (PyTorch) into
    `here`."""
    here.double().load_state_dict({key: ternion.tensor(value.numpy()) for key, value in there.double().state_dict().items()})
    return here, there


def close(found, expected, tolerance=1e-10):
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=tolerance, atol=tolerance)


def pair(torch, *shape):
    values = torch.randn(*shape, dtype=torch.float64)
    return ternion.tensor(values.numpy()).requires_grad_(), values.requires_grad_()


def same_gradients(here, there, inputs):
    for name, parameter in there.named_parameters():
        close(dict(here.named_parameters())[name].grad, parameter.grad)
    for own, theirs in inputs:
        close(own.grad, theirs.grad)
