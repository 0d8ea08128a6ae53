"""Ctrl-C, threads and forks."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import ternion
from ternion import nn, optim

PROGRAMS = {
    "fit": """
x, y = ternion.randn(2000, 8), ternion.randint(0, 2, (2000,))
say()
ternion.models.MLP(8, 16, 2).fit(x, y, epochs=10**6, verbose=False)
""",
    "ops": """
x = ternion.randn(64, 64)
say()
while True:
    x = (x @ x).tanh()
""",
    "backward": """
x = ternion.randn(100, 100, requires_grad=True)
say()
while True:
    (x @ x).tanh().sum().backward()
""",
    "wait": """
say()
while True:
    ternion.get_default_device().synchronize()
""",
    "checkpoint": """
def slow(x):
    for _ in range(10**9):
        x = x * 1.0
    return x
say()
ternion.checkpoint(slow, ternion.ones(4, requires_grad=True))
""",
    "read": """
import os, tempfile
file = os.path.join(tempfile.mkdtemp(), "table.csv")
os.mkfifo(file)  # No process writes to it: this call waits forever.
say()
ternion.data.read_csv(file)
""",
    "step": """
monitor, model = ternion.nn.utils.StatsMonitor(ternion.nn.Linear(2, 2)), None
def slow():
    while True:
        time.sleep(0.01)
say()
monitor.step(slow)
""",
}
# Background processes may have been started with Ctrl-C ignored, which Python then keeps.
HEAD = """
import signal, time, ternion
signal.signal(signal.SIGINT, signal.default_int_handler)
def say():
    print("ready", flush=True)
