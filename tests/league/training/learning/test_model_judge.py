"""CoMAS with a model that scores: what a policy of the run says pays the other two, and its advantages are z-scores."""

from statistics import fmean

import pytest

from arena.replays import load_episodes
from games.registry import make_game
from league import load_config, train
from league.training.board.metrics_log import read_metrics

GAME = "judged_arithmetic(judge=1)"
SETTINGS = f"""
threads = 1
iterations = 1
snapshot_every = 1
episodes_kept = 32
board.time = 0.0
credit.rule = "comas"
games."{GAME}".matches = 32
roles.policy = {{ "{GAME}/judge" = "scorer" }}
matchmaking = {{ self_play = 1.0, fictitious = 0.0 }}
model = {{ hidden_size = 32, layers = 1, intermediate_size = 16, vocabulary = 300 }}
cold_start = {{ steps = 2, matches = 16 }}
evaluation = {{ matches = 0, exact = false }}
"""


@pytest.mark.thorough
def test_a_model_scores_and_its_score_alone_pays_solver_and_evaluator(tmp_path):
    (tmp_path / "run.toml").write_text(SETTINGS)
    train(load_config(tmp_path / "run.toml", "seed=1"), tmp_path / "run")
    [kept] = (tmp_path / "run" / "episodes").glob("*.jsonl")
    matches, agree = load_episodes(kept), []
    for match in matches:
        answer, said, score = (turn.action for turn in match.turns)
        assert [player.partition("-")[0] for player in match.request.players] == ["main", "main", "scorer"]
        earned = (int(score) - 1) / 2
        assert match.returns == (earned, 1 - earned, 0.0), "the judge is paid nothing, right or wrong"
        game = make_game(GAME)
        game.reset(match.request.deal_seed)
        total = str(sum(game.sum))
        truth = "3" if answer == total else "1" if said == f"It is {total}" else "2"
        agree.append(score == truth)
    assert len({match.turns[2].action for match in matches}) == 3, "it is a policy, which nobody has taught the truth"
    last = list(read_metrics(tmp_path / "run"))[-1]
    assert last[f"{GAME}/judge/agreement"] == pytest.approx(fmean(agree))
    assert 0.0 < fmean(agree) < 0.9
    for role in ("solver", "evaluator"):
        assert last[f"{GAME}/advantage/{role}/mean"] == pytest.approx(0.0, abs=1e-6)
        assert last[f"{GAME}/advantage/{role}/spread"] == pytest.approx(1.0, abs=0.02)
    assert last[f"{GAME}/advantage/judge/spread"] == pytest.approx(0.0, abs=1e-6), "all its scores earn the same"
