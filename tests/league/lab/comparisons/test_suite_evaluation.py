"""Evaluations by a suite: exact values, a corrected test, intervals that cover, and kills that lose nothing."""

import json
import math

import pyspiel
import pytest
from open_spiel.python.algorithms import cfr

from games.common.errors import UsageError
from league.cli import main
from league.cli.playing.eval import RESULTS
from league.config.suite import Suite, load_suite
from league.lab.comparisons.suite_evaluation import EvaluationPlan, SuiteEvaluation, open_evaluation
from league.lab.comparisons.suite_results import compare_games, pairing_results, two_sided_p
from league.lab.comparisons.until_decided import Until
from league.population.evaluation.head_to_head import Winner
from league.population.players.engines import Engines
from league.theory.statistics import clustered_mean

BETS = (0.5 + 0.25) / 2  # the mean return of always:bet against uniform play in Kuhn poker, worked out below
KUHN = Suite(games=("kuhn_poker",), opponents=("random", "equilibrium"), matches=400)


def nothing(_episode):
    pass


def evaluated(tmp_path, suite, *players, until=None):
    evaluation = SuiteEvaluation(EvaluationPlan("mine", suite, players, until=until), Engines())
    with open_evaluation(tmp_path / "e", evaluation) as store:
        evaluation.play(store, nothing)
        tests = compare_games(evaluation, store) if len(players) == 2 else []
        return pairing_results(evaluation, store), tests


def value_against_random(policy):
    """Return what OpenSpiel's own traversal gives a policy of Kuhn poker against uniform play, over both seats."""

    def walk(state, seat, reach):
        if state.is_terminal():
            return reach * state.returns()[seat]
        if state.is_chance_node():
            chances = state.chance_outcomes()
        elif state.current_player() == seat:
            chances = policy(state)
        else:
            legal = state.legal_actions()
            chances = [(action, 1.0 / len(legal)) for action in legal]
        return sum(walk(state.child(action), seat, reach * share) for action, share in chances)

    return sum(walk(pyspiel.load_game("kuhn_poker").new_initial_state(), seat, 1.0) for seat in (0, 1)) / 2.0


def test_exact_values_are_openspiels_and_the_interval_agrees(tmp_path):
    against_random, against_itself = evaluated(tmp_path, KUHN, "equilibrium")[0]
    assert against_itself.exact == pytest.approx(0.0, abs=1e-9)  # each seat is played by both
    solver = cfr.CFRPlusSolver(pyspiel.load_game("kuhn_poker"))
    for _ in range(300):
        solver.evaluate_and_update_policy()
    policy = solver.average_policy()
    expected = value_against_random(lambda state: policy.action_probabilities(state).items())
    assert against_random.exact == pytest.approx(expected, abs=0.01)  # equilibria differ in what they win of fools
    for result in (against_random, against_itself):
        assert result.returns.low <= result.exact <= result.returns.high
        assert result.matches == 400
    assert set(against_random.by_role) == {"first", "second"}


def test_an_always_betting_player_has_the_value_that_is_known_by_hand(tmp_path):
    # Against uniform play the bettor's bet is called half of the time: it then wins or loses 2 by the card, 0 in the
    # mean, and else wins 1. As second it faces a bet half of the time, with the same result: 0 there, ½ after a pass.
    suite = Suite(games=("kuhn_poker",), opponents=("random",), matches=200)
    (result,) = evaluated(tmp_path, suite, "always:bet")[0]
    assert result.exact is None  # its probabilities are not known to the program
    assert result.returns.low <= BETS <= result.returns.high


def test_the_shipped_spiral_is_played_as_far_as_equilibrium_can(tmp_path):
    suite = load_suite("spiral").model_copy(update={"opponents": ("random",), "matches": 40})
    evaluation = SuiteEvaluation(EvaluationPlan("spiral", suite, ("equilibrium",)), Engines())
    assert [one.pairing.game for one in evaluation.contests] == ["kuhn_poker"]
    reasons = {item.game: item.reason for item in evaluation.skipped}
    assert set(reasons) == {game for _, game in suite.by_kind()} - {"kuhn_poker"}
    assert "histories" in reasons["tic_tac_toe"]


