"""A policy over a public tree is the table's: the same figures where both can be had, mixtures too."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from games.registry import make_game
from league.cli import main
from league.population.evaluation import public_policy
from league.population.evaluation.public_policy import mixture, public_values
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.theory.exact import exploitability as exact
from league.theory.public import dark_bounds, dark_reading
from league.theory.public.bounds import bounds
from league.theory.public.dark_boards import DarkBoard
from league.theory.public.from_openspiel import large_game
from league.theory.public.liars_dice import liars_dice
from league.theory.public.measures import best_responses, returns
from league.theory.public.reading import read_policy
from league.theory.public.seat_arrays import KINDS
from tests.support.models.pocket import pocket

GAME = "liars_dice(dice_sides=3,numdice=1)"


def drawn_table(seed):
    rng = np.random.default_rng(seed)
    uniform = exact.uniform_table(GAME)
    rows = {key: tuple(rng.dirichlet(np.full(len(row), 0.4))) for key, row in uniform.probabilities.items()}
    return exact.PolicyTable(GAME, rows)


def read(tree, table):
    def answers(positions):
        return [table.probabilities[seat, game.information_state(seat)] for seat, game in positions]

    return read_policy(tree, answers)


@pytest.mark.parametrize("seed", range(3))
def test_a_mixture_is_the_tables_mixture(seed):
    """Members that seldom come to a position count little there; weights differ, and so do seats."""
    tree = liars_dice(1, 3)
    tables = [drawn_table(10 * seed + number) for number in range(3)]
    weights = [0.2, 0.5, 0.3]
    members = [(read(tree, table), weight) for table, weight in zip(tables, weights, strict=True)]
    policy = tree.uniform()
    for seat in (0, 1):
        moved = tree.moves() == seat
        policy[moved] = mixture(tree, seat, members)[moved]
    tree.check(policy)
    table = exact.mixture(tables, weights)
    assert best_responses(tree, policy) == pytest.approx(exact.best_response_values(table), abs=1e-12)
    assert returns(tree, policy) == pytest.approx(exact.head_to_head([table, table])[0], abs=1e-12)


def test_a_player_is_asked_as_for_its_table():
    with Engines() as engines:
        player = resolve("random", make_game(GAME).spec, engines)
        asked = []
        found = public_values(player, liars_dice(1, 3), asked.append)
        table = player.tabulate().table
    assert found.best_responses == pytest.approx(exact.best_response_values(table), abs=1e-12)
    assert found.exact
    assert asked[-1] == 192


def test_the_command_counts_a_large_game_out_and_says_how_many_states_it_asks(monkeypatch, capsys):
    """Uniform play with 1 die of 3 faces, beyond a limit that is lowered here: OpenSpiel's 5/9."""
    monkeypatch.setattr(exact, "POINT_LIMIT", 100)
    assert main(["exploitability", "random", "--game", GAME]) == 0
    shown = capsys.readouterr()
    assert "Exploitability: 0.556" in shown.out
    assert f"{GAME} has 192 information states" in shown.err
    monkeypatch.setattr("league.theory.public.tree.MOST_STATES", 150)
    assert main(["exploitability", "random", "--game", GAME]) == 2
    assert "at most 150 are enumerated" in capsys.readouterr().err


def test_minutes_that_are_too_few_give_bounds_that_hold_the_truth(monkeypatch, capsys):
    monkeypatch.setattr(exact, "POINT_LIMIT", 100)
    monkeypatch.setattr("league.population.evaluation.public_policy.seconds_for", lambda *_: 61.0)
    where = "league.population.evaluation.public_policy.bounds"
    monkeypatch.setattr(where, lambda tree, ask, seconds, seed: bounds(tree, ask, 0.0, seed, plans=64))
    assert main(["exploitability", "random", "--game", GAME, "--minutes", "1", "--json"]) == 0
    shown = capsys.readouterr()
    assert "That is more than 1 minutes allow" in shown.err
    found = json.loads(shown.out)
    assert found["exact"] is False
    assert found["source"] == "sampled states"
    assert found["best_responses"] is None
    assert found["sampled"]["exploitability_low"] <= 5 / 9 <= found["sampled"]["exploitability_high"]


