"""The strategy on the board, read back from event files: theory's lies in the band, and random play does not."""

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from games.registry import make_game
from league.population.evaluation.strategies import Strategies, strategy_metrics
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.theory.exact.exploitability import uniform_table
from league.theory.exact.strategy_states import NAMED
from league.training.board.metrics_log import MetricsLog

KUHN = make_game("kuhn_poker").spec
TOLERANCE = 2e-3  # of the player `equilibrium`, whose play is CFR+'s average after a while


def board_of(player, folder):
    """Write a player's strategy in Kuhn poker to a board, and return its curves by name."""
    table = resolve(player, KUHN, Engines()).tabulate(0, 100).table
    with MetricsLog(folder) as log:
        for iteration in range(3):
            metrics = strategy_metrics("kuhn_poker", NAMED["kuhn_poker"], table)
            log.write(iteration, {f"kuhn_poker/{name}": value for name, value in metrics.items()})
    events = EventAccumulator(str(folder / "tb"))
    events.Reload()
    return {name: [event.value for event in events.Scalars(name)] for name in events.Tags()["scalars"]}


def outside(curves):
    """Return by how much each plotted probability is outside its plotted band, by name."""
    found = {}
    for name, values in curves.items():
        if "/strategy/" in name:
            band = name.replace("/strategy/", "/equilibrium/")
            low, high = np.array(curves[f"{band}/low"]), np.array(curves[f"{band}/high"])
            found[name] = float(np.maximum(low - values, np.array(values) - high).max())
    return found


def test_the_plotted_strategy_of_equilibrium_lies_in_the_band(tmp_path):
    curves = board_of("equilibrium", tmp_path)
    distances = outside(curves)
    assert len(distances) == 6
    assert max(distances.values()) < TOLERANCE
    assert max(curves["kuhn_poker/equilibrium_distance"]) < TOLERANCE


def test_that_of_random_does_not(tmp_path):
    """It bets the jack and calls with the queen every other time, where theory says at most, or exactly, a third."""
    curves = board_of("random", tmp_path)
    distances = outside(curves)
    sixth = pytest.approx(1 / 6, abs=1e-6)
    assert distances["kuhn_poker/strategy/first/jack_bets/bet"] == sixth
    assert distances["kuhn_poker/strategy/second/jack_bets/bet"] == sixth
    assert distances["kuhn_poker/strategy/second/queen_calls/bet"] == sixth
    assert distances["kuhn_poker/strategy/first/queen_bets/bet"] == pytest.approx(0.5, abs=1e-6)
    assert curves["kuhn_poker/equilibrium_distance"] == [0.5, 0.5, 0.5]


def test_a_strategy_over_snapshots_has_a_value_for_each(tmp_path):
    tables = {("a",): uniform_table("tiny_hanabi"), ("b",): uniform_table("tiny_hanabi")}
    played = Strategies().over_snapshots(
        make_game("tiny_hanabi").spec, ("signaller", "responder"), tables, {("a",): 0, ("b",): 10}
    )
    assert played.steps == (0, 10)
    assert len(played.states) == 6
    assert all(values == pytest.approx((1 / 3, 1 / 3)) for rows in played.probabilities for values in rows)
    assert not played.named
    assert all(action.low is None for state in played.states for action in state.actions)
