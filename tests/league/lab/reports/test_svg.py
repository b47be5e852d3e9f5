"""Charts say what their numbers say: axes at round numbers, extremes kept, texts escaped."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from league.lab.reports.svg import MOST_POINTS, Line, line_chart, thinned, ticks


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0, 60, [0, 20, 40, 60]),
        (-1, 1, [-1, -0.5, 0, 0.5, 1]),
        (3, 4.2, [3, 3.5, 4]),
    ],
)
def test_ticks_are_round_numbers(low, high, expected):
    assert ticks(low, high) == pytest.approx(expected)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=3000))
def test_a_long_line_keeps_its_ends_and_extremes(ys):
    points = thinned(range(len(ys)), ys)
    assert len(points) <= max(MOST_POINTS + 2, 1)
    assert (points[0], points[-1]) == ((0, ys[0]), (len(ys) - 1, ys[-1]))
    assert {min(y for _, y in points), max(y for _, y in points)} == {min(ys), max(ys)}


def test_the_line_is_where_its_values_are():
    """The chart is 340 × 170 with margins of 44, 8, 8 and 22: from (44, 148), the least, to (332, 8)."""
    svg = line_chart([Line("a", [0, 10], [0.0, 1.0])], "t", y_range=(0.0, 1.0))
    [path] = re.findall(r'class="line s0" d="M([^"]+)"', svg)
    assert path == "44.0 148.0L332.0 8.0"


def test_names_are_escaped():
    hostile = "</svg><script>alert(1)</script>"
    svg = line_chart([Line(hostile, [0, 1], [0, 1]), Line(hostile, [0, 1], [0, 1], [0.1, 0.1])], hostile)
    assert "<script" not in svg


@pytest.mark.parametrize("values", [[1.0], [0.0, 0.0], [5e5, 5e5], [-1e-12, 1e-12], [1e300, -1e300]])
def test_any_finite_values_can_be_drawn(values):
    assert "nan" not in line_chart([Line("a", list(range(len(values))), values)], "t")


def test_one_point_far_away_is_drawn():
    """Beside 1e30 an iteration more is none."""
    svg = line_chart([Line("a", [10**30], [1.0])], "t")
    assert 'cx="44.0" cy="78.0"' in svg
