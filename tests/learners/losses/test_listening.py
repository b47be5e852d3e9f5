"""The listening loss: minus the mean log-probability of the truth at probes, by hand, and nothing at weight 0."""

import pytest
import torch
from support.models.pocket import pocket

from learners.batching import TrainBatch
from learners.losses.batch_loss import BatchLoss
from learners.losses.given_rows import GivenRows
from learners.losses.listening import listening_rows
from learners.losses.objective import Objective, Surrogate
from learners.metric_sums import MetricSums
from learners.trajectories import Evidence, ProbeAnswers, Trajectory, evidence_from_json, evidence_to_json

ANSWERS = ("Ann", "Bob", "Cleo")


def trajectory(seat):
    return Trajectory("hidden_roles", f"r{seat}", "main", seat, 0, 0, ("main",), (), (), 0.0)


def logprob(lm, prompt, answer):
    tries = [lm.trie(ANSWERS)]
    (chunk,) = lm.plan_choice([prompt], tries, 8192)
    return lm.choice_logprobs(chunk, tries, 1.0).replies[0][ANSWERS.index(answer)]


@pytest.fixture(scope="module")
def lm():
    return pocket()


@pytest.fixture(scope="module")
def prompts(lm):
    return [lm.encode_prompt([{"role": "user", "content": f"Your card: {card}"}]) for card in "JQK"]


def test_the_loss_is_minus_the_mean_log_probability_of_the_truth(lm, prompts):
    evidence = [
        Evidence(
            probe_answers=(
                ProbeAnswers(prompts[0], ANSWERS, ("Ann",)),
                ProbeAnswers(prompts[1], ANSWERS, ("Bob", "Cleo")),
            )
        ),
        Evidence(probe_answers=(ProbeAnswers(prompts[0], ANSWERS, ("Ann",)),)),
        Evidence(probe_answers=(ProbeAnswers(prompts[2], ANSWERS, ("Cleo",)),)),
    ]
    rows = listening_rows([trajectory(seat) for seat in range(3)], evidence, (1.0, 3.0, 0.0), 0.5)
    assert len(rows.choice) == 2, "equal prompts are one row, and a role without a factor has none"
    batch = TrainBatch("main", (), (), 0, (), {"listening": rows})
    sums = MetricSums()
    losses = BatchLoss(lm, None, batch, Objective(Surrogate("reinforce"), {}), max_tokens=8192)
    found = sum(losses.losses(0, sums))
    one, two = logprob(lm, prompts[0], "Ann"), [logprob(lm, prompts[1], name) for name in ("Bob", "Cleo")]
    expected = -0.5 * (1.0 * one + 3.0 * one + 1.0 * (two[0] + two[1]) / 2) / 3
    assert float(found.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    weight = lm.model.model.embed_tokens.weight
    mine, plain = (torch.autograd.grad(loss, weight)[0] for loss in (found, expected))
    assert torch.allclose(mine, plain, atol=1e-5)
    assert sums.mean("listening", "listened_tokens") == pytest.approx(
        -float((2 * one + (two[0] + two[1]) / 2).detach()) / 3, rel=1e-5
    )


def test_at_weight_0_there_are_no_rows(prompts):
    evidence = [Evidence(probe_answers=(ProbeAnswers(prompts[0], ANSWERS, ("Ann",)),))]
    assert listening_rows([trajectory(0)], evidence, (1.0,), 0.0) == GivenRows()


def test_what_was_heard_is_stored_and_read_back_equal(prompts):
    evidence = Evidence(values=(0.5,), probe_answers=(ProbeAnswers(prompts[0], ANSWERS, ("Ann",)),))
    assert evidence_from_json(evidence_to_json(evidence)) == evidence
    assert "probe_answers" not in evidence_to_json(Evidence())
    assert evidence_from_json(evidence_to_json(Evidence())) == Evidence()
