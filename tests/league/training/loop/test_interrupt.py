"""A second Ctrl-C stops a run at once, whatever the code that it meets makes of it."""

import signal

import pytest

from league.training.loop.interrupt import StopRequest


def stopped_while(first, second):
    """Raise what a run ends with whose code turns ``second`` Ctrl-C into an error, if there is one."""
    with StopRequest(lambda: None):
        if first:
            signal.raise_signal(signal.SIGINT)
        try:
            if second:
                signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            pass  # as a compiled function drops it
        raise ValueError("could not determine the shape")


def test_what_fails_after_a_second_signal_was_stopped():
    with pytest.raises(KeyboardInterrupt) as stopped:
        stopped_while(first=True, second=True)
    assert isinstance(stopped.value.__cause__, ValueError)


@pytest.mark.parametrize("first", [False, True])
def test_what_fails_before_it_has_failed(first):
    with pytest.raises(ValueError, match="shape"):
        stopped_while(first=first, second=False)


def test_handlers_are_put_back():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ValueError, match="shape"):
        stopped_while(first=True, second=False)
    assert signal.getsignal(signal.SIGINT) is before
