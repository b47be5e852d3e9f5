"""Influence told by a run's models: 0 where the prompt leaves the message out, else what the exact figure says."""

from functools import cache
from itertools import product
from math import log
from statistics import fmean
from types import SimpleNamespace

import pytest
from support.learning.trajectories import turn
from support.matches.kuhn import engine_with
from support.models.pocket import pocket
from support.processes.runs import TINY

import league
from arena.records import MatchRequest, TokenTrace
from arena.scheduler import play
from games.common.seeds import derive_seed
from games.registry import make_game
from league.config.load import load
from league.lab.credit.influence import influence_by_role
from league.population.players.player import Player
from league.training.evidence import influence
from league.training.evidence.influence import influence_metrics, influences
from learners.trajectories import Evidence, to_trajectories
from learners.values.alternatives import TriedAlternatives
from learners.values.continuations import plays
from roles.cards import load_roles
from roles.chat_text import plain_text
from roles.prompts import messages

GAME = "tiny_hanabi"
SPEC = make_game(GAME).spec


def hanabi_pocket(roles):
    """Return a model with strong opinions, whose tokenizer knows the game's prompts."""
    texts = []
    for seed, card in product(range(20), range(3)):
        match = make_game(GAME)
        match.reset(seed)
        texts.append(plain_text(messages(roles[0], match.observe(0), match.legal_actions())))
        match.apply(match.legal_actions()[card])
        texts.append(plain_text(messages(roles[1], match.observe(1), match.legal_actions())))
    return pocket(1, sharpness=6.0, texts=tuple(texts), vocabulary=700)


@cache
def told(count, matches, *, deaf=False):
    """Return the metric of influence from this many alternatives, and the exact influence by role."""
    roles = load_roles(SPEC)
    lm = hanabi_pocket(roles)
    if deaf:
        roles = (roles[0], roles[1].model_copy(update={"prompt": "Play a card."}))
    engine = engine_with(main=lm)
    requests = [
        MatchRequest(i, GAME, derive_seed("deal", i), derive_seed("draw", i), ("main", "main"), (True, True))
        for i in range(matches)
    ]
    episodes = play(requests, roles_of=lambda _: roles, engine_of=lambda _: engine, make_game=make_game)
    trajectories = to_trajectories(episodes, lambda _: roles, {GAME: 1.0})
    by_index = {episode.request.index: episode for episode in episodes}
    others = TriedAlternatives(plays(roles, lambda _: engine), count, 1, by_index, {GAME: 1.0})
    found = influences({"main": SimpleNamespace(lm=lm)}, others.estimate(trajectories).answers)
    exact = influence_by_role(
        Player("main", SPEC, engine, roles, ((("main", 1.0),),) * 2).tabulate(0, 100).table, roles
    )
    return influence_metrics(trajectories, [Evidence(influence=row) for row in found]), exact


def test_a_message_that_the_prompt_leaves_out_has_none_at_all():
    metrics, exact = told(4, 20, deaf=True)
    assert metrics == {f"{GAME}/influence/signaller": 0.0}
    assert exact == {"signaller": pytest.approx(0.0, abs=1e-12)}


def test_with_many_alternatives_it_is_the_exact_influence():
    metrics, exact = told(60, 30)
    assert set(metrics) == {f"{GAME}/influence/signaller"}, "nobody answers the responder"
    assert metrics[f"{GAME}/influence/signaller"] == pytest.approx(exact["signaller"], rel=0.15)
    assert exact["signaller"] > 0.01


def test_from_few_alternatives_it_is_too_low():
    few, exact = told(1, 200)
    assert 0.0 < few[f"{GAME}/influence/signaller"] < 0.8 * exact["signaller"]


def test_a_message_that_nobody_answered_has_no_influence_whatever_its_alternatives_have(monkeypatch):
    """Two policies read the same prompts, and answer them the other way round; a frozen player's answer is unknown."""
    chances = {"main": {(1,): (1.0, 0.0), (2,): (0.0, 1.0)}, "probe": {(1,): (0.0, 1.0), (2,): (0.0, 1.0)}}
    monkeypatch.setattr(
        influence, "reply_probabilities", lambda lm, keys: {key: chances[lm][key.prompt] for key in keys}
    )

    def answer(prompt, player="main", seat=1):
        trace = TokenTrace(player, (prompt,), (), (), ("a", "b"))
        return turn(seat=seat, trace=trace)._replace(player=player)

    rows = [
        (answer(1), answer(2)),
        (None, answer(1), answer(2)),
        (answer(1), None, None),
        (answer(1, "frozen"), answer(1), answer(2)),
        (answer(2), None, answer(2)),
        (answer(1, "probe"), answer(2, "probe")),
        (answer(1), answer(1, seat=2)),  # another seat's choice is another choice
    ]
    policies = {name: SimpleNamespace(lm=name) for name in chances}
    [found] = influences(policies, [rows])
    assert found == (pytest.approx(log(2)), None, None, None, 0.0, 0.0, pytest.approx(log(2)))


def test_a_run_shows_it(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    settings = [
        "iterations=2",
        "snapshot_every=2",
        "board.time=0",
        "evaluation.matches=0",
        "credit.rule=contribution",
        "values.estimator=alternatives",
    ]
    lines = league.train(load(str(path), settings), tmp_path / "run").iterations()
    first = [line["kuhn_poker/influence/first"] for line in lines if line["iteration"]]
    assert len(first) == 2
    assert all(nats >= 0.0 for nats in first)
    assert fmean(first) > 0.0
