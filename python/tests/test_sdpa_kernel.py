"""`nn.attention.sdpa_kernel` accepts the same arguments as PyTorch's, and has no effect."""

import pytest

import ternion
from ternion.nn.attention import SDPBackend, sdpa_kernel


def attend():
    query = ternion.arange(24).float().reshape(1, 2, 3, 4) / 24
    return ternion.nn.functional.scaled_dot_product_attention(query, query, query, is_causal=True).tolist()


@pytest.mark.parametrize(
    "backends",
    [SDPBackend.MATH, [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION], [SDPBackend.CUDNN_ATTENTION]],
)
def test_a_scope_changes_nothing(backends):
    expected = attend()
    with sdpa_kernel(backends):
        assert attend() == expected
    with sdpa_kernel(backends, set_priority=True):
        assert attend() == expected

    @sdpa_kernel(backends)
    def decorated():
        return attend()

    assert decorated() == expected


def test_the_kernels_are_those_of_pytorch():
    attention = pytest.importorskip("torch.nn.attention")
    assert {kernel.name: kernel.value for kernel in SDPBackend} == {name: int(kernel) for name, kernel in attention.SDPBackend.__members__.items()}


def test_what_is_no_kernel_is_an_error():
    with pytest.raises(TypeError, match="sdpa_kernel: expected SDPBackend or a list of them, got str"):
        with sdpa_kernel("flash"):
            pass
    with pytest.raises(ValueError, match="expected a kernel, got an empty list"):
        with sdpa_kernel([]):
            pass
    with pytest.raises(ValueError, match="expected a kernel, got ERROR"):
        with sdpa_kernel(SDPBackend.ERROR):
            pass
