"""Where time goes, and the bound on what the board takes of it, by a clock that the test moves."""

import pytest

from league.training.monitors.phases import PhaseClock


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def spend(phases, clock, phase, seconds):
    with phases.phase(phase):
        clock.now += seconds


def test_shares_add_up_to_one_and_begin_anew(clock):
    phases = PhaseClock(clock)
    spend(phases, clock, "play", 6.0)
    spend(phases, clock, "learn", 3.0)
    clock.now += 1.0
    metrics = phases.metrics()
    assert {name: metrics[f"time/{name}"] for name in ("play", "learn", "rest")} == {
        "play": 0.6,
        "learn": 0.3,
        "rest": pytest.approx(0.1),
    }
    assert metrics["memory/play"] > 10.0  # MiB: Python alone needs more
    spend(phases, clock, "learn", 2.0)
    assert phases.metrics()["time/learn"] == 1.0


def test_a_phase_within_another_counts_for_the_outer_one(clock):
    """Matches that are played to rate a snapshot are evaluation."""
    phases = PhaseClock(clock)
    with phases.phase("evaluate"):
        spend(phases, clock, "play", 4.0)
    metrics = phases.metrics()
    assert metrics["time/evaluate"] == 1.0
    assert "time/play" not in metrics


def test_the_share_of_the_board_is_that_of_the_whole_run(clock):
    phases = PhaseClock(clock)
    spend(phases, clock, "log", 2.0)
    phases.metrics()
    spend(phases, clock, "play", 98.0)
    assert phases.metrics()["time/board"] == 0.02


def test_utilisation_is_flops_by_time_and_peak(clock):
    """3e9 FLOPs in 6 seconds are a tenth of 5e9 FLOP/s; what is played to evaluate is not play."""
    work = [0.0]
    phases = PhaseClock(clock, lambda: work[0], lambda: 5e9)
    with phases.phase("play"):
        clock.now += 6.0
        work[0] += 3e9
    spend(phases, clock, "learn", 2.0)
    with phases.phase("evaluate"), phases.phase("play"):
        clock.now += 1.0
        work[0] += 1e9
    metrics = phases.metrics()
    assert metrics["mfu/play"] == pytest.approx(0.1)
    assert "mfu/learn" not in metrics, "its models run elsewhere"
    spend(phases, clock, "play", 1.0)
    assert "mfu/play" not in phases.metrics()