def test_a_killed_table_goes_on_and_is_the_table_of_prompts(tmp_path, monkeypatch):
    """A model's table by tree decoding, stopped after a batch, equals what prompts are told; nothing is asked twice."""
    monkeypatch.setenv("LEAGUE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("league.theory.public.reading.FIRST_BATCH", 40)
    folder = tmp_path / "model"
    pocket().save(folder)
    tree, calls = liars_dice(1, 3), []
    with Engines() as engines:
        player = resolve(f"hf:{folder}", make_game(GAME).spec, engines)
        told = []

        def stop(asked):
            told.append(asked)
            if len(told) == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            public_values(player, tree, stop)
        assert 0 < told[-1] < 192
        bulk = type(player.engine).bulk_distributions
        monkeypatch.setattr(
            type(player.engine), "bulk_distributions", lambda self, rs: calls.append(len(rs)) or bulk(self, rs)
        )
        found = public_values(player, tree, lambda asked: None)
        assert sum(calls) == 192 - told[-1]
        again = public_values(player, tree, lambda asked: None)
        assert sum(calls) == 192 - told[-1]
        table = player.tabulate().table
    assert again == found
    assert found.exact
    assert found.best_responses == pytest.approx(exact.best_response_values(table), abs=1e-5)
    pocket(seed=1).save(folder)  # other weights at the same place
    with Engines() as engines:
        player = resolve(f"hf:{folder}", make_game(GAME).spec, engines)
        assert public_values(player, tree, lambda asked: None).best_responses != found.best_responses


@pytest.fixture
def small_board_is_large(monkeypatch):
    """Abrupt dark hex of 2 × 2 cells, whose table of the usual kind is known too."""
    pytest.importorskip("numba")
    monkeypatch.setattr("league.theory.public.from_openspiel.MANY_CELLS", 1)
    monkeypatch.setattr(exact, "POINT_LIMIT", 50)
    return "dark_hex(num_rows=2,num_cols=2,gameversion=adh)"


@pytest.mark.thorough
def test_a_model_on_a_dark_board_is_its_table_and_a_killed_command_goes_on(
    tmp_path, monkeypatch, capsys, small_board_is_large
):
    game = small_board_is_large
    monkeypatch.setenv("LEAGUE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("league.theory.public.dark_reading.FIRST_BATCH", 20)
    monkeypatch.setattr("league.theory.public.dark_reading.BATCH", 20)
    folder = tmp_path / "model"
    pocket().save(folder)
    with Engines() as engines:
        player = resolve(f"hf:{folder}", make_game(game).spec, engines)
        table = player.tabulate(limit=1000).table
        told, board = [], large_game(game)

        def stop(asked):
            told.append(asked)
            if asked > 60:  # within the second seat's
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            public_values(player, board, stop)
        asked = []
        found = public_values(player, board, asked.append)
        assert asked[0] > told[-1]
        assert asked[-1] == board.information_states == 94
    assert found.exact
    assert found.best_responses == pytest.approx(exact.best_response_values(table), abs=1e-5)
    assert found.values == pytest.approx(exact.head_to_head([table, table]), abs=1e-5)
    assert main(["exploitability", f"hf:{folder}", "--game", game, "--json"]) == 0
    shown = capsys.readouterr()
    assert "94 information states" in shown.err
    assert json.loads(shown.out)["best_responses"] == pytest.approx(found.best_responses, abs=1e-12)


def test_what_is_done_once_is_not_taken_for_the_time_of_each_state(monkeypatch, small_board_is_large):
    """By a clock that each position moves by a second, and the search for their order by a thousand."""
    clock = [0.0]

    def positions(board):
        clock[0] += 1000.0
        for position in dark_reading.typical_positions(board):
            clock[0] += 1.0
            yield position

    monkeypatch.setitem(KINDS, DarkBoard, KINDS[DarkBoard]._replace(positions=positions))
    monkeypatch.setattr(public_policy, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    with Engines() as engines:
        player = resolve("random", make_game(small_board_is_large).spec, engines)
        assert public_policy.seconds_for(player, large_game(small_board_is_large)) == 94.0


@pytest.mark.thorough
def test_minutes_that_are_too_few_on_a_dark_board_give_bounds(monkeypatch, capsys, small_board_is_large):
    with Engines() as engines:
        player = resolve("random", make_game(small_board_is_large).spec, engines)
        truth = sum(exact.best_response_values(player.tabulate(limit=1000).table)) / 2
    monkeypatch.setattr("league.population.evaluation.public_policy.seconds_for", lambda *_: 61.0)
    where, bounded = "league.population.evaluation.public_policy.dark_bounds.bounds", dark_bounds.bounds
    monkeypatch.setattr(where, lambda board, ask, seconds, seed: bounded(board, ask, 0.0, seed, plans=64))
    assert main(["exploitability", "random", "--game", small_board_is_large, "--minutes", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["sampled"]
    assert found["exploitability_low"] <= truth <= found["exploitability_high"]
    assert found["exploitability_high"] < truth + 0.3


def test_a_dark_board_that_tells_too_much_or_has_too_many_orders_says_so(monkeypatch, capsys):
    assert main(["exploitability", "random", "--game", "dark_hex"]) == 2
    assert "how often the other failed" in capsys.readouterr().err
    assert main(["exploitability", "random", "--game", "phantom_ttt(gameversion=abrupt)"]) == 2
    assert "too many orders" in capsys.readouterr().err
    monkeypatch.setattr("league.theory.public.dark_boards.passes", None)
    assert main(["exploitability", "random", "--game", "phantom_ttt"]) == 2
    assert "pip install numba" in capsys.readouterr().err
    assert large_game("phantom_ttt") is None


def test_goofspiel_with_hidden_bids_is_counted_out_too(monkeypatch, capsys):
    """The figures are the table's, in a game that the table of 50,000 states holds."""
    game = "goofspiel(imp_info=True,num_cards=4,points_order=descending)"
    with Engines() as engines:
        player = resolve("random", make_game(game).spec, engines)
        table = player.tabulate().table
    monkeypatch.setattr(exact, "POINT_LIMIT", 100)
    assert main(["exploitability", "random", "--game", game, "--json"]) == 0
    shown = capsys.readouterr()
    assert f"{len(table.probabilities):,} information states" in shown.err
    assert json.loads(shown.out)["best_responses"] == pytest.approx(exact.best_response_values(table), abs=1e-9)
