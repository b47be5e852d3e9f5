"""A critic that sees what all seats are shown: exact values of the whole position, and play that never sees it."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.matches.kuhn import SPEC, engine_with, kuhn_matches, kuhn_pocket, played, roles_for
from support.processes.runs import TINY

import league
from arena.records import Episode
from games.common.errors import UsageError
from league.config.context import run_context
from league.config.load import load
from league.lab.credit.central import joint_keys, joint_values
from league.population.players.player import Player
from league.training.evidence.sighted import SOURCE
from league.training.evidence.source import AfterPlay
from league.training.evidence.sources import evidence_from_play
from learners.trajectories import Evidence, evidence_from_json, evidence_to_json, return_scale, to_trajectories
from learners.update.critic import Critic

ROLES = roles_for()
SIGHTED = ["credit.rule=gae_turn", 'critic.sees=["seats"]']


def config(tmp_path, *overrides):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return load(str(path), ["iterations=2", "snapshot_every=2", "board.time=0", "evaluation.matches=0", *overrides])


@pytest.fixture(scope="module")
def matches():
    lm = kuhn_pocket(3)
    episodes = played(engine_with(main=lm), kuhn_matches(800, ("main", "main")), 800, ROLES)
    return lm, episodes, to_trajectories(episodes, lambda _: ROLES, {"kuhn_poker": return_scale(SPEC)})


def sight(settings, lm, episodes, trajectories):
    matches = {episode.request.index: episode for episode in episodes}
    play = AfterPlay(trajectories, matches, {"main": SimpleNamespace(lm=lm)})
    return [Evidence(critic_prompts=cell) for cell in SOURCE.make(run_context(settings, Path()), play)]


def test_it_learns_the_value_of_the_whole_position(tmp_path, matches):
    """Which a seat's own observation does not tell: both cards are in what it reads."""
    lm, episodes, trajectories = matches
    evidence = sight(config(tmp_path, *SIGHTED), lm, episodes, trajectories)
    assert len({prompt for found in evidence for prompt in found.critic_prompts}) == 24, (
        "6 deals, 4 positions to act in"
    )
    settings = SimpleNamespace(hidden_size=32, learning_rate=1e-2, steps=100, value_clip=None)
    critic = Critic(lm.model.config.hidden_size, ("kuhn_poker/first", "kuhn_poker/second"), settings, seed=0)
    targets = [[sum(one.rewards[k:]) for k in range(len(one.turns))] for one in trajectories]
    for _ in range(12):
        critic.fit(lm, trajectories, targets, evidence)
    table = Player("main", SPEC, engine_with(main=lm), ROLES, ((("main", 1.0),),) * 2).tabulate(0, 100).table
    exact = joint_values(table)
    keys = {episode.request.index: joint_keys("kuhn_poker", episode) for episode in episodes}
    errors = [
        value - exact[keys[one.match][place]][one.seat] / return_scale(SPEC)
        for one, values in zip(trajectories, critic.values(lm, trajectories, evidence), strict=True)
        for place, value in zip(one.order, values, strict=True)
    ]
    assert (sum(error**2 for error in errors) / len(errors)) ** 0.5 < 0.06


def test_what_it_reads_is_the_request_with_what_the_other_seat_is_shown_below(tmp_path, matches):
    lm, episodes, trajectories = matches
    evidence = sight(config(tmp_path, *SIGHTED), lm, episodes[:1], trajectories[:2])
    first = trajectories[0].turns[0]
    other = next(turn for turn in episodes[0].turns if turn.seat == 1).observation.split("\n")[0]
    read = lm.decode(evidence[0].critic_prompts[0])
    assert first.observation in read
    assert f"Seat 2 is shown:\n{other}" in read
    assert evidence_from_json(json.loads(json.dumps(evidence_to_json(evidence[0])))) == evidence[0]
    assert "critic_prompts" not in evidence_to_json(Evidence())


def test_nothing_is_computed_where_it_is_off(tmp_path, matches):
    lm, episodes, trajectories = matches
    context = run_context(config(tmp_path, "credit.rule=gae_turn"), tmp_path)
    play = AfterPlay(trajectories[:1], {episodes[0].request.index: episodes[0]}, {"main": SimpleNamespace(lm=lm)})
    assert evidence_from_play(context, play) == [Evidence()]
    context = run_context(config(tmp_path, *SIGHTED), tmp_path)
    assert set(evidence_from_play(context, play)[0].cells) == {"critic_prompts"}
    del lm


@pytest.mark.thorough
def test_play_sees_nothing_of_it_and_learning_does(tmp_path):
    own, sees = (
        league.train(config(tmp_path, "credit.rule=gae_turn", *more), tmp_path / name)
        for name, more in (("own", ()), ("sees", SIGHTED[1:]))
    )
    first, second = own.iterations()[1], sees.iterations()[1]
    same = [name for name in first if "/return" in name or name.startswith(("kuhn_poker/score", "main/entropy"))]
    assert same
    assert {name: first[name] for name in same} == {name: second[name] for name in same}
    assert first["main/critic/loss"] != second["main/critic/loss"]


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (SIGHTED[1:], "no role's rule uses a critic"),
        (["credit.rule=gae_turn", 'critic.sees=["teammates"]'], "shows the critic nothing more in kuhn_poker"),
        (
            [*SIGHTED, "games.lookup_chain.matches=64"],
            "lookup_chain.* opens other matches",
        ),
    ],
)
def test_sight_that_could_not_be_had_is_refused(tmp_path, overrides, words):
    with pytest.raises(UsageError, match=words):
        config(tmp_path, *overrides)


def test_episodes_have_no_place_for_it():
    assert not any("critic" in field for field in Episode._fields)
