"""Predicting what others do and tools return: only what a seat itself was shown, and nothing at weight 0."""

import pytest
from support.models.pocket import pocket
from support.processes.runs import TINY, contents

import league
from arena.records import MatchRequest
from arena.samplers.scripted import Random, Script
from arena.scheduler import play
from games.common.errors import UsageError
from games.registry import make_game
from league.config.load import load
from league.training.evidence.predicted import new_words, of_others, of_tools
from learners.batching import TrainBatch
from learners.losses.batch_loss import BatchLoss
from learners.losses.given_rows import GivenRows
from learners.losses.objective import Objective, Surrogate
from learners.losses.prediction import predicted_rows
from learners.metric_sums import MetricSums
from learners.trajectories import Evidence, Predicted, Trajectory, evidence_from_json, evidence_to_json, to_trajectories
from roles.cards import load_roles


def config(tmp_path, *overrides):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return load(str(path), ["iterations=2", "snapshot_every=2", "board.time=0", "evaluation.matches=0", *overrides])


def played(game, script=None, seed=0):
    roles = load_roles(make_game(game).spec)
    names = tuple("ab"[: len(roles)])
    request = MatchRequest(0, make_game(game).spec.name, seed, seed, names, (True,) * len(names))
    engine = Script(script) if script else Random()
    (episode,) = play([request], roles_of=lambda _: roles, engine_of=lambda _: engine, make_game=make_game)
    return roles, episode


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("Your card: J\nMoves: none", "Your card: J\nMoves: bet", "bet"),
        ("Your card: J\nMoves: bet", "Your card: J\nMoves: bet pass", "pass"),
        ("Pot: 2\nYou: K", "Pot: 4\nYou: K", "4"),
        ("a b a", "a b a b a", "b a"),
        ("same", "same", ""),
        ("", "Ann: I know.", "Ann: I know."),
        ("a b c", "a c", ""),
    ],
)
def test_the_words_that_are_new(before, after, words):
    assert new_words(before, after) == words


def test_a_seat_predicts_the_others_move_from_what_it_saw_before_it():
    roles, episode = played("kuhn_poker", seed=3)
    others = [turn for turn in episode.turns if turn.seat == 1]
    found = list(of_others(roles[0], episode))
    assert [shown.words for shown in found] == [turn.action for turn in others]
    assert episode.turns[0].action in found[0].chat[-1]["content"], "its own move is in what it saw"
    assert not any(turn.observation.split("\n")[0] in found[0].chat[-1]["content"] for turn in others), "not their card"


def test_what_others_do_in_secret_is_not_predicted():
    """In the iterated prisoner's dilemma the first seat's choice is shown only after the second has chosen."""
    game = "repeated_game(stage_game=matrix_pd(),num_repetitions=2)"
    roles, episode = played(game)
    assert [turn.seat for turn in episode.turns] == [0, 1, 0, 1]
    assert list(of_others(roles[1], episode)) == []
    assert "defect" in next(of_others(roles[0], episode)).words, "the round is over"


def test_what_a_tool_returns_is_predicted_after_the_call():
    roles, episode = played("lookup_alone", "optimal")
    (trajectory,) = to_trajectories([episode], lambda _: roles, {episode.request.game: 1.0})
    calls = [turn for turn in trajectory.turns if turn.tool]
    found = list(of_tools(roles[0], trajectory))
    assert len(found) == len(calls) > 0
    for shown, turn in zip(found, calls, strict=True):
        assert shown.chat[-2] == {"role": "assistant", "content": turn.reply}
        following = trajectory.turns[trajectory.turns.index(turn) + 1].observation
        assert shown.words in following
        assert shown.words not in turn.observation


