"""Traces and rows travel packed, and come out equal to the last bit."""

import copy
import math
import pickle
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.packed import SHORT, pack, unpack
from arena.records import TokenTrace
from learners.batching import ChoiceRow, Draw, FreeRow

singles = st.floats(width=32, allow_nan=False)
numbers = st.one_of(
    st.lists(st.integers(0, 70_000), max_size=80),
    st.lists(st.integers(-(2**31), 2**31 - 1), min_size=SHORT, max_size=80),
    st.lists(singles, max_size=80),
    st.lists(st.floats(), min_size=SHORT, max_size=80),
).map(tuple)


def bits(values):
    return [struct.pack("d", value) if isinstance(value, float) else value for value in values]


@given(numbers)
def test_what_is_packed_is_unpacked_to_the_last_bit(values):
    assert bits(unpack(pack(values))) == bits(values)


@pytest.mark.parametrize(
    ("values", "bytes_each"), [((7,) * 100, 2), ((70_000,) * 100, 4), ((-0.5,) * 100, 4), ((-0.1,) * 100, 8)]
)
def test_bytes_by_hand(values, bytes_each):
    assert len(pack(values)) == 1 + 100 * bytes_each
    assert pack(values[: SHORT - 1]) is not pack(values)
    assert pack(values[: SHORT - 1]) == values[: SHORT - 1]


def test_traces_and_rows_are_equal_in_another_process():
    ids, logprobs = tuple(range(100_000, 100_700)), tuple(-math.log(n + 2.0) for n in range(700))
    trace = TokenTrace("main", ids[:300], ids, logprobs, None, 0.7, version=3)
    draw = Draw(0, logprobs, 1.0, 0.5, 0.0)
    free = FreeRow("g", "g", ids, ids, 1.0, 1.0, 1.0, 0.5, 0.0, (draw,), role="r")
    choice = ChoiceRow("g", "g", ids, ("a", "b"), 1.0, [1.0, 0.0], [0.5, 0.0], [0.0, 0.0], [0.0, 0.0], (draw,))
    for record in (trace, free, choice, draw):
        assert pickle.loads(pickle.dumps(record)) == record  # noqa: S301  # made here
        assert copy.deepcopy(record) == record
        assert type(copy.copy(record)) is type(record)


def test_what_is_shared_travels_once():
    """In small games many turns have one trace: a message names it again, and does not repeat it."""
    trace = TokenTrace("main", tuple(range(300)), tuple(range(700)), (-0.5,) * 700, None)
    assert len(pickle.dumps([trace] * 50)) < len(pickle.dumps([trace])) + 500
