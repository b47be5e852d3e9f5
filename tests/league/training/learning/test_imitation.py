"""A run that imitates matches of others: nothing at weight 0, resumed bit for bit, and closer to what it imitates."""

import json
import shutil

import pytest
from support.processes.runs import TINY, contents

import league
from arena.records import EndReason, Episode, MatchRequest, Turn
from arena.replays import save_episodes
from games.common.errors import DamagedFile, UsageError
from league.cli import main
from league.config.context import run_context
from league.config.load import load, load_run_config
from league.population.storage.sampled_matches import SampledMatch, save_samples
from league.training.learning.imitation import IMITATION_FILE, imitated_replies, keep_matches, matches_to_imitate
from league.training.learning.policies import start_policies
from league.training.loop.evolve import evolve
from roles.prompts import messages

pytestmark = pytest.mark.thorough

SPLIT = 'roles.policy={"kuhn_poker/first"="opener", "kuhn_poker/second"="caller"}'


@pytest.fixture(scope="module")
def matches(tmp_path_factory):
    """Return a file of matches of equilibrium, which is in seat 0, against random."""
    path = tmp_path_factory.mktemp("matches") / "matches.jsonl"
    result = league.match("equilibrium", "random", game="kuhn_poker", matches=400, seed=3)
    save_episodes(path, [e for e in result.episodes if e.request.players[0] == "equilibrium"])
    return path


def config(tmp_path, *overrides, **imitation):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    table = ", ".join(
        f"{key} = {json.dumps(str(value) if key == 'matches' else value)}" for key, value in imitation.items()
    )
    return load(str(path), ["iterations=2", "snapshot_every=1", f"imitation={{{table}}}", *overrides])


def learned(run):
    """Return all of a run that play and learning have made: everything but its configuration and its own matches."""
    return {name: data for name, data in contents(run.path).items() if name not in ("config.toml", IMITATION_FILE)}


def test_weight_0_is_the_run_without_imitation_bit_for_bit(tmp_path, matches):
    plain = league.train(config(tmp_path), tmp_path / "plain")
    off = league.train(config(tmp_path, weight=0.0, matches=matches), tmp_path / "off")
    on = league.train(config(tmp_path, weight=0.1, matches=matches), tmp_path / "on")
    assert learned(off) == learned(plain) != learned(on)
    assert not (off.path / IMITATION_FILE).exists()
    assert "main/imitation/loss" not in off.iterations()[-1]
    assert on.iterations()[-1]["main/imitation/loss"] > 0.0


