"""Adaptation to a stranger: the exact Bayesian of six codes in closed form, those who never adapt, and the command."""

import json

import pytest

from games.common.errors import UsageError
from games.registry import make_game
from league.cli import main
from league.lab.comparisons.adaptation import ROUNDS, AdaptationMatches, adaptation
from league.population.players.engines import Engines
from league.population.players.player import resolve

GAME = "signalling(rounds=9,form=1)"
SPEC = make_game(GAME).spec
MATCHES = 400


def curve(player, stranger, game=GAME, rounds=ROUNDS, **settings):
    spec = make_game(game).spec
    with Engines() as engines:
        resolved = [resolve(text, spec, engines) for text in (player, stranger)]
        return {
            row.rounds: row
            for row in adaptation(*resolved, AdaptationMatches(rounds, **{"matches": MATCHES, **settings}))
        }


def test_the_bayesian_of_six_codes_is_right_after_k_rounds_with_probability_1_less_3_to_the_minus_k():
    """Both as sender and as receiver: of three pairs d are known after k rounds, and (d + 1)/3 is right, at most 1."""
    rows = curve("scripted:bayes", "scripted:good")
    assert list(rows) == list(ROUNDS)
    for rounds, row in rows.items():
        expected = 1 - 3.0**-rounds if rounds else 1 / 3
        assert row.turns == MATCHES
        assert row.earned.mean == pytest.approx(expected, abs=4 * max(expected * (1 - expected), 1e-4) ** 0.5 / 20)


@pytest.mark.parametrize(
    ("player", "stranger", "expected"),
    [
        ("scripted:good", "scripted:good", 1.0),
        ("random", "scripted:good", 1 / 3),
        ("scripted:poor", "scripted:good", 1 / 3),
    ],
)
def test_who_does_not_adapt_earns_the_same_after_any_number_of_rounds(player, stranger, expected):
    for row in curve(player, stranger).values():
        assert row.earned.mean == pytest.approx(expected, abs=4 * (expected * (1 - expected)) ** 0.5 / 20 + 1e-9)


def test_with_a_stranger_who_has_no_code_there_is_nothing_to_learn():
    for row in curve("scripted:bayes", "random").values():
        assert row.earned.mean == pytest.approx(1 / 3, abs=4 * (2 / 9) ** 0.5 / 20)


def test_the_order_of_rounds_and_doubles_do_not_matter_and_deals_are_the_seeds():
    ordered, mixed = curve("random", "scripted:good"), curve("random", "scripted:good", rounds=(8, 0, 0, 2, 4, 1))
    assert list(ordered.items()) == list(mixed.items())
    assert curve("random", "scripted:good", seed=1) != ordered


def test_what_is_earned_is_the_players_and_not_the_strangers():
    """In the prisoner's dilemma who defects on a cooperator earns 10 a round, and the cooperator 0 (OpenSpiel)."""
    ipd = "repeated_game(stage_game=matrix_pd(),num_repetitions=8)"
    for player, stranger, payoff in (("defect", "cooperate", 10.0), ("cooperate", "defect", 0.0)):
        rows = curve(f"always:{player}", f"always:{stranger}", ipd, rounds=(0, 7), matches=8)
        assert [row.earned.mean for row in rows.values()] == [payoff] * 2
        whole = curve(f"always:{player}", f"always:{stranger}", ipd, rounds=(0,), matches=8, whole=True)[None]
        assert (whole.earned.mean, whole.turns) == (8 * payoff, 8)  # in either seat


def test_no_interval_reaches_what_a_round_cannot_pay():
    """A round of the signalling game pays 0 or 1, so that who is always right still earned at most 1."""
    for player in ("scripted:good", "scripted:bayes"):
        rows = curve(player, "scripted:good", GAME, rounds=(0, 4), matches=40)
        assert all(0.0 <= row.earned.low <= row.earned.mean <= row.earned.high <= 1.0 for row in rows.values())
    assert rows[4].earned.low < 1.0, "of 40 deals that agree not all is known"


def test_what_the_bayesian_believes_of_a_word_are_the_states_that_no_other_word_has():
    game = make_game(GAME).undealt()
    game.apply_chance("tree")
    game.apply("dax")
    assert game.belief("bayes", "thing", 1) == pytest.approx({"sun": 1 / 3, "tree": 1 / 3, "fish": 1 / 3})
    game.apply("sun")
    game.apply_chance("sun")
    game.apply("bem")
    assert game.belief("bayes", "thing", 1) == pytest.approx({"sun": 1 / 2, "tree": 0.0, "fish": 1 / 2})
    game.apply("sun")
    game.apply_chance("tree")
    game.apply("dax")
    assert game.belief("bayes", "thing", 1) == {"sun": 0.0, "tree": 1.0, "fish": 0.0}


@pytest.mark.parametrize(
    ("game", "sentence"),
    [
        ("signalling(rounds=4,form=1)", r"has a turn after 4 of the player's own; .*2 is the last"),
        ("sums", "has one seat"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_a_sentence(game, sentence):
    with pytest.raises(UsageError, match=sentence):
        curve("random", "random", game)


def test_the_command_shows_players_beside_each_other(capsys):
    words = [
        "adapt",
        "random",
        "--to",
        "scripted:good",
        "--game",
        GAME,
        "--beside",
        "scripted:bayes",
        "--matches",
        "20",
    ]
    assert main([*words, "--rounds", "0", "4", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["player"], row["rounds"], row["turns"]) for row in rows] == [
        ("random", 0, 20), ("random", 4, 20), ("scripted:bayes", 0, 20), ("scripted:bayes", 4, 20),
    ]  # fmt: skip
    assert main([*words, "--rounds", "4"]) == 0
    assert f"{rows[3]['earned']:.3f}" in capsys.readouterr().out
    assert main([*words[:-2], "--rounds", "30"]) == 2
    assert "Choose a game of more rounds" in capsys.readouterr().err
