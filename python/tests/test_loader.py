"""`ternion.utils.data`: data sets, samplers and batches, compared with PyTorch if it is
installed."""

import collections
import random
import threading
import time

import numpy as np
import pytest

import ternion
from ternion import data, nn
from ternion.utils.data import (
    BatchSampler, ChainDataset, ConcatDataset, DataLoader, Dataset, IterableDataset, RandomSampler, Sampler, SequentialSampler, StackDataset,
    Subset, SubsetRandomSampler, TensorDataset, WeightedRandomSampler, default_collate, default_convert, get_worker_info, random_split,
)  # fmt: skip


class Squares(Dataset):
    def __init__(self, count=10):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index >= self.count:
            raise IndexError(index)
        return ternion.tensor([float(index)]), index * index


class Stream(IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return iter(range(self.count))


def rows(count=10):
    return TensorDataset(ternion.arange(count * 2).reshape(count, 2), ternion.arange(count))


class TestDatasets:
    def test_rows_of_tensors(self):
        one = rows()
        assert len(one) == 10 and [part.tolist() for part in one[3]] == [[6, 7], 3] and one[2:4][1].tolist() == [2, 3]
        with pytest.raises(ValueError, match="tensors of lengths \\[2, 3\\], expected one length"):
            TensorDataset(ternion.ones(2), ternion.ones(3))
        with pytest.raises(TypeError, match="TensorDataset: a list, expected a tensor"):
            TensorDataset([1, 2])

    def test_one_behind_the_other(self):
        both = Squares(3) + Squares(2)
        assert isinstance(both, ConcatDataset) and [both[number][1] for number in range(-5, 5)] == [0, 1, 4, 0, 1] * 2 and len(both) == 5
        with pytest.raises(IndexError, match="example 5 of 5"):
            both[5]
        with pytest.raises(ValueError, match="no data sets"):
            ConcatDataset([])
        with pytest.raises(TypeError, match="ChainDataset takes it"):
            ConcatDataset([Stream(2)])
        assert isinstance(Stream(2) + Stream(1), ChainDataset) and list(Stream(2) + Stream(1)) == [0, 1, 0]

    def test_side_by_side(self):
        assert StackDataset(Squares(), range(10))[2][1] == 2 and StackDataset(a=Squares(), b=range(10))[3]["b"] == 3
        with pytest.raises(ValueError, match="lengths \\[2, 3\\]"):
            StackDataset(range(2), range(3))

    def test_parts(self):
        assert [Subset(Squares(), [4, 2])[number][1] for number in range(2)] == [16, 4]
        parts = random_split(range(11), [0.5, 0.3, 0.2], generator=1)
        assert [len(part) for part in parts] == [6, 3, 2] and sorted(value for part in parts for value in part) == list(range(11))
        again = random_split(range(11), [6, 5], generator=random.Random(1))
        assert list(again[0]) == list(parts[0]) and len(random_split(range(3), [3, 0])[1]) == 0
        with pytest.raises(ValueError, match="lengths \\[2, 2\\] of 3 examples"):
            random_split(range(3), [2, 2])

    def test_lengths_are_pytorchs(self):
        torch = pytest.importorskip("torch")
        for count, lengths in [(11, [0.5, 0.5]), (10, [0.33, 0.33, 0.34]), (7, [0.1, 0.9]), (5, [0.2] * 5)]:
            expected = [len(part) for part in torch.utils.data.random_split(range(count), lengths)]
            assert [len(part) for part in random_split(range(count), lengths)] == expected


class TestOrders:
    def test_all_of_them(self):
        assert list(SequentialSampler(range(4))) == [0, 1, 2, 3]
        sampler = RandomSampler(range(50))
        one, two = list(sampler), list(sampler)
        assert sorted(one) == sorted(two) == list(range(50)) and one != two
        ternion.manual_seed(3)
        three = list(sampler)
        ternion.manual_seed(3)
        assert list(sampler) == three
        assert list(RandomSampler(range(50), generator=5)) == list(RandomSampler(range(50), generator=random.Random(5)))
        assert sorted(SubsetRandomSampler([3, 5, 9], generator=1)) == [3, 5, 9]

    @pytest.mark.parametrize("generator", [None, 1])
    def test_draws(self, generator):
        assert len(list(RandomSampler(range(5), num_samples=12, generator=generator))) == 12
        drawn = collections.Counter(RandomSampler(range(5), replacement=True, num_samples=5000, generator=generator))
        assert set(drawn) == set(range(5)) and min(drawn.values()) > 850
        drawn = collections.Counter(WeightedRandomSampler([1, 0, 3], 4000, generator=generator))
        assert set(drawn) == {0, 2} and 0.7 < drawn[2] / 4000 < 0.8
        firsts = collections.Counter(next(iter(WeightedRandomSampler([1, 3, 0], 2, replacement=False, generator=generator))) for _ in range(1))
        assert set(firsts) <= {0, 1}
        assert sorted(WeightedRandomSampler([1, 3, 0], 2, False, generator)) == [0, 1]

    def test_lists(self):
        for drop_last, expected in [(False, [[0, 1, 2], [3, 4, 5], [6]]), (True, [[0, 1, 2], [3, 4, 5]])]:
            sampler = BatchSampler(SequentialSampler(range(7)), 3, drop_last)
            assert list(sampler) == expected and len(sampler) == len(expected)

    def test_rejected(self):
        for call, kind, message in [
            (lambda: RandomSampler(range(3), num_samples=0), ValueError, "num_samples 0"),
            (lambda: RandomSampler(range(3), generator="a"), TypeError, "a generator of type str, expected a seed, a ternion.Generator or a random.Random"),
            (lambda: BatchSampler([1], 0, False), ValueError, "batch_size 0"),
            (lambda: WeightedRandomSampler([1, 0], 2, replacement=False), ValueError, "num_samples 2 of 1 that can come"),
            (lambda: WeightedRandomSampler([-1, 2], 2), ValueError, "expected finite ones of at least 0"),
        ]:
            with pytest.raises(kind, match=message):
                call()


Pair = collections.namedtuple("Pair", "a b")
EXAMPLES = {
    "numbers": [1, 2],
    "truths": [True, False],
    "points": [1.5, 2.5],
    "arrays": [np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)],
    "numbers of NumPy": [np.float64(1.0), np.float64(2.0)],
    "texts": ["a", "b"],
    "tuples": [(1, "a", 2.0), (3, "b", 4.0)],
    "dicts": [{"x": 1, "y": [1.0, 2.0]}, {"x": 2, "y": [3.0, 4.0]}],
    "named": [Pair(1, 2), Pair(3, 4)],
}


