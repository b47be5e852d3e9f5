"""What training does to language: measured against sums over the vocabulary by hand, and an alarm for what is lost."""

import math
from statistics import fmean
from types import SimpleNamespace

import pytest
import torch
from support.models.adapters import scrambled
from support.models.pocket import pocket

from arena.lm.lora import Adapters, AdapterShape
from league.config.load import load
from league.population.evaluation.ordinary_language import (
    _texts,
    kl_of_answers,
    language_metrics,
    passages,
    perplexity,
    token_logprobs,
)
from league.population.evaluation.small_tasks import score_tasks, small_tasks, task_shares
from league.training.monitors.alarms import check_alarms
from learners.trajectories import Trajectory


def text_logprob(lm):
    return fmean(token_logprobs(lm, _texts()["text"]))


@pytest.fixture(scope="module")
def adapted():
    return scrambled(Adapters(pocket(), "base").add(AdapterShape(rank=4), 0))


def test_an_untrained_adapter_says_what_its_base_says():
    view = Adapters(pocket(), "base").add(AdapterShape(rank=4), 0)
    assert kl_of_answers(view, view.untrained()) == pytest.approx(0.0, abs=1e-6)
    assert text_logprob(view) == pytest.approx(text_logprob(view.untrained()))


def test_the_divergence_is_the_sum_over_the_vocabulary(adapted):
    """One forward pass a prompt, without batches or shared prefixes."""
    terms = []
    for exchange in _texts()["exchange"]:
        prompt = adapted.encode_prompt([{"role": "user", "content": exchange["prompt"]}])
        answer = adapted.encode_reply(exchange["answer"])
        ids = torch.tensor([[*prompt, *answer]])
        with torch.no_grad():
            p, q = (
                view.forward(input_ids=ids).logits[0, len(prompt) - 1 : -1].double().softmax(-1)
                for view in (adapted, adapted.untrained())
            )
        terms += (p * (p / q).log()).sum(-1).tolist()
    assert kl_of_answers(adapted, adapted.untrained()) == pytest.approx(sum(terms) / len(terms), rel=1e-4)
    assert sum(terms) > 0


def test_a_model_that_knows_nothing_gives_every_token_the_same_chance():
    lm = pocket()
    with torch.no_grad():
        for weight in lm.parameters().values():
            weight.zero_()
    assert text_logprob(lm) == pytest.approx(-math.log(lm.model.config.vocab_size), rel=1e-5)
    assert perplexity(lm) == pytest.approx(lm.model.config.vocab_size, rel=1e-4)


def test_perplexity_counts_every_token_of_all_passages_alike():
    """One forward pass a passage, without batches; long passages weigh more than short ones."""
    lm, logprobs = pocket(), []
    assert len(passages()) == 5
    for passage in passages():
        ids = torch.tensor([lm.encode_reply(passage.strip())[:-1]])
        with torch.no_grad():
            rows = lm.forward(input_ids=ids).logits[0, :-1].double().log_softmax(-1)
        logprobs += rows.gather(1, ids[0, 1:, None])[:, 0].tolist()
    assert perplexity(lm) == pytest.approx(math.exp(-sum(logprobs) / len(logprobs)), rel=1e-4)


def test_a_full_model_is_compared_with_what_it_began_as(tmp_path):
    pocket().save(tmp_path / "model")
    config = load("pocket-returns", [f"model.source={tmp_path / 'model'}"])
    same = language_metrics(config, {"main": pocket()})
    assert same["main/language_kl"] == pytest.approx(0.0, abs=1e-6)
    assert same["main/language_logprob"] == pytest.approx(text_logprob(pocket()))
    assert same["main/language_perplexity"] == pytest.approx(perplexity(pocket()))
    other = pocket()
    with torch.no_grad():
        other.model.model.embed_tokens.weight.mul_(3.0)
    assert language_metrics(config, {"main": other})["main/language_kl"] > 0.01
    assert language_metrics(load("pocket-returns"), {"main": pocket()}) == {}
    more = load("pocket-returns", [f"model.source={tmp_path / 'model'}", "evaluation.language_tasks=6"])
    names = language_metrics(more, {"main": other}).keys() - same.keys()
    assert names == {
        f"main/language_tasks/{kind}/{way}"
        for kind in ("arithmetic", "table", "instruction")
        for way in ("choice", "greedy")
    }
    for name, lm in (("main", other), ("begun", pocket())):
        found = language_metrics(more, {"main": lm})
        own = task_shares(score_tasks(lm, small_tasks(6)))
        assert {task: found[f"main/language_tasks/{task}"] for task in own} == own, name
    assert task_shares(score_tasks(other, small_tasks(6))) != own
    off = load("pocket-returns", [f"model.source={tmp_path / 'model'}", "evaluation.language=false"])
    assert language_metrics(off, {"main": pocket()}) == {}


def test_policies_of_two_sources_are_compared_each_with_its_own(tmp_path):
    """Two models of one shape and other weights, which are what they began as: neither has moved."""
    lms = {"main": pocket(), "second": pocket(1)}
    for name, lm in lms.items():
        lm.save(tmp_path / name)
    config = load(
        "pocket-returns",
        [
            f"model.source={tmp_path / 'main'}",
            f"policies.second.model.source={tmp_path / 'second'}",
            "roles.policy={'kuhn_poker/second'='second'}",
        ],
    )
    found = language_metrics(config, lms)
    assert [found[f"{name}/language_kl"] for name in lms] == pytest.approx([0.0, 0.0], abs=1e-6)
    assert kl_of_answers(lms["second"], lms["main"]) > 0.01


def seen(policy):
    return [Trajectory(**dict.fromkeys(Trajectory._fields, ()) | {"policy": policy, "game": "g", "role": "r"})]


def test_a_broken_speaker_rings_until_it_is_measured_whole_again():
    context = SimpleNamespace(config=load("pocket"), roles={"g": ()})
    state, rang = {}, []
    for iteration, divergence in enumerate((None, 0.4, 0.6, None, 0.2), 1):
        metrics = {} if divergence is None else {"main/language_kl": divergence}
        alarms, _, state = check_alarms(context, state, iteration, seen("main"), [()], metrics)
        rang.append([(alarm.name, alarm.subject, alarm.since) for alarm in alarms])
    assert rang == [[], [], [("language", "main", 3)], [("language", "main", 3)], []]


def test_a_cold_start_that_costs_language_rings_before_the_first_iteration():
    """SmolLM2 in smol-free was at 0.33 after its cold start, and nothing said so."""
    context = SimpleNamespace(config=load("pocket"), roles={"g": ()})
    for divergence, expected in ((0.33, [("cold_start", "main", 0)]), (0.1, [])):
        alarms, metrics, state = check_alarms(context, {}, 0, (), (), {"main/language_kl": divergence})
        assert [(alarm.name, alarm.subject, alarm.since) for alarm in alarms] == expected
        assert metrics["alarms/cold_start"] == float(bool(expected))
        alarms, metrics, _ = check_alarms(context, state, 1, seen("main"), [()], {"main/language_kl": divergence})
        assert alarms == []  # it says what the cold start has cost; from here on ``language`` watches
        assert "alarms/cold_start" not in metrics
    assert (
        "lower cold_start.learning_rate"
        in check_alarms(context, {}, 0, (), (), {"main/language_kl": 0.33})[0][0].message
    )
