"""How the cases of torch_cases.py are timed, as ternion-bench times its own."""

import time

import torch

DEVICE = "cuda"
FLUSHED_BYTES = 256 << 20
# A device at its limit of power lowers its clock, so that it rests after each call, as in ternion-bench.
RESTS, LEAST_REST_MILLISECONDS = 2.0, 0.3


def idle(seconds):
    """Waits without sleeping: a thread that slept queues the next call so late that the device waits for it."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


class Clock:
    """How a case is timed."""

    def __init__(self, milliseconds, steps):
        self.milliseconds, self.steps = milliseconds, steps
        self.flushed = None

    def flush(self):
        """Fills the L2 cache with what no case reads, by a kernel as ternion-bench does: what follows a copy waits longer to begin."""
        if self.flushed is None:
            self.flushed = torch.empty(FLUSHED_BYTES, dtype=torch.int8, device=DEVICE)
        self.flushed.zero_()

    def median(self, call):
        """Median milliseconds of a call with a cold cache."""
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
        """Median seconds of a training step."""
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
        """Median host microseconds of one of many queued calls."""
        rounds = []
        for _ in range(21):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(ops):
                op()
            rounds.append((time.perf_counter() - start) * 1e6 / ops)
        return sorted(rounds)[10]

    def sustained_microseconds_of_op(self, op, ops=20_000):
        """Median microseconds of one of many calls, until the device has done them all."""
        rounds = []
        for _ in range(5):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(ops):
                op()
            torch.cuda.synchronize()
            rounds.append((time.perf_counter() - start) * 1e6 / ops)
        return sorted(rounds)[2]