def plain(value):
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return (type(value).__name__, *(plain(part) for part in value))
    if isinstance(value, list):
        return [plain(part) for part in value]
    return (str(value.dtype).rpartition(".")[2], value.tolist()) if hasattr(value, "dtype") else value


@pytest.mark.parametrize("name", EXAMPLES)
def test_batches_are_made_as_by_pytorch(name):
    torch = pytest.importorskip("torch")
    assert plain(default_collate(EXAMPLES[name])) == plain(torch.utils.data.default_collate(EXAMPLES[name]))
    assert plain(default_convert(EXAMPLES[name])) == plain(torch.utils.data.default_convert(EXAMPLES[name]))


def test_what_makes_no_batch_is_reported():
    for examples, kind, message in [
        ([object()], TypeError, "examples of type object"), ([(1,), (1, 2)], ValueError, "examples of \\[1, 2\\] parts"), ([], ValueError, "no examples"),
        ([np.array(["a"])], TypeError, "an array of <U1"), ([ternion.ones(2), ternion.ones(3)], ValueError, "stack"),
    ]:  # fmt: skip
        with pytest.raises(kind, match=message):
            default_collate(examples)


class TestLoader:
    @pytest.mark.parametrize("workers", [0, 2])
    def test_batches(self, workers):
        loader = DataLoader(Squares(), batch_size=4, num_workers=workers)
        batches = [(x.flatten().tolist(), y.tolist()) for x, y in loader]
        assert batches == [([0, 1, 2, 3], [0, 1, 4, 9]), ([4, 5, 6, 7], [16, 25, 36, 49]), ([8, 9], [64, 81])] and len(loader) == 3
        loader = DataLoader(Squares(), 4, drop_last=True, shuffle=True, num_workers=workers, generator=3)
        one, two = ([y.tolist() for _, y in loader] for _ in range(2))
        assert len(one) == len(loader) == 2 and one != two
        again = DataLoader(Squares(), 4, drop_last=True, shuffle=True, num_workers=workers, generator=3)
        assert [y.tolist() for _, y in again] == one

    def test_rows_of_tensors_come_in_one_go(self):
        for loader in (DataLoader(rows(), 4), DataLoader(rows(), 4, collate_fn=lambda examples: default_collate(examples))):
            assert [[part.tolist() for part in batch] for batch in loader][2] == [[[16, 17], [18, 19]], [8, 9]]

    def test_orders(self):
        assert [y.tolist() for _, y in DataLoader(Squares(), 2, sampler=[3, 1, 2])] == [[9, 1], [4]]
        assert [y.tolist() for _, y in DataLoader(Squares(), batch_sampler=[[3], [1, 2]])] == [[9], [1, 4]]
        assert [y for _, y in DataLoader(Squares(3), batch_size=None)] == [0, 1, 4]
        assert [len(batch) for batch in DataLoader(list(range(5)), 2, collate_fn=list)] == [2, 2, 1]

    def test_streams(self):
        loader = DataLoader(Stream(5), 2)
        assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4]]
        assert [batch.tolist() for batch in DataLoader(Stream(5), 2, drop_last=True)] == [[0, 1], [2, 3]]
        assert list(DataLoader(Stream(3), None)) == [0, 1, 2]
        with pytest.raises(TypeError):
            len(loader)

    def test_data_of_the_package(self):
        train = data.mnist((20, 5)).train
        batches = list(DataLoader(train, 8, shuffle=True, generator=1))
        assert [tuple(images.shape) for images, _ in batches] == [(8, *train.images.shape[1:]), (8, *train.images.shape[1:]), (4, *train.images.shape[1:])]
        assert sorted(label for _, labels in batches for label in labels.tolist()) == sorted(train.labels.tolist())
        part = random_split(train, [15, 5], generator=1)[1]
        assert [label.item() for _, label in part] == [train.labels[number].item() for number in part.indices]

    def test_threads(self):
        started, thread_names = [], set()

        class Slow(Squares):
            def __getitem__(self, index):
                thread_names.add(threading.current_thread().name)
                time.sleep(0.002 * (index % 3))
                if index == 9:
                    raise KeyError("nine")
                return super().__getitem__(index)

        loader = DataLoader(Slow(), 1, num_workers=3, worker_init_fn=started.append)
        iterator = iter(loader)
        assert [next(iterator)[1].item() for _ in range(9)] == [number**2 for number in range(9)]
        with pytest.raises(KeyError, match="nine"):
            next(iterator)
        assert sorted(started) == [0, 1, 2] and threading.current_thread().name not in thread_names
        with pytest.raises(RuntimeError, match="no batch after 0.01 seconds"):
            next(iter(DataLoader([0], collate_fn=lambda _: time.sleep(0.05), num_workers=1, timeout=0.01)))
        before = threading.active_count()
        next(iter(DataLoader(Squares(100), num_workers=2)))
        assert threading.active_count() <= before

    def test_rejected(self):
        for call, kind, message in [
            (lambda: DataLoader(Squares(), 0), ValueError, "batch_size 0"),
            (lambda: DataLoader(Squares(), shuffle=True, sampler=[1]), ValueError, "sampler and shuffle"),
            (lambda: DataLoader(Squares(), 3, batch_sampler=[[1]]), ValueError, "batch_sampler together with batch_size"),
            (lambda: DataLoader(Squares(), None, drop_last=True), ValueError, "drop_last without batches"),
            (lambda: DataLoader(Stream(3), shuffle=True), ValueError, "of a data set that is read in order"),
            (lambda: DataLoader(Stream(3), num_workers=2), ValueError, "num_workers 2 of a data set that is read in order"),
            (lambda: DataLoader(Squares(), num_workers=-1), ValueError, "num_workers -1"),
            (lambda: DataLoader(Squares(), multiprocessing_context="spawn"), ValueError, "workers are threads"),
            (lambda: DataLoader(Squares(), prefetch_factor=2), ValueError, "prefetch_factor 2"),
            (lambda: DataLoader(3), TypeError, "a data set of type int"),
        ]:
            with pytest.raises(kind, match=message):
                call()


