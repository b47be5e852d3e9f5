"""Ad-hoc teamwork: what Lewis's codes earn with each other, by counting and by matches, and what the command says."""

import itertools
import json
from statistics import fmean

import numpy as np
import pytest

from games.common.sealed_json import write_sealed
from games.registry import make_game
from games.talk.signalling import INVENTED, STATES
from league.cli import main
from league.config import RunConfig
from league.config.load import write_run_config
from league.lab.standings.teamwork import run_teamwork, teamwork
from league.population.results.match_store import STORE_FILE
from league.population.results.ratings import Ratings
from league.population.storage.population import Population
from league.population.storage.run_dir import STATE_FOLDER, open_run
from league.theory.exact.exploitability import PolicyTable, head_to_head, uniform_table

GAME = "signalling(rounds=1,form=1)"
CODES = list(itertools.permutations(range(3)))
IDENTITY, SWAPPED, CYCLIC = (0, 1, 2), (1, 0, 2), (1, 2, 0)


def code_table(code):
    """Return who says word code[k] of state k, and chooses state k at word code[k]."""
    means = {f"it is {STATES[state]}.": word for state, word in enumerate(code)}
    means |= {f"word {INVENTED[word]}.": state for state, word in enumerate(code)}

    def sure(state):
        [chosen] = [choice for told, choice in means.items() if state.endswith(told)]
        return tuple(float(action == chosen) for action in range(3))

    return PolicyTable(GAME, {(seat, state): sure(state) for seat, state in uniform_table(GAME).probabilities})


def test_with_itself_a_code_is_always_right_and_with_a_stranger_of_any_code_one_time_in_three():
    """The receiver is right in the fixed points of a permutation, of which there is one on average (Burnside).

    So nobody who plays one code, or any other fixed policy, earns more than 1/3 with strangers whose code is as likely
    any as another.
    """
    tables = {code: code_table(code) for code in CODES}
    assert [head_to_head([table, table])[0] for table in tables.values()] == pytest.approx([1.0] * 6)
    for mine in tables.values():
        assert fmean(head_to_head([mine, other])[1] for other in tables.values()) == pytest.approx(1 / 3)


def test_the_score_is_the_mean_with_strangers_by_the_mean_with_itself():
    """Two of Tiny Hanabi's conventions: 10 together, 9 and 5 with strangers; the other was never met."""
    returns = np.array([[10.0, 9.0, 5.0], [9.0, np.nan, np.nan], [5.0, np.nan, 10.0]])
    [line] = teamwork(["main-1", "ann-1", "bob-1"], returns, ["main-1"], ["ann-1", "bob-1", "eve-1"])
    assert line.strangers == ("ann-1", "bob-1")
    assert (line.with_strangers, line.with_itself, line.score) == pytest.approx((7.0, 10.0, 0.7))
    [alone] = teamwork(["ann-1", "bob-1"], returns[1:, 1:], ["bob-1"], ["bob-1"])
    assert alone.score == 1.0
    [unknown] = teamwork(["main-1", "ann-1"], returns[[1, 0]][:, [1, 0]], ["main-1"], ["ann-1"])
    assert unknown.with_itself is None
    assert unknown.score is None
    [losing] = teamwork(["m", "a"], np.array([[-1.0, -2.0], [-2.0, -1.0]]), ["m"], ["a"])
    assert losing.score is None, "of a return that is not above 0 there is no share"
    assert teamwork(["main-1"], np.array([[10.0]]), ["main-1"], ["eve-1"]) == []


@pytest.fixture
def co_play(tmp_path):
    """Return a run whose main plays one code, with two strangers who play others."""
    from arena.lm.pocket import PocketShape, build_pocket

    eve, joe = ({"league_role": "partner", "held_out": True} for _ in range(2))
    path = tmp_path / "run"
    path.mkdir()
    model = {"hidden_size": 16, "layers": 1, "vocabulary": 300}
    config = RunConfig(iterations=10, games={GAME: {}}, model=model, policies={"eve": eve, "joe": joe})
    write_run_config(path, config)
    population = Population(path / "population")
    weights = build_pocket(["sun tree fish"], PocketShape(16, 1, 16, 300), seed=0)
    tables = path / STATE_FOLDER / "tables"
    tables.mkdir(parents=True)
    for policy, code in (("eve", SWAPPED), ("joe", CYCLIC), ("main", IDENTITY)):
        snapshot = population.add(policy, 10, None, weights.save)
        rows = [[*key, *row] for key, row in code_table(code).probabilities.items()]
        write_sealed(tables / f"{snapshot.id}.{GAME}.json", rows)
    (path / "ratings.json").write_text(json.dumps(Ratings().to_json()))
    return path


def test_a_small_games_teamwork_is_counted_out(co_play):
    """A swapped pair leaves one of three states right, a cycle none: 1/6 on average."""
    [line] = run_teamwork(open_run(co_play), make_game(GAME).spec, None)
    assert (line.player, line.strangers, line.exact) == ("main-000010", ("eve-000010", "joe-000010"), True)
    assert (line.with_strangers, line.with_itself, line.score) == pytest.approx((1 / 6, 1.0, 1 / 6))


def test_both_seatings_count_where_a_player_is_better_in_one(co_play):
    """Main speaks its code and always chooses the first thing; with one of the same code it is right always, or 1/3."""
    deaf = {key: row if key[0] == 0 else (1.0, 0.0, 0.0) for key, row in code_table(IDENTITY).probabilities.items()}
    for policy, table in (("main", deaf), ("eve", code_table(IDENTITY).probabilities)):
        rows = [[*key, *row] for key, row in table.items()]
        write_sealed(co_play / STATE_FOLDER / "tables" / f"{policy}-000010.{GAME}.json", rows)
    [line] = run_teamwork(open_run(co_play), make_game(GAME).spec, None)
    with_eve, with_joe = (1.0 + 1 / 3) / 2, (0.0 + 1 / 3) / 2
    assert (line.with_strangers, line.with_itself) == pytest.approx(((with_eve + with_joe) / 2, 1 / 3))


def test_the_command_says_it_in_words_and_as_json(co_play, capsys):
    assert not (co_play / STORE_FILE).exists()
    assert main(["standings", str(co_play)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert (
        "Ad-hoc teamwork, exactly: main-000010 earns 0.167 with eve-000010, joe-000010, which it never met in "
        "training, "
        "and 1.000 with itself: a score of 0.167." in printed
    )
    assert main(["standings", str(co_play), "--json"]) == 0
    [line] = json.loads(capsys.readouterr().out)["games"][GAME]["ad_hoc_teamwork"]
    assert line["score"] == pytest.approx(1 / 6)
    assert line["strangers"] == ["eve-000010", "joe-000010"]
