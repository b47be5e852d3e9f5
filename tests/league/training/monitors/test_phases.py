"""Where time goes, and the bound on what the board takes of it, by a clock that the test moves."""

import pytest

from league.training.monitors.phases import DrawingBudget, PhaseClock


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


def run(clock, share, cost, iterations=100, seconds=1.0, tasks=5):
    """Draw what the budget affords, and all after the last iteration; return the phases and the tasks done at each."""
    phases = PhaseClock(clock)
    budget, done = DrawingBudget(share, phases), []
    for iteration in range(1, iterations + 1):
        spend(phases, clock, "play", seconds)
        drawn = 0
        with phases.phase("log"):
            begun = clock.now
            for task in range(tasks):
                last = iteration == iterations
                if not last and not budget.affords(str(task), tasks, iteration / iterations, clock.now - begun):
                    break
                with budget.measure(str(task)):
                    clock.now += cost
                drawn += 1
        done.append(drawn)
    return phases, done


@pytest.mark.parametrize("cost", [0.01, 0.1, 0.3, 1.0])
def test_drawing_stays_within_its_share_and_what_the_end_takes_is_kept_back(cost, clock):
    """Of 400 seconds 2 % are 8, and the five figures of the end take at most 5 of them."""
    phases, done = run(clock, 0.02, cost, iterations=400)
    assert phases.logged <= 0.02 * (clock.now - phases.started) + 1e-9
    assert done[-1] == 5
    assert sum(done) > 5


def test_a_short_run_draws_at_its_end_alone(clock):
    """Of 20 seconds 2 % are 0.4, which no drawing fits into."""
    phases, done = run(clock, 0.02, 0.2, iterations=20)
    assert done == [0] * 19 + [5]
    assert phases.logged == pytest.approx(1.0)


def test_what_the_first_figure_loads_is_not_expected_of_the_others(clock):
    """Two seconds for the first one and 0.1 for each other: a hundred seconds later all can be drawn again."""
    phases = PhaseClock(clock)
    budget = DrawingBudget(0.05, phases)
    clock.now += 100.0
    with budget.measure("first"):
        clock.now += 2.0
    clock.now += 100.0
    assert budget.affords("second", 10, 0.5, 2.0)


def test_without_a_share_nothing_is_drawn_and_with_all_of_it_everything(clock):
    assert not any(run(clock, 0.0, 0.1)[1][:-1])
    assert set(run(clock, 1.0, 5.0)[1]) == {5}


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