@pytest.mark.parametrize("settings", [dict(), dict(batch_first=True, padding_value=7.0), dict(padding_side="left")])
def test_sequences_are_padded_as_by_pytorch(settings):
    torch = pytest.importorskip("torch")
    lengths = [2, 4, 1]
    expected = torch.nn.utils.rnn.pad_sequence([torch.arange(length * 3.0).reshape(length, 3) for length in lengths], **settings)
    sequences = [ternion.arange(length * 3.0).reshape(length, 3) for length in lengths]
    padded = nn.utils.rnn.pad_sequence(sequences, **settings)
    assert padded.tolist() == expected.tolist()
    if "padding_side" not in settings:
        back = nn.utils.rnn.unpad_sequence(padded, lengths, settings.get("batch_first", False))
        assert all(one.equal(other) for one, other in zip(back, sequences))


def test_sequences_that_make_no_batch_are_reported():
    for sequences, message in [([], "pad_sequence: expected at least one tensor"), ([ternion.ones(2, 3), ternion.ones(2, 4)], "expected some that differ only in the first axis")]:
        with pytest.raises(ValueError, match=message):
            nn.utils.rnn.pad_sequence(sequences)
    with pytest.raises(ValueError, match="padding_side 'top'"):
        nn.utils.rnn.pad_sequence([ternion.ones(2)], padding_side="top")


