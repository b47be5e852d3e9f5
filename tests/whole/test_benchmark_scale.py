"""The simulation of many GPUs: closed forms, what a barrier costs, and a real run of two engines."""

import pytest

from benchmarks.simulations import scale
from benchmarks.simulations.scale import Match, Play, barrier, read_times, stream

TIMES, SOURCES = read_times()


def test_an_engine_is_shared_equally():
    """Two replies of 1 and 3 tokens: one step of both, and two of the longer alone; a third begins in its place."""
    play = Play(1, TIMES)
    for tokens in (1.0, 3.0):
        assert play.begin(Match(0, (tokens,)))
    assert play.next_end()[0] == pytest.approx(TIMES.step(2))
    play.begin(Match(0, (1.0, 1.0)))
    assert [play.next_end()[0] for _ in range(2)] == pytest.approx([3 * TIMES.step(2)] * 2)
    assert play.next_end() is None


def test_a_barrier_wastes_what_a_stream_uses_and_more_gpus_do_not_help_it():
    eight, many = barrier(TIMES, 8, 512), barrier(TIMES, 64, 512)
    assert many.seconds > 0.6 * eight.seconds
    assert many.use < 0.4 * eight.use
    split = stream(TIMES, 8, 512, 3)
    assert split.seconds < 0.9 * eight.seconds
    assert split.use > 1.1 * eight.use


def test_every_number_has_a_source(capsys):
    assert all(source.startswith(("measured", "assumed")) for source in SOURCES.values())
    result = scale.measure(["--gpus", "8"])
    printed = capsys.readouterr().out
    assert all(f"{name} = " in printed for name in SOURCES)
    assert len(result["rows"]) == 4


@pytest.mark.timed
def test_a_real_run_of_two_engines_takes_what_the_simulation_says():
    for row in scale.checked()["rows"]:
        for name in ("barrier", "stream"):
            assert row[f"{name} ratio"] == pytest.approx(1.0, abs=0.15)
        assert row["stream"] < row["barrier"]
