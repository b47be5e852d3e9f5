"""A run that is taught while it plays: nothing at weight 0, resumed bit for bit, nearer to its teacher everywhere."""

import json
from math import log

import pytest
from support.learning.taught import advised, config, learned

import league
from games.common.errors import UsageError
from games.registry import make_game
from league.cli import main
from league.config.context import run_context
from league.config.load import load_run_config
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.theory.exact.exploitability import information_positions
from league.training.evidence.teacher_names import with_lasting_teachers
from league.training.loop.evolve import evolve

SPLIT = 'roles.policy={"kuhn_poker/first"="opener", "kuhn_poker/second"="caller"}'
FREE = (
    *("roles.reply=free", "roles.on_illegal=forfeit", "roles.max_reply_tokens=4", "evaluation.exact=false"),
    "alarms.stop=[]",
)
UNIFORM = 0.05


@pytest.fixture(scope="module")
def taught_by(tmp_path_factory):
    """Return a run of three snapshots in each seat."""
    folder = tmp_path_factory.mktemp("teacher")
    return league.train(config(folder, "optimizer.learning_rate=5e-3", "objective.entropy=0"), folder / "run")


@pytest.fixture(scope="module")
def free_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("free")
    return league.train(config(folder, *FREE), folder / "run")


def teaching(tmp_path, *overrides, teacher="equilibrium", weight=0.5):
    return config(tmp_path, f"objective.distill={weight}", f"teacher.player='{teacher}'", *overrides)


def test_weight_0_is_the_run_without_a_teacher_bit_for_bit(tmp_path):
    plain = league.train(config(tmp_path), tmp_path / "plain")
    off = league.train(teaching(tmp_path, weight=0.0), tmp_path / "off")
    on = league.train(teaching(tmp_path), tmp_path / "on")
    assert learned(off) == learned(plain) != learned(on)
    assert "main/teacher_kl/kuhn_poker/first" not in off.iterations()[-1]
    assert on.iterations()[-1]["main/teacher_kl/kuhn_poker/first"] > 0.0


@pytest.mark.parametrize(
    "teacher",
    ["equilibrium", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("mixture", "free"))],
)
def test_a_taught_run_resumes_bit_for_bit(tmp_path, taught_by, free_run, teacher):
    """From a solver, from a mixture of models, and token by token."""
    names = {"equilibrium": "equilibrium", "mixture": f"{taught_by.path}@mixture", "free": str(free_run.path)}
    own = (SPLIT, *(FREE if teacher == "free" else ()))
    settings = teaching(tmp_path, "iterations=4", "objective.distill_end=0.1", *own, teacher=names[teacher])
    whole = league.train(settings, tmp_path / "whole")
    league.train(settings, tmp_path / "stopped", watch=lambda iteration, _: iteration == 2)
    assert learned(league.resume(tmp_path / "stopped")) == learned(whole)
    assert "opener/teacher_kl/kuhn_poker/first" in whole.iterations()[-1]


@pytest.mark.thorough
def test_turns_gathered_over_iterations_keep_what_was_said(tmp_path):
    settings = teaching(tmp_path, "iterations=4", "policies.main.every=2")
    whole = league.train(settings, tmp_path / "whole")
    league.train(settings, tmp_path / "stopped", watch=lambda iteration, _: iteration == 1)
    assert learned(league.resume(tmp_path / "stopped")) == learned(whole)


@pytest.mark.slow
@pytest.mark.parametrize("processes", ['async_learners.processes="each"', "optimizer.processes=2"])
def test_learner_processes_are_taught_the_same(tmp_path, processes):
    here = league.train(teaching(tmp_path, SPLIT), tmp_path / "here").iterations()[-1]
    found = league.train(teaching(tmp_path, SPLIT, processes), tmp_path / "there").iterations()[-1]
    for name in ("opener/teacher_kl/kuhn_poker/first", "kuhn_poker/exploitability"):
        assert found[name] == pytest.approx(here[name], abs=1e-5)


