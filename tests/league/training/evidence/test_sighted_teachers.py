"""Teachers that are shown more than the student."""

from pathlib import Path

import pytest
from support.learning.taught import advised, config, learned

import league
from arena.samplers.torch_lm import TorchLM
from games.registry import make_game
from league.config.context import run_context
from league.population.players.player import Player
from league.training.learning.policies import start_policies


def oneself(tmp_path, *overrides):
    """Return a run that plays with the cards hidden and open, and whose play with open cards teaches the other."""
    games = "games={kuhn_poker={matches=64}, 'informed(kuhn_poker)'={matches=64}}"
    teacher = ("objective.distill=1", "teacher.players={kuhn_poker='self'}", "teacher.sees=['hidden']")
    return config(tmp_path, games, *teacher, *overrides)


def test_oneself_with_more_to_see_says_what_the_policy_plays_in_the_informed_game(tmp_path):
    settings = oneself(tmp_path, "teacher.uniform=0")
    trajectories, evidence = advised(settings)
    informed, plain = (exact_table(settings, name) for name in ("informed(kuhn_poker)", "kuhn_poker"))
    matches, differ = {}, 0
    for trajectory, facts in zip(trajectories, evidence, strict=True):
        for place, turn, said in zip(trajectory.order, trajectory.turns, facts.taught, strict=True):
            matches.setdefault(trajectory.match, {})[place] = (trajectory, turn, said)
    for turns in matches.values():
        match = make_game("informed(kuhn_poker)")
        match.reset(turns[0][0].deal_seed)
        for _, (trajectory, turn, said) in sorted(turns.items()):
            state = match.information_state(trajectory.seat)
            assert said == pytest.approx(informed[trajectory.seat, state], abs=1e-6)
            differ += said != pytest.approx(plain[trajectory.seat, state.partition("\n")[0]], abs=1e-4)
            match.apply(turn.action)
    assert differ > 20


def exact_table(settings, name):
    """Return the table of a new run's policy in a game."""
    context, engine = run_context(settings, Path()), TorchLM()
    engine.add("main", start_policies(context)["main"].lm)
    roles = context.roles[name]
    return Player("main", make_game(name).spec, engine, roles, ((("main", 1.0),),) * 2).tabulate().table.probabilities


@pytest.mark.thorough
def test_a_run_that_teaches_itself_resumes_bit_for_bit(tmp_path):
    settings = oneself(tmp_path, "iterations=3")
    whole = league.train(settings, tmp_path / "whole")
    league.train(settings, tmp_path / "stopped", watch=lambda iteration, _: iteration == 1)
    assert learned(league.resume(tmp_path / "stopped")) == learned(whole)
    assert whole.iterations()[-1]["main/teacher_kl/kuhn_poker/first"] > 0.0
    assert "main/teacher_kl/informed(kuhn_poker)/first" not in whole.iterations()[-1]


@pytest.mark.parametrize(
    ("game", "sight", "role"),
    [
        ("twenty_questions(colours=2,kinds=2,questions=2)", "hidden", "asker"),  # in words, token by token
        ("twenty_questions(colours=2,kinds=2,questions=2,form=1)", "hidden", "asker"),
        ("tiny_hanabi", "teammates", "signaller"),
    ],
)
def test_privileged_sight_of_answers_and_of_teammates_teach_too(tmp_path, game, sight, role):
    teacher = (f"teacher.players={{'{game}/{role}'='self'}}", f"teacher.sees=['{sight}']", "evaluation.matches=0")
    games = f"games={{'{game}'={{matches=16}}}}"
    settings = config(tmp_path, games, *teacher, "objective.distill=1", "iterations=1", "alarms.stop=[]")
    line = league.train(settings, tmp_path / "run").iterations()[-1]
    assert line[f"main/teacher_kl/{game}/{role}"] != 0.0