def test_of_two_players_the_better_is_found_by_one_corrected_test(tmp_path):
    ipd = "repeated_game(stage_game=matrix_pd(),num_repetitions=8)"
    suite = Suite(games=(ipd,), opponents=("itself", "always:cooperate"), matches=20)
    results, (test,) = evaluated(tmp_path, suite, "always:defect", "always:cooperate")
    own = {(r.pairing.player, r.pairing.opponent): r.returns.mean for r in results}
    # Each of 8 rounds pays 10 for defecting against a cooperator, 5 if both cooperate, 1 if both defect.
    assert own == {
        ("always:defect", "itself"): 8.0,
        ("always:cooperate", "itself"): 40.0,
        ("always:defect", "always:cooperate"): 80.0,
        ("always:cooperate", "always:cooperate"): 40.0,
    }
    assert test.difference.mean == pytest.approx((8.0 + 80.0) / 2 - 40.0)
    assert test.p == test.corrected == 2.0**-9  # ten deals, all alike


def test_players_of_a_zero_sum_game_meet(tmp_path):
    suite = Suite(games=("tic_tac_toe", "kuhn_poker"), opponents=("random",), matches=40)
    results, tests = evaluated(tmp_path, suite.model_copy(update={"games": ("tic_tac_toe",)}), "mcts:30", "random")
    assert [(r.pairing.player, r.pairing.opponent) for r in results] == [("mcts:30", "random")]
    assert tests[0].difference.low > 0.0
    assert tests[0].corrected < 0.05


def test_over_several_games_p_values_are_corrected_step_by_step(tmp_path):
    """Holm: with m games, the smallest p is taken m times, the next m - 1 times, and none is less than one before."""
    suite = Suite(games=("nim", "tic_tac_toe", "hex(board_size=3)"), opponents=("random",), matches=24)
    _, tests = evaluated(tmp_path, suite, "mcts:3", "random")
    p_values = [test.p for test in tests]
    ordered = sorted(p_values)
    assert len(set(p_values)) == 3
    assert ordered != p_values
    for test in tests:
        smaller = ordered[: ordered.index(test.p) + 1]
        assert test.corrected == pytest.approx(max(min(1.0, (3 - rank) * p) for rank, p in enumerate(smaller)))
    assert any(test.corrected > test.p for test in tests)


def test_the_p_value_is_students_and_of_equal_values_the_sign_tests():
    assert two_sided_p([1.0, 2.0, 3.0]) == pytest.approx(0.0741799, abs=1e-6)  # t = 2 √3 with 2 degrees of freedom
    assert two_sided_p([0.0] * 5) == 1.0
    assert two_sided_p([2.0] * 5) == 2.0**-4
    assert two_sided_p([1.0]) is None


def test_an_evaluation_that_is_stopped_goes_on_with_every_match_counted_once(tmp_path):
    suite = Suite(games=("kuhn_poker", "tic_tac_toe"), opponents=("random",), matches=60)
    plan = EvaluationPlan("mine", suite, ("random",))
    whole, _ = evaluated(tmp_path / "whole", suite, "random")
    seen = []

    def stop(episode):
        seen.append(episode)
        if len(seen) == 70:
            raise KeyboardInterrupt

    with open_evaluation(tmp_path / "e", SuiteEvaluation(plan, Engines())) as store:
        with pytest.raises(KeyboardInterrupt):
            SuiteEvaluation(plan, Engines()).play(store, stop)
        kept = store.indices()
    seen.clear()
    evaluation = SuiteEvaluation(plan, Engines())
    with open_evaluation(tmp_path / "e", evaluation) as store:
        assert 60 <= len(kept) < 120
        assert store.indices() == kept
        evaluation.play(store, seen.append)
        assert kept.isdisjoint(episode.request.index for episode in seen)
        assert len(kept) + len(seen) == len(store.indices()) == len(evaluation) == 120
        assert pairing_results(evaluation, store) == whole


