"""How the cases of torch_cases.py are timed, in the same way as in ternion-bench."""

import time

import torch

DEVICE = "cuda"
FLUSHED_BYTES = 256 << 20
# A device at its power limit lowers its clock, so it rests after each call, as in ternion-bench.
RESTS, LEAST_REST_MILLISECONDS = 2.0, 0.3


def idle(seconds):
    """Waits without sleeping: a thread that slept would queue the next call so late that the device
    waits for it.
    """
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


class Clock:
    """How a case is timed."""

    def __init__(self, milliseconds, steps):
        self.milliseconds, self.steps = milliseconds, steps
        self.flushed = None

    def flush(self):
        """Fills the L2 cache with data that no case reads. A kernel does this, as in ternion-bench:
        work after a copy would begin later.
        """
        if self.flushed is None:
            self.flushed = torch.empty(FLUSHED_BYTES, dtype=torch.int8, device=DEVICE)
        self.flushed.zero_()

    def median(self, call):
        """Returns the median milliseconds of a call with a cold cache."""
        for _ in range(10):
            call()
        torch.cuda.synchronize()
        times = []
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        while (sum(times) < self.milliseconds or len(times) < 20) and len(times) < 400:
            self.flush()
            begin.record()
            call()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end))
            idle(max(RESTS * times[-1], LEAST_REST_MILLISECONDS) / 1e3)
        return sorted(times)[len(times) // 2]

    def seconds_of_step(self, step):
        """Returns the median seconds of a training step."""
        for _ in range(5):
            step()
        torch.cuda.synchronize()
        rounds = []
        for _ in range(5):
            start = time.perf_counter()
            for _ in range(self.steps):
                step()
            torch.cuda.synchronize()
            rounds.append((time.perf_counter() - start) / self.steps)
        return sorted(rounds)[2]

    def microseconds_of_op(self, op, ops=500):
        """Returns the median host microseconds per queued call."""
        rounds = []
        for _ in range(21):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(ops):
                op()
            rounds.append((time.perf_counter() - start) * 1e6 / ops)
        return sorted(rounds)[10]

    def sustained_microseconds_of_op(self, op, ops=20_000):
        """Returns the median microseconds per call of many calls, until the device has completed
        all of them.
        """
        rounds = []
        for _ in range(5):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(ops):
                op()
            torch.cuda.synchronize()
            rounds.append((time.perf_counter() - start) * 1e6 / ops)
        return sorted(rounds)[2]
