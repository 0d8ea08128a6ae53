"""Tensors with more elements than int32 can count."""

import os
import resource

import pytest

import ternion

COUNT = 2**31 + 10


@pytest.fixture(scope="module")
def large():
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if "SC_AVPHYS_PAGES" in os.sysconf_names else 0
    if free < 6 * 2**30:
        pytest.skip("needs 6 GiB of memory")
    x = ternion.zeros(COUNT, dtype=ternion.uint8)
    x[-1] = 7
    return x


def test_indices_of_extremes(large):
    assert large.argmax().item() == COUNT - 1
    values, indices = large.max(0)
    assert (values.item(), indices.item()) == (7, COUNT - 1)
    assert large.unsqueeze(0).argmax(1, keepdim=True).tolist() == [[COUNT - 1]]
    assert large.argmin().item() == 0


def test_sums_take_little_memory(large):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert large.sum().item() == 7 and large.sum(keepdim=True).shape == (1,)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20


def test_what_is_counted_in_int32_says_so(large):
    for name, call in {"sort": large.sort, "argsort": large.argsort, "topk": lambda: large.topk(1)}.items():
        with pytest.raises(ValueError, match=f"{name}: {COUNT} elements along axis -1, indices of at most 2147483648 fit int32"):
            call()
