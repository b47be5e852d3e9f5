"""The engine for language models: every player has its own weights, and learning sees the sampled log-probs."""

import math
import random
from collections import Counter

import pytest
import torch
from support.matches.kuhn import CHOICE, FREE, engine_with, kuhn_matches, kuhn_pocket, played, roles_for
from support.models.pocket import pocket

from arena.lm.language_model import LanguageModel
from arena.lm.lora import Adapters, AdapterShape
from arena.records import Refusal, ReplyRequest
from arena.samplers.torch_lm import TorchLM
from games.common.errors import UsageError
from games.registry import make_game
from roles.prompts import messages

KUHN = make_game("kuhn_poker")


def ask(player, observation="Your card: J", seed=0, legal=("pass", "bet"), **changes):
    return ReplyRequest(player, roles_for(**changes)[0], KUHN, observation, legal, (), random.Random(seed))


def expected(lm, request):
    """Return the probability of each legal reply, computed for this request alone."""
    prompt = lm.encode_prompt(messages(request.role, request.observation, request.legal))
    tries = [lm.trie(request.legal)]
    (chunk,) = lm.plan_choice([prompt], tries, 8192)
    with torch.no_grad():
        return lm.choice_logprobs(chunk, tries, request.role.temperature).replies[0].exp().tolist()


@pytest.fixture(scope="module")
def lm():
    return kuhn_pocket()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return three snapshots' folders with their models."""
    path = tmp_path_factory.mktemp("snapshots")
    models = {path / f"s{seed}": kuhn_pocket(seed) for seed in range(3)}
    for folder, model in models.items():
        model.save(folder)
    return models


@pytest.mark.parametrize("shared", [True, False], ids=["weights only", "whole checkpoints"])
def test_every_snapshot_answers_with_its_own_weights(lm, folders, shared):
    engine = engine_with(live=lm)
    for folder in folders:
        engine.register(folder.name, folder, like=lm if shared else None)
    players = ["live", *(folder.name for folder in folders)]
    requests = [ask(player, observation) for observation in ("Your card: J", "Your card: K") for player in players]
    models = [lm, *folders.values()] * 2
    distributions = engine.distributions(requests)
    for request, model, distribution in zip(requests, models, distributions, strict=True):
        assert distribution == pytest.approx(expected(model, request), abs=1e-5)
    assert len({round(first, 4) for first, _ in distributions}) == 6, (
        "the live model and snapshot s0 have equal weights, the others differ"
    )
    for request, reply in zip(requests, engine.sample(requests), strict=True):
        assert reply.trace.snapshot == request.player


def test_the_least_recently_used_player_is_dropped(folders):
    engine, loads = TorchLM(loaded=2), Counter()
    for folder in folders:
        engine.register(folder.name, folder, check=lambda name=folder.name: loads.update([name]))

    def loads_after(*players):
        engine.refresh()
        engine.sample([ask(player) for player in players])
        return dict(loads)

    assert loads_after("s0", "s1") == {"s0": 1, "s1": 1}
    assert loads_after("s0") == {"s0": 1, "s1": 1}
    assert loads_after("s2") == {"s0": 1, "s1": 1, "s2": 1}
    assert loads_after("s0") == {"s0": 1, "s1": 1, "s2": 1}, "s1 was the least recently used"
    assert loads_after("s1", "s1") == {"s0": 1, "s1": 2, "s2": 1}


def test_a_snapshot_that_fails_its_check_does_not_play(folders):
    def refuse():
        raise UsageError("hash of s0 is wrong")

    engine = TorchLM()
    engine.register("s0", next(iter(folders)), check=refuse)
    with pytest.raises(UsageError, match="hash of s0 is wrong"):
        engine.sample([ask("s0")])


def test_an_unknown_name_is_refused_with_the_nearest(folders):
    engine = TorchLM()
    engine.register("main-000010", next(iter(folders)))
    with pytest.raises(UsageError, match=r"main-000100.*main-000010"):
        engine.sample([ask("main-000100")])


