"""A function that takes too long is interrupted where it is, whatever it does, and nothing of it is left."""

import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest

from arena.time_limit import TimeLimitError, call_within


def count():
    while True:
        pass


def swallow_exceptions():
    while True:
        with suppress(Exception):
            time.sleep(0.01)


def swallow_once():
    try:
        time.sleep(60.0)
    except BaseException:  # noqa: BLE001
        time.sleep(60.0)


def wait_for_a_server():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.accept()


def wait_for_a_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def sleep_often():
    while True:
        time.sleep(0.01)


def on_another_thread(seconds, function):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call_within, seconds, function).result()


BOTH = pytest.mark.parametrize("call", [call_within, on_another_thread], ids=["main thread", "another thread"])


@pytest.mark.parametrize(
    "function", [count, swallow_exceptions, swallow_once, wait_for_a_server, wait_for_a_lock, partial(time.sleep, 60.0)]
)
def test_it_is_interrupted_whatever_it_does(function):
    before = threading.enumerate()
    with pytest.raises(TimeLimitError, match=r"no answer within 0\.05 seconds"):
        call_within(0.05, function)
    assert threading.enumerate() == before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


@pytest.mark.parametrize("function", [count, swallow_exceptions, sleep_often])
def test_on_another_thread_it_is_interrupted_at_its_next_line(function):
    with pytest.raises(TimeLimitError):
        on_another_thread(0.05, function)


@BOTH
def test_what_is_in_time_is_returned_or_raised(call):
    assert call(60.0, lambda: 3) == 3
    for error in (KeyError("a"), TimeoutError("its own"), SystemExit(2), KeyboardInterrupt()):

        def fail(error=error):
            raise error

        with pytest.raises(type(error)) as caught:
            call(60.0, fail)
        assert caught.value is error


def test_a_former_alarm_rings_afterwards():
    rang = []
    handler = signal.signal(signal.SIGALRM, lambda *_: rang.append(True))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        call_within(60.0, partial(time.sleep, 0.2))
        while not rang:
            time.sleep(0.01)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, handler)