def test_a_mixture_says_what_its_exact_table_has(tmp_path, taught_by):
    """Its members are weighed by their own replies so far, as Kuhn's theorem has it: in Kuhn poker after pass, bet."""
    name = f"{taught_by.path}@mixture"
    trajectories, evidence = advised(teaching(tmp_path, f"teacher.uniform={UNIFORM}", teacher=name))
    with Engines() as engines:
        player = resolve(name, make_game("kuhn_poker").spec, engines)
        table = player.tabulate().table.probabilities
        assert all(len(members) > 1 for members in player.members)
    states = {
        (seat, at.observe(seat)): table[seat, key] for (seat, key), at in information_positions("kuhn_poker").items()
    }
    seen = set()
    for trajectory, facts in zip(trajectories, evidence, strict=True):
        for turn, said in zip(trajectory.turns, facts.taught, strict=True):
            expected = [(1 - UNIFORM) * p + UNIFORM / 2 for p in states[trajectory.seat, turn.observation]]
            assert said == pytest.approx(expected, abs=1e-6)
            seen.add((trajectory.seat, turn.observation))
    assert len(seen) == 12


def test_equilibrium_says_what_it_plays_and_only_where_it_teaches(tmp_path):
    settings = config(tmp_path, "objective.distill=1", "teacher.players={'kuhn_poker/second'='equilibrium'}")
    trajectories, evidence = advised(settings)
    for trajectory, facts in zip(trajectories, evidence, strict=True):
        if trajectory.role == "first":
            assert facts.taught is None
        for turn, said in zip(trajectory.turns, facts.taught or (), strict=trajectory.role == "second"):
            if turn.observation == "Your card: K\nMoves: bet":
                assert said == pytest.approx((0.005, 0.995), abs=1e-3)
            if turn.observation == "Your card: Q\nMoves: bet":  # calls with one third in every equilibrium
                assert said == pytest.approx((2 / 3, 1 / 3), abs=0.02)


