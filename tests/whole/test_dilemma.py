"""The iterated prisoner's dilemma: what its seats read, who always defects, and that cooperation is learned."""

import itertools

import pytest

from benchmarks.studies.cooperation.dilemma import GAME, RULES, defection, measure, mutual_cooperation
from games.common.errors import UsageError
from games.registry import make_game
from league.config.load import load
from league.population.evaluation.head_to_head import compare
from league.population.players.engines import Engines
from league.population.players.player import resolve
from roles.cards import load_roles

PAYOFFS = {"cooperate": {"cooperate": (5, 5), "defect": (0, 10)}, "defect": {"cooperate": (10, 0), "defect": (1, 1)}}


def after(*actions, name=GAME):
    game = make_game(name)
    for action in actions:
        game.apply(action)
    return game


def test_the_payoffs_are_those_on_the_card():
    for first, second in itertools.product(PAYOFFS, repeat=2):
        assert after(first, second).rewards() == PAYOFFS[first][second]
    for role in load_roles(make_game(GAME).spec):
        assert "Both cooperate: 5 points each. Both defect: 1 point each" in role.system
        assert "that one gets 10 points, the other 0" in role.system


def test_a_seat_reads_the_last_round_from_its_own_side():
    game = after("cooperate", "cooperate", "cooperate", "defect")
    assert game.observe(0) == "You: cooperate\nOther: defect"
    assert game.observe(1) == "You: defect\nOther: cooperate"
    assert game.information_state(0) == "You: cooperate cooperate\nOther: cooperate defect"
    assert after().observe(0) == "Last round: none"


def test_a_move_of_this_round_is_hidden_until_both_have_chosen():
    for moves in ((), ("defect", "cooperate")):
        observations = {after(*moves, first).observe(1) for first in PAYOFFS}
        assert len(observations) == 1
        assert {after(*moves, first).information_state(1) for first in PAYOFFS} == observations


def test_recall_says_how_many_rounds_are_shown():
    three = after(*("cooperate", "defect") * 4, name=f"{GAME[:-1]},recall=3)")
    assert three.observe(0) == "You: cooperate cooperate cooperate\nOther: defect defect defect"


def meet(first, second):
    spec, engines = make_game(GAME).spec, Engines()
    return compare((resolve(first, spec, engines), resolve(second, spec, engines)), 100, seed=0)


def test_scripted_players_get_the_payoffs():
    """Eight rounds of 5 for each of two cooperators; of 10 and 0 where one always defects."""
    assert meet("always:cooperate", "always:cooperate").returns[0].mean == 40.0
    unequal = meet("always:defect", "always:cooperate")
    assert [player.mean for player in unequal.returns] == [80.0, 0.0]
    assert mutual_cooperation(unequal.episodes) == 0.0
    assert [defection(unequal.episodes, f"always:{action}") for action in PAYOFFS] == [0.0, 1.0]


def test_conduct_of_random_play():
    """Both of two random players cooperate in a quarter of the rounds, and a random player defects in half."""
    random_play = meet("random", "random").episodes
    assert mutual_cooperation(random_play) == pytest.approx(0.25, abs=0.06)
    assert defection(meet("random", "always:defect").episodes, "random") == pytest.approx(0.5, abs=0.07)


def test_an_action_that_the_game_has_not_is_refused():
    with pytest.raises(UsageError, match=r"always:fold cannot play repeated_game.*cooperate, defect are legal"):
        meet("always:fold", "random")


def test_both_rules_of_the_benchmark_are_the_preset_but_for_beta():
    configs = {rule: load("ipd", overrides) for rule, overrides in RULES.items()}
    credit = configs["aligned"].credit
    settings = credit.settings_of("advantage_alignment")
    assert settings.weight > 0.0
    plain = credit.model_copy(update={"advantage_alignment": settings.model_copy(update={"weight": 0.0})})
    assert configs["plain"] == configs["aligned"].model_copy(update={"credit": plain})


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return the conduct of the preset and of its plain twin, trained with seed 0."""
    [figures] = measure([0], tmp_path_factory.mktemp("dilemma"))["seeds"]
    return {rule: {name: figures[f"{rule}_{name}"] for name in ("cooperation", "defection")} for rule in RULES}


@pytest.mark.slow
def test_aligned_credit_mostly_cooperates_but_not_with_a_defector_and_plain_credit_defects(trained):
    assert trained["aligned"]["cooperation"] > 0.6 > 0.1 > trained["plain"]["cooperation"]
    assert min(trained["aligned"]["defection"], trained["plain"]["defection"]) > 0.8