try:
"""
TAIL = """
except KeyboardInterrupt:
    print("interrupted", ternion.ones(2).sum().item(), flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize("name", PROGRAMS)
def test_ctrl_c_ends_a_long_loop(name):
    body = "\n".join("    " + line for line in PROGRAMS[name].strip().splitlines())
    child = subprocess.Popen([sys.executable, "-c", HEAD + body + TAIL], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        begun = time.monotonic()
        stdout, _ = child.communicate(timeout=20)
        assert stdout == "interrupted 2.0\n" and time.monotonic() - begun < 10
    finally:
        child.kill()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
def test_ctrl_c_ends_one_long_backward():
    """The signal arrives within a single call that takes much longer than the time limit."""
    program = HEAD + """
    import os, signal, threading
    x = ternion.randn(300, 300, requires_grad=True)
    y = x
    begun = time.monotonic()
    for _ in range(1500):
        y = (y @ x).tanh()
    forward = time.monotonic() - begun
    y = y.sum()
    def strike():
        print("ready", flush=True)
        os.kill(os.getpid(), signal.SIGINT)
    timer = threading.Timer(0.1, strike)
    timer.start()
    begun = time.monotonic()
    try:
        y.backward()
    finally:
        share = (time.monotonic() - begun) / forward
        print("early" if share < 1 else f"late: {share}", flush=True)
""" + TAIL
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.split("\n")[:3] == ["ready", "early", "interrupted 2.0"], done.stdout + done.stderr


# ---- Threads


def in_threads(count, work):
    """Returns the result of each thread, or raises the first error of any of them."""
    results, errors = [None] * count, []

    def run(number):
        try:
            results[number] = work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads), "a thread waits for ever"
    if errors:
        raise errors[0]
    return results


def trained(seed, x, target):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    with ternion.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(ternion.linspace(-0.3, 0.3, parameter.numel()).reshape(parameter.shape) * (seed + number + 1) / 4)
    adam = optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(30):
        adam.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        adam.step()
    return loss.item()


def test_threads_train_models_of_their_own_on_shared_data():
    x, target = ternion.randn(4096, 8), ternion.randint(0, 2, (4096,))
    sequential = [trained(seed, x, target) for seed in range(4)]
    assert in_threads(4, lambda seed: trained(seed, x, target)) == sequential


def test_gradients_of_a_shared_parameter_are_all_gathered():
    weight = nn.Parameter(ternion.ones(64, 128))
    x = ternion.ones(64, 128)

    def work(number):
        for _ in range(50):
            (weight * x).sum().backward()

    in_threads(4, work)
    assert (weight.grad == 200.0).all()


def test_one_optimiser_steps_from_several_threads():
    weight = nn.Parameter(ternion.zeros(100, 100))
    weight.grad = ternion.ones(100, 100)
    sgd = optim.SGD([weight], lr=1.0)

    def work(number):
        for _ in range(50):
            sgd.step()

    in_threads(4, work)
    assert (weight == -200.0).all()


def test_scopes_are_of_their_thread():
    x = ternion.ones(2, 2, requires_grad=True)

    def work(number):
        for _ in range(50):
            with ternion.autocast("cpu") if number % 2 else ternion.no_grad():
                y = x @ x
            assert y.requires_grad == bool(number % 2) and y.dtype is (ternion.bfloat16 if number % 2 else ternion.float32)

    in_threads(4, work)


# ---- Forks

ENTRIES = {
    "creation": "ternion.zeros(2)",
    "numbers": "ternion.tensor([1.0])",
    "array": "ternion.from_numpy(numpy.ones(2))",
    "random": "ternion.randn(2)",
    "seed": "ternion.manual_seed(1)",
    "arithmetic": "x + 1",
    "method": "x.exp()",
    "in place": "x.zero_()",
    "product": "x @ x",
    "view": "x.reshape(1, 2)",
    "index": "x[0]",
    "assignment": "x.__setitem__(0, 1.0)",
    "reduction": "x.sum()",
    "item": "x[:1].item()",
    "list": "x.tolist()",
    "text": "repr(x)",
    "truth": "bool(x[:1])",
    "cat": "ternion.cat([x, x])",
    "backward": "loss.backward()",
    "layer": "layer(x)",
    "functional": "ternion.nn.functional.softplus(x)",
    "loss": "ternion.nn.functional.mse_loss(x, x)",
    "step": "sgd.step()",
    "state": "adam.state_dict()",
    "clip": "ternion.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)",
    "init": "ternion.nn.init.zeros_(x)",
    "device": "ternion.device('cpu')",
    "devices": "ternion.devices()",
    "wait": "x.device.synchronize()",
    "move": "x.to('cpu', copy=True)",
    "data": "ternion.data.mnist((4, 2))",
    "dlpack": "ternion.from_dlpack(numpy.ones(2))",
    "statistics": "ternion.stats(x)",
    "checkpoint": "ternion.checkpoint(layer, x)",
    "capture": "ternion.capture(lambda: x * 2)",
    "check": "ternion.check('cpu').__enter__()",
    "monitor": "monitor.step(sgd)",
}
FORKED = """
import os, numpy, ternion
x = ternion.ones(2)
layer = ternion.nn.Linear(2, 2)
sgd, adam = ternion.optim.SGD(layer.parameters(), lr=0.1), ternion.optim.Adam(layer.parameters())
layer(x).sum().backward()
adam.step()
monitor = ternion.nn.utils.StatsMonitor(layer, every=1)
loss = layer(x).sum()
for name, entry in ENTRIES.items():
    child = os.fork()
    if child == 0:
        message = "no error"
        try:
            eval(entry)
        except RuntimeError as error:
            message = str(error)
        except BaseException as error:
            message = repr(error)
        if "was forked after ternion had been used" not in message:
            os.write(1, f"{name}: {message}\\n".encode())
        os._exit(0)
    for _ in range(100):
        if os.waitpid(child, os.WNOHANG)[0]:
            break
        __import__("time").sleep(0.05)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
        print(f"{name}: waits for ever", flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_every_entry_tells_of_a_fork():
    program = f"ENTRIES = {ENTRIES!r}\n" + FORKED
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