def test_a_run_keeps_its_matches_and_resumes_bit_for_bit(tmp_path, matches):
    own = shutil.copy(matches, tmp_path / "own.jsonl")
    settings = config(tmp_path, "iterations=4", SPLIT, weight=0.5, matches=own)
    whole = league.train(settings, tmp_path / "whole")
    league.train(settings, tmp_path / "stopped", watch=lambda iteration, _: iteration == 2)
    (tmp_path / "own.jsonl").unlink()
    assert learned(league.resume(tmp_path / "stopped")) == learned(whole)
    assert {"opener/imitation/loss", "caller/imitation/loss"} <= set(whole.iterations()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("processes", ['async_learners.processes="each"', "optimizer.processes=2"])
def test_learner_processes_imitate_the_same(tmp_path, matches, processes):
    settings = config(tmp_path, SPLIT, weight=0.5, matches=matches)
    here = league.train(settings, tmp_path / "here").iterations()[-1]
    there = config(tmp_path, SPLIT, processes, weight=0.5, matches=matches)
    found = league.train(there, tmp_path / "there").iterations()[-1]
    for name in ("opener/imitation/loss", "caller/imitation/loss", "kuhn_poker/exploitability"):
        assert found[name] == pytest.approx(here[name], abs=1e-5)


@pytest.mark.slow
def test_imitating_the_equilibrium_lowers_exploitability(tmp_path, matches):
    overrides = ("iterations=40", "snapshot_every=40", "optimizer.learning_rate=3e-3")
    players = ["equilibrium"]
    both = tmp_path / "both.jsonl"
    save_episodes(both, league.match("equilibrium", "equilibrium", game="kuhn_poker", matches=4000, seed=1).episodes)
    settings = config(tmp_path, *overrides, weight=1.0, matches=both, players=players, replies=2048)
    run = league.train(settings, tmp_path / "run")
    first, *_, last = [line["kuhn_poker/exploitability"] for line in run.iterations() if "rating" in line]
    assert first > 0.3  # of random play, 11/24
    assert last < 0.1


def test_only_the_named_players_are_imitated_each_by_the_policy_of_its_seat(tmp_path, matches):
    settings = config(tmp_path, SPLIT, weight=0.5, matches=matches, players=["equilibrium"])
    with pytest.raises(UsageError, match="has no reply of equilibrium that policy caller could imitate"):
        matches_to_imitate(run_context(settings, tmp_path))
    settings = config(tmp_path, weight=0.5, matches=matches, players=["equilibrium"])
    context = run_context(settings, tmp_path)
    keep_matches(tmp_path, matches_to_imitate(context))
    policies = start_policies(context)
    found = imitated_replies(context, policies)
    prompts = {policies["main"].lm.decode(reply.prompt) for reply in found["main"]}
    assert len(prompts) == 6  # three cards, at first and after pass, bet
    assert sum(reply.times for reply in found["main"]) > 200
    assert all(reply.legal == ("pass", "bet") and not reply.tokens for reply in found["main"])


REFUSED = Turn(0, "first", "teacher", "Your card: K", ("pass", "bet"), "raise", None, 0.0, None)
PLAYED = (
    Turn(0, "first", "teacher", "Your card: K", ("pass", "bet"), "bet", "bet", 1.0, None),
    Turn(1, "second", "other", "Your card: Q", ("pass", "bet"), "well, [pass]", "pass", -1.0, None),
)
EPISODE = Episode(
    MatchRequest(0, "kuhn_poker", 1, 2, ("teacher", "other"), (False, False)),
    (REFUSED, *PLAYED),
    (1.0, -1.0),
    EndReason.FINISHED,
)


@pytest.mark.parametrize("form", ["choice", "free"])
def test_replies_are_put_as_the_runs_roles_would_ask_and_answer(tmp_path, form):
    """A choice of another run is marked for a free role, a marked answer is a choice, and what is marked stays so."""
    save_samples(tmp_path, 0, [SampledMatch(EPISODE, None, (), ((None,) * 3,))])
    free = ["roles.reply=free", "roles.on_illegal=retry", "roles.retries=1", "evaluation.exact=false"]
    settings = config(tmp_path, *(free if form == "free" else ()), weight=0.5, matches=tmp_path)
    context = run_context(settings, tmp_path)
    keep_matches(tmp_path, matches_to_imitate(context))
    policies = start_policies(context)
    lm, found = policies["main"].lm, imitated_replies(context, policies)["main"]
    said = [reply.reply for reply in found]
    assert said == (["bet", "pass"] if form == "choice" else ["[bet]", "well, [pass]"])
    assert [reply.tokens for reply in found] == [() if form == "choice" else lm.encode_reply(text) for text in said]
    first = messages(context.roles["kuhn_poker"][0], "Your card: K", ("pass", "bet"))
    assert found[0].prompt[: len(lm.encode_prompt(first)) - 1] == lm.encode_prompt(first)[:-1]
    assert len(found[0].prompt) > len(lm.encode_prompt(first))  # which was refused once
    assert found[1].prompt == lm.encode_prompt(
        messages(context.roles["kuhn_poker"][1], "Your card: Q", ("pass", "bet"))
    )


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["imitation.weight=0.5"], "imitation.weight = 0.5 needs matches to imitate"),
        (["imitation.weight=2"], "imitation.weight"),
        (["imitation={weight=0.5,matches='gone.jsonl'}"], "gone.jsonl: it cannot be read (No such file or directory)"),
        (["imitation={weight=0.5,matches='.'}"], "it holds no matches. `league lab import FILE -o .` fills it"),
        (
            ["imitation={weight=0.5,matches='FILE'}", "games={tic_tac_toe={}}"],
            "kuhn_poker was kept, but this run does not have that game",
        ),
        (["imitation={weight=0.5,matches='FILE',players=['me']}"], "has no reply of me that policy main could imitate"),
        (["imitation={weight=0.5,matches='x.toml'}"], "x.toml is not a file of episodes"),
    ],
)
def test_what_cannot_be_imitated_is_refused_in_a_sentence(tmp_path, monkeypatch, capsys, matches, settings, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.toml").write_text("x = 1\n")
    words = [word for setting in settings for word in ("--set", setting.replace("FILE", str(matches)))]
    assert main(["train", "pocket-returns", "--run-dir", "run", *words]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_shards_and_imitation_do_not_go_together(tmp_path, matches):
    table = ["optimizer={sharded=true,processes=2}", "roles.reply=free", "roles.on_illegal=forfeit"]
    with pytest.raises(UsageError, match=r"imitation\.weight = 0\.5 adds passes"):
        config(tmp_path, *table, weight=0.5, matches=matches)


def test_a_changed_copy_is_refused_and_evolving_brings_other_matches(tmp_path, matches):
    run = league.train(config(tmp_path), tmp_path / "run")
    evolve(run.path, tmp_path / "evolved", 1, ["imitation.weight=0.5", f"imitation.matches={matches}"])
    again = league.resume(tmp_path / "evolved")
    assert again.iterations()[-1]["main/imitation/loss"] > 0.0
    kept = again.path / IMITATION_FILE
    kept.write_text(kept.read_text().replace("bet", "pass"))
    settings = load_run_config(again.path)
    with pytest.raises(DamagedFile, match="it has changed since it was saved"):
        imitated_replies(run_context(settings, again.path), {})
    kept.unlink()
    with pytest.raises(DamagedFile, match="it cannot be read"):
        imitated_replies(run_context(settings, again.path), {})