def test_players_with_different_tokenizers_read_their_own_tokens(tmp_path):
    """Tokenizers come and go with their players; prompts must not outlive them under a recycled id."""
    models = {}
    for seed in range(4):
        models[f"m{seed}"] = lm = pocket(seed, vocabulary=290 + 5 * seed)
        lm.save(tmp_path / f"m{seed}")
    engine = TorchLM(loaded=1)
    for name in models:
        engine.register(name, tmp_path / name)
    for name, lm in models.items():
        request = ask(name, "You play cards.\nYour card: Q")
        (reply,) = engine.sample([request])
        chat = messages(request.role, request.observation, request.legal)
        assert reply.trace.prompt_ids == lm.encode_prompt(chat)


def test_replies_are_drawn_as_often_as_they_are_probable(lm):
    engine, legal = engine_with(a=lm), ("bet", "bets", "pass", "better")
    drawn = Counter(reply.text for reply in engine.sample([ask("a", seed=seed, legal=legal) for seed in range(2000)]))
    for text, probability in zip(legal, expected(lm, ask("a", legal=legal)), strict=True):
        spread = math.sqrt(2000 * probability * (1 - probability))
        assert abs(drawn[text] - 2000 * probability) < 4 * spread


def test_distributions_sum_to_one(lm):
    engine = engine_with(a=lm)
    legals = [("pass", "bet"), ("fold",), ("bet", "bets", "better", "b"), ("pass", "bet")]
    for legal, distribution in zip(
        legals, engine.distributions([ask("a", legal=legal) for legal in legals]), strict=True
    ):
        assert len(distribution) == len(legal)
        assert math.fsum(distribution) == pytest.approx(1.0, abs=1e-6)
    with pytest.raises(UsageError, match="answers in free text"):
        engine.distributions([ask("a", reply="free", on_illegal="forfeit")])


def test_refresh_makes_changed_weights_play():
    lm = kuhn_pocket(3)
    engine, request = engine_with(a=lm), ask("a")
    before = engine.distributions([request])
    with torch.no_grad():
        for parameter in lm.model.parameters():
            parameter.mul_(1.1)
    assert engine.distributions([request]) == before, "distributions are cached until refresh"
    engine.refresh()
    after = engine.distributions([request])
    assert after != before
    assert after[0] == pytest.approx(expected(lm, request), abs=1e-5)


def without_logprobs(episodes):
    """Return episodes without their log-probs, which a batch's shape may change in the last digit."""
    return [
        episode._replace(turns=tuple(t._replace(trace=t.trace._replace(logprobs=())) for t in episode.turns))
        for episode in episodes
    ]


@pytest.mark.parametrize("form", [CHOICE, FREE], ids=["choice", "free"])
def test_the_number_in_flight_changes_no_episode(lm, form):
    roles, matches, other = roles_for(**form), kuhn_matches(12), kuhn_pocket(1)

    def episodes(in_flight):
        return without_logprobs(played(engine_with(a=lm, b=other), matches, in_flight, roles))

    together = episodes(12)
    assert episodes(1) == together
    assert episodes(5) == together
    assert len({turn.reply for episode in together for turn in episode.turns}) > 1


def learner_logprob(lm, turn):
    """Return a turn's log-prob as learning computes it."""
    trace = turn.trace
    with torch.no_grad():
        if trace.mask is not None:
            tries = [lm.trie(trace.mask)]
            (chunk,) = lm.plan_choice([trace.prompt_ids], tries, 8192)
            return float(lm.choice_logprobs(chunk, tries, trace.temperature).replies[0, trace.mask.index(turn.reply)])
        (chunk,) = lm.plan([trace.prompt_ids], [(trace.reply_ids,)], 8192)
        logits = lm.reply_logits(chunk, [trace.reply_ids])[0] / trace.temperature
        return float(logits.log_softmax(-1).gather(1, torch.tensor(trace.reply_ids)[:, None]).sum())


