"""Progress by difficulty: values known by the rules, errors by the textbook, two players, and what is refused."""

import json
import math
from statistics import fmean, stdev

import pytest

from games.common.errors import UsageError
from games.registry import make_game
from league.cli import main
from league.cli.playing.eval import RESULTS
from league.config.suite import Suite, load_suite
from league.lab.comparisons.suite_evaluation import EvaluationPlan, SuiteEvaluation, open_evaluation
from league.lab.comparisons.suite_progress import _mean, percent, progress_by_level
from league.population.players.engines import Engines

QUESTIONS = "twenty_questions(colours=2,kinds=2,questions=4,form=1)"
LEVELS = {"easy": (QUESTIONS,), "hard": ("kuhn_poker",)}


def made(tmp_path, suite, *players):
    evaluation = SuiteEvaluation(EvaluationPlan("mine", suite, players), Engines())
    with open_evaluation(tmp_path / "e", evaluation) as store:
        evaluation.play(store, lambda _: None)
        return {(row.player, row.level, row.game): row for row in progress_by_level(evaluation, store)}


def test_progress_is_where_the_return_lies_in_the_games_range():
    spec = make_game("kuhn_poker").spec
    assert [percent(earned, spec) for earned in (-2.0, 0.0, 2.0)] == [0.0, 50.0, 100.0]


def test_a_good_asker_gets_as_far_as_the_rules_say_and_a_poor_one_as_far_as_luck(tmp_path):
    """Two questions of four cost ¼: 1.25 of the range of 1.5. Naming at once is right once in four: 0 or 1 in it.

    200 matches of one seat are 100 deals, each played by both sides.
    """
    suite = Suite(games=(QUESTIONS,), levels={"only": (QUESTIONS,)}, matches=200)
    (good, mean, everything) = made(tmp_path / "good", suite, "scripted:good").values()
    assert good.percent == mean.percent == everything.percent == pytest.approx(100 * 1.25 / 1.5)
    assert good.error == pytest.approx(0.0, abs=1e-9)
    (poor, *_) = made(tmp_path / "poor", suite, "scripted:poor").values()
    expected, spread = 100 * (0.25 * 1.5 + 0.75 * 0.5) / 1.5, 100 / 1.5 * math.sqrt(0.25 * 0.75)
    assert poor.error == pytest.approx(spread / math.sqrt(100), rel=0.1)
    assert abs(poor.percent - expected) < 4 * poor.error


def test_levels_are_means_of_games_and_their_errors_add_as_squares(tmp_path):
    levels = {"easy": (QUESTIONS, "tic_tac_toe"), "hard": ("kuhn_poker",)}
    suite = Suite(games=("kuhn_poker", QUESTIONS, "tic_tac_toe"), levels=levels, matches=40)
    rows = made(tmp_path, suite, "random")
    assert [key[1:] for key in rows] == [
        *(("easy", QUESTIONS), ("easy", "tic_tac_toe"), ("easy", "")),
        *(("hard", "kuhn_poker"), ("hard", ""), ("", "")),
    ]  # the levels in their order, not the games' order in the suite
    one, two, three = (rows["random", *key] for key in (("easy", QUESTIONS), ("easy", "tic_tac_toe"), ("hard", "")))
    easy, everything = rows["random", "easy", ""], rows["random", "", ""]
    assert easy.percent == pytest.approx((one.percent + two.percent) / 2)
    assert easy.error == pytest.approx(math.hypot(one.error, two.error) / 2)
    assert everything.percent == pytest.approx((one.percent + two.percent + three.percent) / 3)
    assert everything.error == pytest.approx(math.hypot(one.error, two.error, three.error) / 3)


def test_a_deal_is_one_observation_which_opponents_share():
    one, other = {0: 10.0, 3: 30.0, 2: 80.0}, {2: 60.0, 0: 50.0, 3: 40.0}
    mean, error = _mean([one])
    assert (mean, error) == pytest.approx((40.0, stdev(one.values()) / math.sqrt(3)))
    both = [(one[deal] + other[deal]) / 2 for deal in one]
    assert _mean([one, other]) == pytest.approx((fmean(both), stdev(both) / math.sqrt(3)))
    assert _mean([{0: 10.0}]) == (10.0, None)
    short = {0: 50.0}  # a pairing that stopped early counts as much, and its deals' order does not matter
    assert _mean([one, short])[0] == _mean([short, one])[0] == 45.0