def test_until_stops_a_pairing_early_and_says_who_won(tmp_path):
    suite = Suite(games=("tic_tac_toe",), opponents=("random",), matches=400)
    (result,), _ = evaluated(tmp_path, suite, "mcts:20", until=Until(at_most=400))
    assert result.decision.winner is Winner.A
    assert result.matches < 400
    (again,), _ = evaluated(tmp_path, suite, "mcts:20", until=Until(at_most=400))
    assert again == result  # from the store, without a further match


def test_until_two_players_games_stop_and_all_verdicts_share_one_error(tmp_path):
    ipd = "repeated_game(stage_game=matrix_pd(),num_repetitions=8)"
    suite = Suite(games=("tic_tac_toe", ipd), opponents=("always:cooperate",), matches=200)
    results, tests = evaluated(tmp_path, suite, "mcts:20", "random", until=Until(at_most=200))
    by_game = {test.game: test for test in tests}
    met = by_game["tic_tac_toe"]
    assert (met.decided.winner, met.better, met.p) == (Winner.A, 0, None)
    assert met.decided.confidence == pytest.approx(1.0 - 0.05 / len(by_game))
    assert next(r.matches for r in results if r.pairing.game == "tic_tac_toe") < 200
    for game, test in by_game.items():
        assert test.decided is None or game == "tic_tac_toe"


def test_a_folder_of_another_question_is_refused(tmp_path):
    evaluated(tmp_path, KUHN.model_copy(update={"matches": 20}), "random")
    with pytest.raises(UsageError, match="holds another evaluation"):
        evaluated(tmp_path, KUHN.model_copy(update={"matches": 40}), "random")
    with pytest.raises(UsageError, match="cannot be compared with itself"):
        evaluated(tmp_path, KUHN, "random", "random")


def test_the_command_plays_a_suite_of_three_lines_and_keeps_everything_in_one_file(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text('games = ["kuhn_poker"]\nopponents = ["random"]\nmatches = 20\n')
    assert main(["eval", "random", "--suite", "mine.toml", "--dry-run"]) == 0
    assert not (tmp_path / "evaluations").exists()
    assert main(["eval", "random", "--suite", "mine.toml", "--json"]) == 0
    captured = capsys.readouterr()
    printed = json.loads(captured.out)
    assert "matches 20" in captured.err
    assert json.loads((tmp_path / printed["folder"] / RESULTS).read_text()) == printed
    assert printed["hashes"] == {"random": None}
    assert printed["results"][0]["exact_return"] == pytest.approx(0.0, abs=1e-12)
    assert main(["eval", "random", "--suite", "mine.toml"]) == 0
    assert "kuhn_poker" in capsys.readouterr().out


@pytest.mark.thorough
def test_of_500_evaluations_the_intervals_cover_the_exact_value_as_often_as_they_say(tmp_path):
    suite = Suite(games=("kuhn_poker",), opponents=("random",), matches=60 * 500)
    evaluation = SuiteEvaluation(EvaluationPlan("mine", suite, ("always:bet",)), Engines())
    with open_evaluation(tmp_path / "e", evaluation) as store:
        evaluation.play(store, nothing)
        meetings = evaluation.meetings(0, store)
    covered = 0
    for start in range(0, len(meetings), 60):  # 30 deals each
        part = meetings[start : start + 60]
        values = [meeting.returns[meeting.seating.index(0)] for meeting in part]
        estimate = clustered_mean(values, [meeting.deal for meeting in part], (-2.0, 2.0))
        covered += estimate.low <= BETS <= estimate.high
    assert abs(covered / 500 - 0.95) <= 3.0 * math.sqrt(0.95 * 0.05 / 500)