def logprob(lm, prompt, text):
    import torch

    logits = lm.model(torch.tensor([[*prompt, *text]])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
    return float(logits[range(len(text)), list(text)].sum().detach())


def test_the_loss_is_the_cross_entropy_a_token_by_role_and_source():
    lm = pocket()
    prompts = [lm.encode_prompt([{"role": "user", "content": text}]) for text in ("Moves: none", "Moves: bet")]
    texts = [lm.encode_reply(text) for text in ("bet", "pass", "12")]
    evidence = [
        Evidence(predicted=(Predicted("replies", prompts[0], texts[0]), Predicted("tools", prompts[1], texts[2]))),
        Evidence(predicted=(Predicted("replies", prompts[0], texts[0]), Predicted("replies", prompts[1], texts[1]))),
        Evidence(predicted=(Predicted("replies", prompts[1], texts[1]),)),
    ]
    one = Trajectory("kuhn_poker", "first", "main", 0, 0, 0, ("main",), (), (), 0.0)
    factors = {"replies": [1.0, 3.0, 0.0], "tools": [1.0, 1.0, 1.0]}
    rows = predicted_rows([one] * 3, evidence, factors, {"replies": 0.5, "tools": 2.0})
    assert len(rows.free) == 3, "equal ones are one row, and a role without a factor has none"
    sums = MetricSums()
    batch = TrainBatch("main", (), (), 0, (), {"prediction": rows})
    loss = sum(BatchLoss(lm, None, batch, Objective(Surrogate("reinforce"), {}), max_tokens=8192).losses(0, sums))
    bet, passed, tool = (
        logprob(lm, prompts[i], text) for i, text in zip((0, 1, 1), (texts[0], texts[1], texts[2]), strict=True)
    )
    replies = 2 * len(texts[0]) + len(texts[1])
    expected = -0.5 * (bet + 3 * bet + 3 * passed) / replies - 2.0 * tool / len(texts[2])
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-4)
    mean = -(2 * bet + passed + tool) / (replies + len(texts[2]))
    assert sums.mean("prediction", "predicted_tokens") == pytest.approx(mean, rel=1e-4)
    assert predicted_rows([one] * 3, evidence, factors, {"replies": 0.0}) == GivenRows()
    for found in evidence:
        assert evidence_from_json(evidence_to_json(found)) == found


def learned(run):
    made = ("population/", "results.sqlite", "state/tables", "mixtures.jsonl", "payoffs.json", "ratings.json")
    return {name: data for name, data in contents(run.path).items() if name.startswith(made)}


def test_at_weight_0_the_run_is_the_one_without_it_bit_for_bit(tmp_path):
    plain = league.train(config(tmp_path), tmp_path / "plain")
    deaf = '{"kuhn_poker/first"=0.0,"kuhn_poker/second"=0.0}'
    off = league.train(
        config(tmp_path, "prediction.replies.weight=1.0", f"prediction.replies.roles={deaf}"), tmp_path / "off"
    )
    assert learned(off) == learned(plain)
    assert not any("prediction" in name for line in off.iterations() for name in line)
    on = league.train(config(tmp_path, "prediction.replies.weight=1.0"), tmp_path / "on")
    assert learned(on) != learned(plain)
    assert on.iterations()[-1]["main/prediction/loss"] > 0.0


@pytest.mark.thorough
def test_who_predicts_learns_to(tmp_path):
    """What a uniform opponent does is worth log 2 a move; the end of the text is sure."""
    settings = ["iterations=25", "snapshot_every=25", "optimizer.learning_rate=3e-3", "prediction.replies.weight=1.0"]
    lines = league.train(config(tmp_path, *settings), tmp_path / "on").iterations()
    first, last = (lines[i]["main/prediction/loss"] for i in (1, -1))
    assert last < first / 2


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["prediction.tools.weight=1"], "no learning role has a tool"),
        (['prediction.replies.roles={"kuhn_poker/third"=1.0}'], "no role named 'kuhn_poker/third'"),
        (["prediction.replies.weight=1", "games.lookup_chain.matches=64"], "lookup_chain.* opens other matches"),
        (["prediction.replies.weight=1", "optimizer.sharded=true", "optimizer.processes=2"], "prediction adds passes"),
    ],
)
def test_what_could_not_be_predicted_is_refused(tmp_path, overrides, words):
    with pytest.raises(UsageError, match=words):
        config(tmp_path, *overrides)
