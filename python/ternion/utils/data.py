"""Data sets and loaders of batches. Names, arguments and defaults are those of `torch.utils.data`.

    from ternion.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True, generator=1)
    for images, labels in loader:
        ...

Workers are threads. Where PyTorch takes a `torch.Generator`, a `ternion.Generator`, a seed or a
`random.Random` is accepted. Without one, the order is drawn from the random numbers of the device.
"""

from __future__ import annotations

import bisect
import itertools
import math
import operator
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from .._ternion import Tensor, as_tensor, float64, stack, tensor
from ._orders import (
    BatchSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler, batched, random_order, source_of,
)  # fmt: skip
from ._workers import Workers

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "IterableDataset", "RandomSampler", "Sampler", "SequentialSampler",
    "StackDataset", "Subset", "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "default_collate", "default_convert",
    "get_worker_info", "random_split",
]  # fmt: skip

# The type of an example. A class may omit it.
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Example = TypeVar("Example", covariant=True, default=Any)
else:
    from typing import TypeVar

    Example = TypeVar("Example", covariant=True)


def __dir__() -> list[str]:
    return __all__


# ---- Data sets


class Dataset(Generic[Example]):
    """A data set whose examples are accessed by index. A subclass defines `__getitem__` and
    `__len__`. `Dataset[tuple[Tensor, int]]` declares the type of an example.

    Raises:
        NotImplementedError: If the subclass does not define `__getitem__`.
    """

    def __getitem__(self, index: Any) -> Example:
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__()")

    def __add__(self, other: Any) -> ConcatDataset[Example]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[Example], Iterable[Example]):
    """A data set whose examples are iterated. A subclass defines `__iter__`.

    Raises:
        NotImplementedError: If the subclass does not define `__iter__`.
    """

    def __iter__(self) -> Iterator[Example]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__()")

    def __add__(self, other: Any) -> ChainDataset[Example]:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """A data set of the corresponding rows of several tensors. An example is a tuple.

    Raises:
        ValueError: If the tensors have different lengths, or if there are none.
    """

    def __init__(self, *tensors: Tensor):
        for value in tensors:
            if not isinstance(value, Tensor):
                raise TypeError(f"TensorDataset: a {type(value).__name__}, expected a tensor")
        lengths = {len(value) for value in tensors}
        if len(lengths) != 1:
            raise ValueError(f"TensorDataset: tensors of lengths {[len(value) for value in tensors]}, expected one length")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(value[index] for value in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class StackDataset(Dataset[Any]):
    """A data set of the corresponding examples of several data sets. An example is a tuple, or a
    dict if they are named.

    Raises:
        ValueError: If the data sets have different lengths, if there are none, or if some are named
            and some are not.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        if bool(args) == bool(kwargs):
            raise ValueError("StackDataset: expected data sets, all of them with a name or none")
        self.datasets: Any = args or kwargs
        lengths = {len(part) for part in (args or kwargs.values())}
        if len(lengths) != 1:
            raise ValueError(f"StackDataset: data sets of lengths {sorted(lengths)}, expected one length")
        self._length = lengths.pop()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: part[index] for name, part in self.datasets.items()}
        return tuple(part[index] for part in self.datasets)

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[Example]):
    """The concatenation of several data sets.

    Raises:
        ValueError: If there are no data sets.
        TypeError: If a data set is an `IterableDataset`.
    """

    def __init__(self, datasets: Iterable[Any]):
        self.datasets = [_indexed(part) for part in datasets]
        if not self.datasets:
            raise ValueError("ConcatDataset: no data sets")
        if any(isinstance(part, IterableDataset) for part in self.datasets):
            raise TypeError("ConcatDataset: an IterableDataset, expected data sets with examples by number: ChainDataset takes it")
        self.cumulative_sizes = list(itertools.accumulate(len(part) for part in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: Any) -> Any:
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"ConcatDataset: example {index} of {count}")
        index = int(index) % count
        number = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[number][index - (self.cumulative_sizes[number - 1] if number else 0)]


class ChainDataset(IterableDataset[Example]):
    """The concatenation of several iterable data sets.

    Raises:
        TypeError: When iterated, if a data set is not iterable.
    """

    def __init__(self, datasets: Iterable[Any]):
        self.datasets = list(datasets)

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self.datasets)

    def __len__(self) -> int:
        return sum(len(part) for part in self.datasets)


class Subset(Dataset[Example]):
    """The examples of a data set at the given indices.

    Raises:
        IndexError: When read, if an index is out of range.
    """

    def __init__(self, dataset: Any, indices: Sequence[int]):
        self.dataset, self.indices = _indexed(dataset), indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[position] for position in index]]
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[float], generator: Any = None) -> list[Subset]:
    """Splits a data set into disjoint parts, in random order.

    Args:
        lengths: The number of examples of each part, or fractions that sum to 1.
        generator: A seed, a `ternion.Generator` or a `random.Random`.

    Raises:
        ValueError: If the lengths do not sum to the length of the data set.
    """
    count, fractions = len(dataset), list(lengths)
    if math.isclose(sum(fractions), 1) and sum(fractions) <= 1:
        if any(not 0 <= fraction <= 1 for fraction in fractions):
            raise ValueError(f"random_split: shares {fractions}, expected 0 to 1")
        sizes = [math.floor(count * fraction) for fraction in fractions]
        for number in range(count - sum(sizes)):
            sizes[number % len(sizes)] += 1
    else:
        sizes = [operator.index(size) for size in lengths]  # type: ignore[arg-type]
    if sum(sizes) != count:
        raise ValueError(f"random_split: lengths {sizes} of {count} examples, expected that they sum to it")
    order, ends = random_order(count, source_of(generator)), list(itertools.accumulate(sizes))
    return [Subset(dataset, order[start:end]) for start, end in zip([0, *ends], ends)]


def _indexed(dataset: Any) -> Any:
    """Returns a data set with indexed examples. The images of `ternion.data` and their labels
    become one data set.
    """
    if not hasattr(dataset, "__getitem__") and hasattr(dataset, "images") and hasattr(dataset, "labels"):
        return TensorDataset(dataset.images, dataset.labels)
    return dataset


# ---- Batches


def default_convert(data: Any) -> Any:
    """Converts NumPy arrays and numbers to tensors, also in tuples, lists and dicts. Everything
    else is returned unchanged.
    """
    if isinstance(data, Tensor) or not _is_numpy(data):
        if isinstance(data, Mapping):
            return {key: default_convert(value) for key, value in data.items()}
        if isinstance(data, tuple) and hasattr(data, "_fields"):
            return type(data)(*(default_convert(value) for value in data))
        if isinstance(data, (tuple, list)):
            return [default_convert(value) for value in data]
        return data
    return data if data.dtype.kind in "SUO" else as_tensor(data)


def _is_numpy(value: Any) -> bool:
    return type(value).__module__ == "numpy" and hasattr(value, "dtype")


def default_collate(batch: Sequence[Any]) -> Any:
    """Combines examples into a batch: tensors, arrays and numbers are stacked along a new first
    axis; tuples, lists and dicts are combined by their parts; strings become a list.

    Raises:
        TypeError: If the examples have another type.
        ValueError: If shapes or lengths differ, or if there are no examples.
    """
    if len(batch) == 0:
        raise ValueError("default_collate: no examples")
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(list(batch))
    if _is_numpy(first):
        if first.dtype.kind in "SUO":
            raise TypeError(f"default_collate: an array of {first.dtype}, expected numbers")
        return stack([as_tensor(value) for value in batch])
    if isinstance(first, float):
        return tensor(list(batch), dtype=float64)
    if isinstance(first, int):
        return tensor(list(batch))
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return {key: default_collate([example[key] for example in batch]) for key in first}
    if isinstance(first, Sequence):
        return _collate_parts(first, batch)
    raise TypeError(f"default_collate: examples of type {type(first).__name__}, expected tensors, arrays, numbers, texts, dicts or lists: give a collate_fn")


def _collate_parts(first, batch):
    if any(len(example) != len(first) for example in batch):
        raise ValueError(f"default_collate: examples of {sorted({len(example) for example in batch})} parts, expected as many each")
    parts = [default_collate(part) for part in zip(*batch)]
    return type(first)(*parts) if isinstance(first, tuple) and hasattr(first, "_fields") else parts


class WorkerInfo(NamedTuple):
    """The index of a thread of a `DataLoader`, the number of threads, and the data set from which
    it fetches examples.
    """

    id: int
    num_workers: int
    dataset: Any


_worker = threading.local()


def get_worker_info() -> WorkerInfo | None:
    """Returns `id`, `num_workers` and `dataset` in a thread that fetches batches; None elsewhere.
    """
    return getattr(_worker, "info", None)


class DataLoader(Generic[Example]):
    """Iterates over batches of a data set. Each `iter` makes one pass.

    Args:
        dataset: An object with `__getitem__` and `__len__`, an `IterableDataset`, or images of
            `ternion.data`, such as `mnist().train`.
        batch_size: The number of examples per batch. None yields single examples without batching.
        shuffle: Uses a new random order in each epoch.
        sampler, batch_sampler: Custom orders: iterables of indices, or of lists of indices.
        num_workers: The number of threads that prefetch batches, in order. With 0, batches are
            fetched on demand.
        collate_fn: Combines a list of examples into a batch.
        pin_memory, persistent_workers: Accepted for compatibility with PyTorch (the latter only
            with workers); no effect.
        drop_last: Drops an incomplete last batch.
        timeout: The time in seconds after which a batch that a thread has not fetched raises an
            error; 0 waits without limit. Only with workers.
        worker_init_fn: Called by each thread with its index.
        generator: A seed, a `ternion.Generator` or a `random.Random` for the order.
        prefetch_factor: The number of batches that each thread prefetches. Default: 2.

    Raises:
        ValueError: If settings contradict each other.
    """

    def __init__(
        self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None, sampler: Any = None, batch_sampler: Any = None,
        num_workers: int = 0, collate_fn: Callable[[Any], Any] | None = None, pin_memory: bool = False, drop_last: bool = False, timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None, multiprocessing_context: Any = None, generator: Any = None, *,
        prefetch_factor: int | None = None, persistent_workers: bool = False, pin_memory_device: str = "", in_order: bool = True,
    ):  # fmt: skip
        self.dataset = _indexed(dataset)
        self.num_workers, self.timeout, self.worker_init_fn = num_workers, timeout, worker_init_fn
        self.prefetch_factor = (2 if num_workers else None) if prefetch_factor is None else prefetch_factor
        self.pin_memory, self.persistent_workers, self.generator = pin_memory, persistent_workers, source_of(generator)
        self._is_iterable = isinstance(self.dataset, IterableDataset) or not hasattr(self.dataset, "__getitem__")
        self._check(multiprocessing_context)
        self._set_sampling(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.collate_fn = collate_fn or (default_convert if self.batch_sampler is None and self.batch_size is None else default_collate)

    def _check(self, multiprocessing_context):
        if isinstance(self.num_workers, bool) or not isinstance(self.num_workers, int) or self.num_workers < 0:
            raise ValueError(f"DataLoader: num_workers {self.num_workers!r}, expected an integer of at least 0")
        if multiprocessing_context is not None:
            raise ValueError("DataLoader: a multiprocessing_context, expected None: workers are threads")
        if self._is_iterable and not hasattr(self.dataset, "__iter__"):
            raise TypeError(f"DataLoader: a data set of type {type(self.dataset).__name__}, expected one with __getitem__ and __len__, or with __iter__")
        if self._is_iterable and self.num_workers:
            raise ValueError(f"DataLoader: num_workers {self.num_workers} of a data set that is read in order, expected 0")
        if not self.num_workers and (self.timeout or self.persistent_workers):
            raise ValueError(f"DataLoader: timeout {self.timeout}, persistent_workers {self.persistent_workers}, expected neither without workers")
        if self.timeout < 0 or (self.prefetch_factor is not None and (self.prefetch_factor < 1 or not self.num_workers)):
            raise ValueError(f"DataLoader: timeout {self.timeout}, prefetch_factor {self.prefetch_factor}, expected at least 0, and at least 1 with workers")

    def _set_sampling(self, batch_size, shuffle, sampler, batch_sampler, drop_last):
        if self._is_iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError("DataLoader: shuffle, sampler or batch_sampler of a data set that is read in order, expected none of them")
        if sampler is not None and shuffle:
            raise ValueError("DataLoader: sampler and shuffle, expected one of them")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("DataLoader: batch_sampler together with batch_size, shuffle, sampler or drop_last, expected only batch_sampler")
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("DataLoader: drop_last without batches, expected a batch_size")
        if sampler is None and not self._is_iterable and batch_sampler is None:
            sampler = RandomSampler(self.dataset, generator=self.generator) if shuffle else SequentialSampler(self.dataset)
        if batch_size is not None and (isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1):
            raise ValueError(f"DataLoader: batch_size {batch_size!r}, expected an integer of at least 1, or None")
        if batch_size is not None and batch_sampler is None and not self._is_iterable:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last, self.sampler, self.batch_sampler = batch_size, drop_last, sampler, batch_sampler

    def __iter__(self) -> Iterator[Any]:
        if self._is_iterable:
            return self._read()
        order = iter(self.sampler if self.batch_sampler is None else self.batch_sampler)
        return map(self._fetch, order) if self.num_workers == 0 else self._prefetch(order)

    def _read(self):
        examples = iter(self.dataset)
        if self.batch_size is None:
            return map(self.collate_fn, examples)
        return map(self.collate_fn, batched(examples, self.batch_size, self.drop_last))

    def _fetch(self, chosen: Any) -> Any:
        """Returns the batch for a list of indices, or the example for an index."""
        if self.batch_sampler is None:
            return self.collate_fn(self.dataset[chosen])
        if type(self.dataset) is TensorDataset and self.collate_fn is default_collate:
            # Equivalent, but in one gather per tensor.
            rows = tensor([int(number) for number in chosen])
            return [value[rows.to(value.device)] for value in self.dataset.tensors]
        if hasattr(self.dataset, "__getitems__"):
            return self.collate_fn(self.dataset.__getitems__(chosen))
        return self.collate_fn([self.dataset[number] for number in chosen])

    def _prefetch(self, order: Iterator[Any]) -> Iterator[Any]:
        """Yields batches in order, prefetched by threads."""
        workers = Workers(self.num_workers, self._init_worker, self._fetch)
        waiting: deque[Any] = deque()
        try:
            for chosen in order:
                waiting.append(workers.submit(chosen))
                if len(waiting) > self.num_workers * (self.prefetch_factor or 1):
                    yield self._next_batch(waiting)
            while waiting:
                yield self._next_batch(waiting)
        finally:
            # Whatever the threads are doing: a program that continues, or ends, does not wait for
            # an item that never arrives.
            workers.stop()

    def _init_worker(self, number: int) -> None:
        _worker.info = WorkerInfo(number, self.num_workers, self.dataset)
        if self.worker_init_fn is not None:
            self.worker_init_fn(number)

    def _next_batch(self, waiting):
        try:
            return waiting.popleft().result(self.timeout or None)
        except FutureTimeout:
            raise RuntimeError(f"DataLoader: no batch after {self.timeout} seconds (timeout)") from None

    def __len__(self) -> int:
        if self._is_iterable:
            count = len(self.dataset)
            if self.batch_size is None:
                return count
            return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