def test_kinds_of_examples_are_said_in_brackets():
    class Points(Dataset[tuple[ternion.Tensor, int]]):
        def __getitem__(self, index):
            return ternion.full((2,), float(index)), index

        def __len__(self):
            return 3

    class Flow(IterableDataset[int]):
        def __iter__(self):
            return iter(range(3))

    class Backwards(Sampler[int]):
        def __iter__(self):
            return iter([2, 1, 0])

    loader = DataLoader[tuple[ternion.Tensor, int]](Points(), batch_size=3, sampler=Backwards())
    ((points, labels),) = loader
    assert points.tolist() == [[2.0, 2.0], [1.0, 1.0], [0.0, 0.0]] and labels.tolist() == [2, 1, 0]
    assert [batch.tolist() for batch in DataLoader(Flow(), batch_size=2)] == [[0, 1], [2]]
    assert len(ConcatDataset[int]([Points(), Points()])) == 6


def test_a_thread_knows_which_one_it_is():
    class Asking(Dataset):
        def __getitem__(self, index):
            info = get_worker_info()
            return info.id, info.num_workers, info.dataset is self

        def __len__(self):
            return 8

    assert get_worker_info() is None
    rows = [row for batch in DataLoader(Asking(), num_workers=2, collate_fn=list) for row in batch]
    assert {row[0] for row in rows} <= {0, 1} and {row[1:] for row in rows} == {(2, True)}
    assert get_worker_info() is None


def test_orders_are_drawn_by_a_generator():
    def drawn(seed):
        generator = ternion.Generator().manual_seed(seed)
        loader = DataLoader(TensorDataset(ternion.arange(20)), batch_size=20, shuffle=True, generator=generator)
        parts = random_split(range(20), [0.5, 0.5], generator=generator)
        several = [list(RandomSampler(range(20), True, 9, generator)), list(WeightedRandomSampler([1.0] * 20, 9, generator=generator))]
        return [next(iter(loader))[0].tolist(), next(iter(loader))[0].tolist(), *(list(part.indices) for part in parts), *several]

    one, two = drawn(1), drawn(1)
    assert one == two != drawn(2) and one[0] != one[1] and sorted(one[0]) == list(range(20))
    with pytest.raises(TypeError, match="expected a seed, a ternion.Generator or a random.Random"):
        DataLoader([1], generator="1")
