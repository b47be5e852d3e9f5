"""The game among a population's players: exact where it can be, and the meta-strategies that come of it."""

import numpy as np
import pytest

from games.common.errors import UsageError
from games.registry import make_game
from league.config import RunConfig
from league.config.matchmaking import MatchmakingConfig
from league.population.evaluation.meta_game import (
    MetaGame,
    best_response_among,
    joint_metrics,
    meta_strategy,
    mixture_metrics,
    mixture_weights,
)
from league.population.results.payoffs import PayoffTable, Result
from league.population.storage.members import MetaStrategy
from league.theory.exact.exploitability import PolicyTable, exact_form, exploitability, head_to_head, uniform_table

RPS = "matrix_rps()"
KUHN = "kuhn_poker"


def pure(game: str, action: int) -> PolicyTable:
    """Return the table that always takes an action id."""
    form = exact_form(game)
    return PolicyTable(
        game,
        {
            key: tuple(float(other == action) for other in legal)
            for key, legal in zip(form.keys, form.legal, strict=True)
        },
    )


def population(game: str, names: str, tables: list[PolicyTable], seats: int = 2) -> MetaGame:
    return MetaGame(game, (tuple(names),) * seats, (tuple(tables),) * seats, PayoffTable())


THREE = population(RPS, "rps", [pure(RPS, action) for action in range(3)])


def test_exact_payoffs_of_rock_paper_scissors():
    assert THREE.symmetric
    np.testing.assert_allclose(THREE.matrix(), [[0, -1, 1], [1, 0, -1], [-1, 1, 0]])


def test_psro_of_the_pure_players_is_the_games_equilibrium():
    config = MatchmakingConfig(self_play=0.0, fictitious=0.0, psro=1.0)
    meta = meta_strategy(THREE, RunConfig(games={"kuhn_poker": {}}, matchmaking=config), seed=0)
    assert meta.weights == pytest.approx({"r": 1 / 3, "p": 1 / 3, "s": 1 / 3})
    weights = mixture_weights(THREE, "nash")
    spec = make_game(RPS).spec
    assert mixture_metrics(spec, THREE, weights) == {"mixture_exploitability": pytest.approx(0.0, abs=1e-9)}
    assert mixture_metrics(spec, THREE, mixture_weights(THREE, "linear")) == {
        # 1/6, 2/6, 3/6: paper earns 1/6 - 3/6, rock 3/6 - 2/6, scissors 2/6 - 1/6: the best is 1/6
        "mixture_exploitability": pytest.approx(1 / 6)
    }


def test_who_is_the_best_response_to_a_mixture():
    meta = MetaStrategy({"r": 0.6, "p": 0.3, "s": 0.1})
    assert best_response_among(THREE, meta, 0, {"r", "p", "s"}) == "p"
    assert best_response_among(THREE, meta, 1, {"r", "s"}) == "r"  # -0.3 + 0.1 against -0.6 + 0.3
    assert (
        best_response_among(THREE, MetaStrategy({"r": 1 / 3, "p": 1 / 3, "s": 1 / 3}), 0, {"r", "p", "s"}) == "s"
    )  # the newest


def test_roles_with_policies_of_their_own_have_a_mixture_each():
    """Matching pennies: one seat has both pure strategies, the other heads alone."""
    game = "matrix_mp()"
    heads, tails = pure(game, 0), pure(game, 1)
    meta_game = MetaGame(game, (("a-0", "a-1"), ("b-0",)), ((heads, tails), (heads,)), PayoffTable())
    assert not meta_game.symmetric
    first, second = mixture_weights(meta_game, "nash")
    assert first == pytest.approx({"a-0": 1.0, "a-1": 0.0})  # it wants to match
    assert second == {"b-0": 1.0}
    assert best_response_among(meta_game, MetaStrategy({"b-0": 1.0}), 0, {"a-0", "a-1"}) == "a-0"
    with pytest.raises(UsageError, match="Use nash, prd, linear or uniform"):
        mixture_weights(meta_game, "alpha_rank")