@pytest.mark.parametrize("form", [CHOICE, FREE], ids=["choice", "free"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_learner_computes_the_log_probs_that_were_sampled(lm, form, temperature):
    roles = roles_for(**form, temperature=temperature)
    episodes = played(engine_with(a=lm), kuhn_matches(12, ("a", "a")), 12, roles)
    for turn in [turn for episode in episodes for turn in episode.turns]:
        assert sum(turn.trace.logprobs) == pytest.approx(learner_logprob(lm, turn), abs=1e-4)
        assert len(turn.trace.logprobs) == len(turn.trace.reply_ids)
        assert turn.trace.temperature == temperature


def test_a_masked_reply_is_recorded_token_by_token(lm):
    (reply,) = engine_with(a=lm).sample([ask("a", legal=("bet", "bets", "better"))])
    assert reply.trace.reply_ids == lm.encode_reply(reply.text)
    assert reply.trace.logprobs[0] == 0.0, "all replies begin alike"
    assert reply.trace.mask == ("bet", "bets", "better")


@pytest.mark.parametrize("form", [CHOICE, FREE], ids=["choice", "free"])
def test_requests_of_one_batch_have_their_own_temperature_and_refusals(lm, form):
    """Each is answered as if it had been asked alone, though all but one thing about them is alike."""
    refused = (Refusal("fold", "Your reply is not a legal action."),)
    asked = [ask("a", temperature=temperature, seed=9, **form) for temperature in (0.25, 1.0, 4.0)]
    asked += [request._replace(refusals=refused, rng=random.Random(9)) for request in asked]
    together = engine_with(a=lm).sample(asked)
    for request, reply in zip(asked, together, strict=True):
        alone = engine_with(a=lm).sample([request._replace(rng=random.Random(9))])[0].trace
        prompt = lm.encode_prompt(messages(request.role, request.observation, request.legal, request.refusals))
        assert reply.trace.prompt_ids == alone.prompt_ids == prompt
        assert reply.trace.temperature == request.role.temperature
        assert reply.trace.reply_ids == alone.reply_ids
        assert reply.trace.logprobs == pytest.approx(alone.logprobs, abs=1e-5)
    assert together[0].trace.prompt_ids != together[3].trace.prompt_ids


def test_tokens_of_prompts_and_replies_are_counted(lm):
    engine = engine_with(a=lm)
    replies = engine.sample([ask("a"), ask("a", reply="free", on_illegal="forfeit")])
    assert engine.tokens == sum(len(reply.trace.prompt_ids) + len(reply.trace.reply_ids) for reply in replies)


def test_a_live_model_may_be_one_that_was_loaded(folders):
    (folder, model), *_ = folders.items()
    again = LanguageModel.load(folder)
    distributions = engine_with(a=model, b=again).distributions([ask("a"), ask("b")])
    assert distributions[0] == pytest.approx(distributions[1], abs=1e-6)


def test_adapters_that_play_in_one_batch_reply_as_each_by_itself(tmp_path):
    """As on a GPU: two snapshots, a live adapter and their base answer free requests together."""
    base = kuhn_pocket()
    adapters = Adapters(base, "base")
    saved = [adapters.add(AdapterShape(rank=2), seed) for seed in (1, 2, 3)]
    with torch.no_grad():
        for view in saved:
            for parameter in view.parameters().values():
                parameter.normal_(std=0.2)
    for number, view in enumerate(saved[:2]):
        view.save(tmp_path / str(number))

    def replies(together):
        engine = TorchLM()
        engine.mixes_adapters = together
        engine.add("live", saved[2])
        engine.add("base", base)
        for number in (0, 1):
            engine.register(str(number), tmp_path / str(number), like=adapters)
        for player in ("live", "base", "0", "1"):
            engine.model_of(player).decodes_on_device = together
        players = ("live", "base", "0", "1") * 3
        return engine.sample([ask(name, f"Your card: {'JQK'[i % 3]}", i, **FREE) for i, name in enumerate(players)])

    for mixed, alone in zip(replies(True), replies(False), strict=True):
        assert mixed.text == alone.text
        assert mixed.trace.snapshot == alone.trace.snapshot
        assert mixed.trace.logprobs == pytest.approx(alone.trace.logprobs, abs=1e-4)