def test_a_models_own_snapshot_gives_the_tokens_of_free_replies_the_log_probs_that_were_sampled(tmp_path, free_run):
    settings = teaching(tmp_path, *FREE, teacher=f"{free_run.path}@main-000000")
    trajectories, evidence = advised(settings)
    turns = [pair for t, e in zip(trajectories, evidence, strict=True) for pair in zip(t.turns, e.taught, strict=True)]
    assert len(turns) > 60
    for turn, said in turns:
        assert said == pytest.approx(turn.trace.logprobs, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("divergence", ["reverse", "forward", "jensen_shannon"])
def test_kl_to_the_equilibrium_falls_at_each_information_state_of_kuhn(tmp_path, divergence):
    overrides = ("iterations=40", "snapshot_every=40", "optimizer.learning_rate=3e-3", "games.kuhn_poker.matches=128")
    alone = ("objective.policy_gradient=0", "objective.entropy=0", "objective.kl_old=0")
    settings = teaching(tmp_path, *overrides, *alone, f"teacher.divergence={divergence}", weight=1.0)
    run = league.train(settings, tmp_path / "run")
    spec = make_game("kuhn_poker").spec
    with Engines() as engines:
        teacher = resolve("equilibrium", spec, engines).tabulate().table.probabilities
        first, last = (resolve(f"{run.path}@main-0000{n}", spec, engines).tabulate().table for n in ("00", "40"))

    def kl(table, key):
        mixed = [0.99 * q + 0.005 for q in teacher[key]]
        return sum(p * log(p / q) for p, q in zip(table.probabilities[key], mixed, strict=True))

    for key in teacher:
        assert kl(last, key) < max(0.5 * kl(first, key), 0.005), key
    last_line = run.iterations()[-1]
    assert last_line["kuhn_poker/exploitability"] < 0.03
    assert last_line["main/teacher_kl/kuhn_poker/first"] < 0.01


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["objective.distill=1"], "objective.distill = 1 needs a teacher"),
        (["objective.distill=-1"], "objective.distill"),
        (["objective.policy_gradient=0"], "learns nothing from returns"),
        (["teacher.players={'kuhn/first'='random'}"], "teacher.players takes keys of the form game/role, or game."),
        (["objective.distill=1", "teacher.player=equilibrum"], "Did you mean equilibrium"),
        (["objective.distill=1", "teacher.player=gone@mixture"], "It should teach kuhn_poker/first."),
        (["objective.distill=1", "teacher.player='always:bet'"], "it plays, but does not say how likely each reply is"),
        (
            ["objective.distill=1", "teacher.player=equilibrium", "roles.reply=free", "roles.on_illegal=forfeit"],
            "it has no tokens. Name a language model with the student's tokenizer",
        ),
        (["objective.distill=1", "teacher.player=FREE"], "'free' replies there, the student with 'choice' ones"),
        (
            ["objective.distill=1", "teacher.player=equilibrium", "games={tiny_hanabi={}}"],
            "equilibrium cannot teach tiny_hanabi/signaller: equilibrium is for games in which what one seat wins",
        ),
        (["objective.distill=1", "teacher.player=self"], "teacher 'self' is the policy in training"),
        (
            ["objective.distill=1", "teacher.player=equilibrium", "teacher.sees=['hidden']", "games={kuhn_poker={}}"],
            "it plays by the rules of the game, and has no prompt that could show it more",
        ),
        (
            ["objective.distill=1", "teacher.player=self", "teacher.sees=['hidden']", "games={tic_tac_toe={}}"],
            "shows crosses nothing more in tic_tac_toe",
        ),
        (["objective.distill=1", "teacher.player=self", "teacher.sees=['all']"], "teacher.sees"),
        (
            ["objective.distill=1", "teacher.player=equilibrium", "objective.schedule=mmd", "objective.distill_end=1"],
            "distill_end states",
        ),
    ],
)
def test_what_cannot_teach_is_refused_in_a_sentence(tmp_path, monkeypatch, capsys, free_run, settings, sentence):
    monkeypatch.chdir(tmp_path)
    words = [w for s in settings for w in ("--set", s.replace("FREE", json.dumps(str(free_run.path))))]
    small = [w for s in ("cold_start.steps=0", "model.layers=1", "model.hidden_size=16") for w in ("--set", s)]
    assert main(["train", "pocket-returns", "--run-dir", "run", *small, *words]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_model_outside_a_run_teaches_free_replies_in_the_form_of_its_student(tmp_path, free_run):
    """A checkpoint has no form of its own: it answered with choices, and the error advised what was set."""
    folder = f"hf:{free_run.path}/population/main-000000"
    trajectories, evidence = advised(teaching(tmp_path, *FREE, teacher=folder))
    for trajectory, facts in zip(trajectories, evidence, strict=True):
        for turn, said in zip(trajectory.turns, facts.taught, strict=True):
            assert len(said) == len(turn.trace.reply_ids)


def test_a_teacher_of_another_tokenizer_is_refused_where_replies_are_free(tmp_path, free_run):
    settings = teaching(tmp_path, *FREE, "model.vocabulary=300", teacher=str(free_run.path))
    with pytest.raises(UsageError, match="it has another tokenizer"):
        league.train(settings, tmp_path / "run")


def test_a_run_keeps_its_teachers_by_role_and_by_the_snapshot_that_they_were(tmp_path, taught_by):
    settings = config(
        tmp_path,
        "objective.distill=1",
        f"teacher.player='{taught_by.path}'",
        "teacher.players={'kuhn_poker/second'='equilibrium'}",
    )
    kept = with_lasting_teachers(run_context(settings, tmp_path)).config.teacher
    snapshot = f"{taught_by.path.resolve()}@main-000002"
    assert (kept.player, kept.players) == ("", {"kuhn_poker/first": snapshot, "kuhn_poker/second": "equilibrium"})
    run = league.train(config(tmp_path), tmp_path / "run")
    evolve(run.path, tmp_path / "evolved", 1, ["objective.distill=1", f"teacher.player='{taught_by.path}'"])
    assert load_run_config(tmp_path / "evolved").teacher.players["kuhn_poker/first"] == snapshot
    assert league.resume(tmp_path / "evolved").iterations()[-1]["main/teacher_kl/kuhn_poker/second"] > 0.0