def test_a_joint_meta_strategy_of_chicken_is_a_correlated_equilibrium():
    game = "matrix_bos()"
    tables = tuple(pure(game, action) for action in range(2))
    meta_game = MetaGame(game, (("x", "y"), ("u", "v")), (tables, tables), PayoffTable())
    config = MatchmakingConfig(self_play=0.0, fictitious=0.0, jpsro=1.0, jpsro_solver="mgce")
    meta = meta_strategy(meta_game, RunConfig(games={"kuhn_poker": {}}, matchmaking=config), seed=3)
    assert sum(weight for _, weight in meta.joint) == pytest.approx(1.0)
    assert len(meta.advised) == 2
    gaps = joint_metrics(meta_game, meta)
    assert gaps == {"cce_gap": pytest.approx(0.0, abs=1e-5), "ce_gap": pytest.approx(0.0, abs=1e-5)}
    advised = [lineup for lineup, _ in meta.joint if lineup[0] == meta.advised[0]]
    assert best_response_among(meta_game, meta, 0, {"x", "y"}) in {lineup[0] for lineup in advised}


def test_without_tables_payoffs_are_what_matches_showed():
    table = PayoffTable()
    rows = [("p", "r", "first", 4.0), ("r", "p", "second", -4.0), ("p", "r", "second", 2.0), ("r", "p", "first", -2.0)]
    table.apply([Result(a, b, RPS, role, 4, total, 4.0, 2.0, 0) for a, b, role, total in rows])
    meta_game = MetaGame(RPS, (("r", "p"),) * 2, None, table)
    assert meta_game.matrix()[1, 0] == pytest.approx(0.75)  # the mean of 1 and 1/2
    assert mixture_weights(meta_game, "nash")[0] == pytest.approx({"r": 0.0, "p": 1.0})
    three = MetaGame("kuhn_poker(players=3)", (("r", "p"),) * 3, None, table)
    with pytest.raises(UsageError, match="3 seats and no tables"):
        three.empirical_game()


def test_a_population_of_kuhn_is_measured_as_its_tables_are():
    uniform = uniform_table(KUHN)
    always = pure(KUHN, 1)
    meta_game = population(KUHN, "ub", [uniform, always])
    values = head_to_head([uniform, always])[0], head_to_head([always, uniform])[1]
    assert meta_game.matrix()[0, 1] == pytest.approx(sum(values) / 2)
    alone = mixture_metrics(make_game(KUHN).spec, meta_game, ({"u": 1.0, "b": 0.0},) * 2)
    assert alone["mixture_exploitability"] == pytest.approx(exploitability(uniform)) == pytest.approx(11 / 24)


def test_seats_with_players_of_their_own_have_the_payoffs_that_matches_showed():
    """Rows for the first seat's players, columns for the second's; each by its own mean returns, which need no sum."""
    table = PayoffTable()
    shown = {("x", "u"): 1.0, ("x", "v"): 2.0, ("y", "u"): 3.0, ("y", "v"): 4.0}
    table.apply([Result(a, b, RPS, "first", 1, value, value**2, 0.5, 0) for (a, b), value in shown.items()])
    table.apply([Result(b, a, RPS, "second", 1, -10 * value, 0.0, 0.5, 0) for (a, b), value in shown.items()])
    values = MetaGame(RPS, (("x", "y"), ("u", "v")), None, table).empirical_game().values
    np.testing.assert_array_equal(values[0], [[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(values[1], [[-10.0, -20.0], [-30.0, -40.0]])


def test_each_seat_is_advised_by_its_own_marginal():
    """The first seat's second strategy and the second seat's first one are strictly best, whatever the other does."""
    table = PayoffTable()
    first = {("x", "u"): 0.0, ("x", "v"): 0.0, ("y", "u"): 1.0, ("y", "v"): 1.0}
    second = {("u", "x"): 1.0, ("u", "y"): 1.0, ("v", "x"): 0.0, ("v", "y"): 0.0}
    table.apply([Result(a, b, RPS, "r", 1, gain, gain, 0.5, 0) for (a, b), gain in (first | second).items()])
    meta_game = MetaGame(RPS, (("x", "y"), ("u", "v")), None, table)
    config = MatchmakingConfig(self_play=0.0, fictitious=0.0, jpsro=1.0, jpsro_solver="mgce")
    meta = meta_strategy(meta_game, RunConfig(games={"kuhn_poker": {}}, matchmaking=config), seed=0)
    assert [(lineup, pytest.approx(1.0)) for lineup, _ in meta.joint] == list(meta.joint)
    assert (meta.joint[0][0], meta.advised) == (("y", "u"), ("y", "u"))