def test_two_players_of_a_zero_sum_game_meet_and_their_progress_adds_up_to_100(tmp_path):
    suite = Suite(games=("kuhn_poker", QUESTIONS), levels=LEVELS, matches=40)
    rows = made(tmp_path, suite, "random", "always:bet")
    first, second = rows["random", "hard", "kuhn_poker"], rows["always:bet", "hard", "kuhn_poker"]
    assert first.percent + second.percent == pytest.approx(100.0)
    assert first.percent != second.percent
    assert first.error == pytest.approx(second.error)
    assert not any(key == ("always:bet", "easy", QUESTIONS) for key in rows), "it cannot bet there: not played"


def test_levels_do_not_change_which_evaluation_it_is():
    plain = Suite(games=("kuhn_poker",), matches=4)
    plans = [
        EvaluationPlan("mine", suite, ("random",)) for suite in (plain, plain.model_copy(update={"levels": LEVELS}))
    ]
    assert plans[0].to_json() == plans[1].to_json()
    assert "levels" not in plans[0].to_json()["suite"]


@pytest.mark.parametrize(
    ("levels", "sentence"),
    [
        ('{ easy = ["tic_tac_toe"] }', "levels has kuhn_poker in no level"),
        ('{ easy = ["kuhn_poker", "tic_tac_toe"], hard = ["kuhn_poker"] }', "levels has kuhn_poker twice"),
        ('{ easy = ["kuhn_poker", "tic_tac_toe", "pig"] }', "names pig, which is no game of the suite"),
    ],
)
def test_levels_that_are_not_the_suites_games_are_refused(tmp_path, levels, sentence):
    (tmp_path / "mine.toml").write_text(f'games = ["kuhn_poker", "tic_tac_toe"]\nlevels = {levels}\n')
    with pytest.raises(UsageError, match=sentence):
        load_suite(str(tmp_path / "mine.toml"))


def test_mars_has_two_levels_and_each_game_of_the_first_has_a_longer_one_of_its_kind_in_the_second(tmp_path):
    """OpenSpiel's longest matches: 9 and 42 moves, 3 and 8, 2 and more. A uniform player's progress, by level."""
    suite = load_suite("mars")
    small, large = suite.levels["small"], suite.levels["large"]
    longest = {game: make_game(game).spec.max_turns for game in (*small, *large)}
    assert [longest[game] for game in small] == [9, 3, 2]
    assert [longest[game] for game in large][:2] == [42, 8]
    assert all(longest[easy] < longest[hard] for easy, hard in zip(small, large, strict=True))
    assert set(suite.training) == set(small)
    assert set(suite.held_out) == set(large)
    rows = made(tmp_path, suite.model_copy(update={"opponents": ("random",), "matches": 40}), "random")
    assert [level for _, level, game in rows if not game] == ["small", "large", ""]
    means = [rows["random", level, ""].percent for level in ("small", "large", "")]
    assert means[2] == pytest.approx(fmean(means[:2])), "both levels have three games"
    assert rows["random", "small", "kuhn_poker"].percent == pytest.approx(50.0, abs=4 * 6), "zero-sum, with itself"


def test_the_command_prints_the_table_and_keeps_it(tmp_path, capsys):
    path = tmp_path / "mine.toml"
    path.write_text(
        f'games = ["kuhn_poker", "{QUESTIONS}"]\nmatches = 8\n[levels]\neasy = ["{QUESTIONS}"]\nhard = ["kuhn_poker"]\n'
    )
    assert main(["eval", "random", "--suite", str(path), "--run-dir", str(tmp_path / "e")]) == 0
    printed = capsys.readouterr().out
    assert printed.index("Progress by difficulty") < printed.index("easy") < printed.index("hard")
    kept = json.loads((tmp_path / "e" / RESULTS).read_text())["progress"]
    assert [(row["level"], row["game"]) for row in kept][-1] == ("", "")
    assert f"{kept[-1]['percent']:.1f} ± {kept[-1]['error']:.1f}" in printed
