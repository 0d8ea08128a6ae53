"""The samplers of `ternion.utils.data`, which determine the order of examples."""

from __future__ import annotations

import bisect
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Union

from .._ternion import Generator, float64, rand, randint, randperm

# The source of random numbers; None for those of the device.
Source = Union[random.Random, Generator, None]

# The type of the elements of a sampler. A class may omit it.
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Chosen = TypeVar("Chosen", covariant=True, default=Any)
else:
    from typing import TypeVar

    Chosen = TypeVar("Chosen", covariant=True)


def source_of(generator: Any) -> Source:
    """Returns the source of random numbers for orders."""
    if generator is None or isinstance(generator, (random.Random, Generator)):
        return generator
    if isinstance(generator, int) and not isinstance(generator, bool):
        return random.Random(generator)
    raise TypeError(f"a generator of type {type(generator).__name__}, expected a seed, a ternion.Generator or a random.Random")


def random_order(count: int, source: Source) -> list[int]:
    """Returns a random permutation of the integers from 0 to below `count`."""
    if not isinstance(source, random.Random):
        return randperm(count, generator=source).tolist() if count else []
    order = list(range(count))
    source.shuffle(order)
    return order


class Sampler(Generic[Chosen]):
    """Indices of examples in some order. A subclass defines `__iter__`, and `__len__` if possible.

    Raises:
        NotImplementedError: If the subclass does not define `__iter__`.
    """

    def __iter__(self) -> Iterator[Chosen]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__()")


class SequentialSampler(Sampler[int]):
    """The indices of all examples in their order.

    Raises:
        TypeError: When iterated, if the data set has no length.
    """

    def __init__(self, data_source: Any):
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """The indices of examples in random order, a new one in each iteration.

    Args:
        replacement: Whether to sample with replacement.
        num_samples: The number of samples. Default: the number of examples.
        generator: A seed, a `ternion.Generator` or a `random.Random`.

    Raises:
        ValueError: If `num_samples` is below 1.
        TypeError: If `replacement` is not a bool, or if the generator has another type.
    """

    def __init__(self, data_source: Any, replacement: bool = False, num_samples: int | None = None, generator: Any = None):
        if not isinstance(replacement, bool):
            raise TypeError(f"RandomSampler: replacement {replacement!r}, expected True or False")
        if num_samples is not None and (isinstance(num_samples, bool) or not isinstance(num_samples, int) or num_samples < 1):
            raise ValueError(f"RandomSampler: num_samples {num_samples!r}, expected an integer of at least 1")
        self.data_source, self.replacement, self._samples = data_source, replacement, num_samples
        self.generator = source_of(generator)

    @property
    def num_samples(self) -> int:
        """The number of samples."""
        return len(self.data_source) if self._samples is None else self._samples

    def __iter__(self) -> Iterator[int]:
        count, samples = len(self.data_source), self.num_samples
        if self.replacement:
            return iter(_random_indices(count, samples, self.generator))
        return itertools.islice(self._orders(count), samples) if count else iter(())

    def _orders(self, count):
        while True:
            yield from random_order(count, self.generator)

    def __len__(self) -> int:
        return self.num_samples


def _random_indices(count: int, samples: int, source: Source) -> list[int]:
    if not isinstance(source, random.Random):
        return randint(0, count, (samples,), generator=source).tolist()
    return [source.randrange(count) for _ in range(samples)]


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order.

    Raises:
        TypeError: If the generator is not a seed, a `ternion.Generator` or a `random.Random`.
    """

    def __init__(self, indices: Sequence[int], generator: Any = None):
        self.indices, self.generator = indices, source_of(generator)

    def __iter__(self) -> Iterator[int]:
        return (self.indices[position] for position in random_order(len(self.indices), self.generator))

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with the given weights.

    Args:
        replacement: Whether to sample with replacement.

    Raises:
        ValueError: If a weight is negative or not finite, if all weights are 0, if `num_samples` is
            below 1, or, without replacement, if it exceeds the number of positive weights.
    """

    def __init__(self, weights: Any, num_samples: int, replacement: bool = True, generator: Any = None):
        self.weights = [float(weight) for weight in weights]
        positive = sum(weight > 0 for weight in self.weights)
        if any(not 0 <= weight < math.inf for weight in self.weights) or not positive:
            raise ValueError("WeightedRandomSampler: weights, expected finite ones of at least 0, not all 0")
        if num_samples < 1 or (not replacement and num_samples > positive):
            raise ValueError(f"WeightedRandomSampler: num_samples {num_samples} of {positive} that can come, expected at least 1, and no more without replacement")
        self.num_samples, self.replacement, self.generator = num_samples, replacement, source_of(generator)

    def __iter__(self) -> Iterator[int]:
        if self.replacement:
            sums = list(itertools.accumulate(self.weights))
            last = max(index for index, weight in enumerate(self.weights) if weight > 0)
            return iter([min(bisect.bisect_right(sums, uniform * sums[-1]), last) for uniform in self._uniforms(self.num_samples)])
        # Takes the smallest of exponentially distributed times with these rates (Efraimidis and
        # Spirakis 2006).
        uniforms = self._uniforms(len(self.weights))
        times = [(-math.log(1 - uniform) / weight, index) for index, (uniform, weight) in enumerate(zip(uniforms, self.weights)) if weight > 0]
        return iter([index for _, index in sorted(times)[: self.num_samples]])

    def _uniforms(self, count):
        if not isinstance(self.generator, random.Random):
            return rand(count, dtype=float64, generator=self.generator).tolist()
        return [self.generator.random() for _ in range(count)]

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices of another sampler. The last one may be shorter, unless
    `drop_last`.

    Raises:
        ValueError: If `batch_size` is not a positive integer, or if `drop_last` is not a bool.
    """

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool):
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"BatchSampler: batch_size {batch_size!r}, expected an integer of at least 1")
        if not isinstance(drop_last, bool):
            raise ValueError(f"BatchSampler: drop_last {drop_last!r}, expected True or False")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        return batched(iter(self.sampler), self.batch_size, self.drop_last)

    def __len__(self) -> int:
        full, rest = divmod(len(self.sampler), self.batch_size)
        return full + (rest > 0 and not self.drop_last)


def batched(items: Iterator[Any], size: int, drop_last: bool) -> Iterator[list[Any]]:
    """Yields lists of `size` items. The last one may be shorter, unless `drop_last`."""
    while batch := list(itertools.islice(items, size)):
        if len(batch) == size or not drop_last:
            yield batch
