"""Runs whose policies are adapters, full models, or both: trained, frozen, killed, resumed, and played."""

import json
import shutil
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from safetensors.torch import load_file
from support.processes.runs import TINY, TrainingProcess, contents, league_train
from support.processes.unbroken import each_once

from arena.lm.language_model import LanguageModel
from games.common.errors import UsageError
from games.registry import make_game
from league import cli
from league.config.context import run_context
from league.config.load import load, validate
from league.population.models.base_model import load_base
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.population.storage.population import Population
from league.theory.exact.exploitability import exploitability
from league.training.learning.policies import start_policies

pytestmark = pytest.mark.thorough

KUHN = make_game("kuhn_poker").spec
BOUND = 'roles.policy = { "kuhn_poker/first" = "a", "kuhn_poker/second" = "b" }\n'
VARIANTS = {
    "two adapters": BOUND
    + """
policies.a = { weights = "lora", rank = 4 }
policies.b = { weights = "lora", targets = ["q_proj", "down_proj"] }
objective = { magnet = 0.1, magnet_every = 2, kl_reference = 0.05 }
loaded_snapshots = 1
""",
    "a full model and an adapter": BOUND
    + """
policies.b = { weights = "lora" }
objective = { magnet = 0.1, magnet_every = 2, kl_reference = 0.05 }
""",
    "several roles to a policy": """
games.tiny_hanabi.matches = 16
policies.a = { weights = "lora", learning_rate = 0.01 }
policies.b = { weights = "lora", frozen = true }
[roles.policy]
"kuhn_poker/first" = "a"
"kuhn_poker/second" = "b"
"tiny_hanabi/signaller" = "a"
"tiny_hanabi/responder" = "b"
""",
}
WINDOWS = [  # where a run is killed: around the base and the first adapters
    ("base", 1),
    ("population/.partial-", 3),
    ("state/.iteration-000002", 1),
    ("population/.partial-a-000004", 1),
]


@pytest.fixture(scope="module")
def unbroken_runs(tmp_path_factory):
    return each_once(VARIANTS, tmp_path_factory)


def copy_of(run, tmp_path):
    return Path(shutil.copytree(run, tmp_path / "copy"))


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_run_killed_many_times_ends_as_an_unbroken_one(variant, unbroken_runs, tmp_path):
    unbroken, run = unbroken_runs(variant), tmp_path / "run"
    for window in WINDOWS:
        arguments = ["--resume"] if (run / "config.toml").exists() else [unbroken.config]
        ended = TrainingProcess(*arguments, run_dir=run, die_at=window).end()
        assert ended.status == -signal.SIGKILL, (window, ended.output)
    ended = league_train("--resume", run_dir=run)
    assert ended.status == 0, ended.output
    assert contents(run) == contents(unbroken.run)


def test_policies_start_equal_and_diverge(unbroken_runs):
    run = unbroken_runs("two adapters").run
    for policy, modules in (("a", 7), ("b", 2)):
        first, *later = [
            load_file(s.path / "adapter_model.safetensors") for s in Population(run / "population").all(policy)
        ]
        assert len(first) == 2 * modules
        assert all(not weight.any() for name, weight in first.items() if "lora_B" in name)
        for before, after in zip([first, *later], later, strict=False):
            assert any((before[name] != after[name]).any() for name in before)
    assert not list((run / "population").glob("*/model.safetensors"))
    saved = load_file(run / "state" / "iteration-000006" / "a.safetensors")
    assert {name.split("/")[0] for name in saved} == {"weights", "magnet", "exp_avg", "exp_avg_sq", "step", "updates"}


def test_a_frozen_policy_plays_and_stays_as_it_is(unbroken_runs):
    run = unbroken_runs("several roles to a policy").run
    assert {path.name for path in (run / "population").iterdir()} == {
        "b-000000",
        *(f"a-{step:06d}" for step in (0, 2, 4, 6)),
    }
    saved = load_file(run / "state" / "iteration-000006" / "b.safetensors")
    assert {name.split("/")[0] for name in saved} == {"weights", "updates"}
    assert int(saved["updates"]) == 0
    assert not any(weight.any() for name, weight in saved.items() if "lora_B" in name)
    cells = json.loads((run / "payoffs.json").read_text())["cells"]
    assert {(cell[0], cell[2], cell[3]) for cell in cells if cell[0] in ("a", "b")} == {
        ("a", "kuhn_poker", "first"),
        ("b", "kuhn_poker", "second"),
        ("a", "tiny_hanabi", "signaller"),
        ("b", "tiny_hanabi", "responder"),
    }


@pytest.mark.parametrize("variant", ["two adapters", "a full model and an adapter"])
def test_what_training_measured_is_what_the_saved_snapshots_play(variant, unbroken_runs):
    """Exact figures that training computed with live weights, against tables made from the files."""
    run = unbroken_runs(variant).run
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    for which, name in (("", "exploitability"), ("@mixture", "mixture_exploitability")):
        table = resolve(f"{run}{which}", KUHN, Engines()).tabulate(0, 100).table
        assert last[f"kuhn_poker/{name}"] == pytest.approx(exploitability(table), abs=1e-6)


def kuhn_table(text):
    """Return the probabilities of a player's moves in a row, to be compared up to rounding."""
    rows = resolve(text, KUHN, Engines()).tabulate().table.probabilities
    return pytest.approx([p for key in sorted(rows) for p in rows[key]], abs=1e-6)


def test_a_new_adapter_plays_as_the_cold_started_base_and_as_a_new_full_model(unbroken_runs):
    run = unbroken_runs("a full model and an adapter").run
    new = kuhn_table(f"hf:{run}/base")
    for text in (f"{run}@a-000000", f"{run}@b-000000", f"hf:{run}/population/b-000000"):
        assert kuhn_table(text).expected == new
    trained = kuhn_table(f"{run}@b-000006")
    assert trained.expected != new
    assert kuhn_table(f"hf:{run}/population/b-000006").expected == trained


@pytest.mark.parametrize("players", [("", "random"), ("@b-000006", "@a-000002"), ("@mixture", "@a-000004")])
def test_snapshots_of_either_kind_play_in_matches(players, unbroken_runs, capsys):
    run = unbroken_runs("a full model and an adapter").run
    names = [f"{run}{player}" if player != "random" else player for player in players]
    assert cli.main(["match", *names, "--game", "kuhn_poker", "--matches", "12", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["matches"] == 12


def test_the_snapshots_of_a_run_share_one_base(unbroken_runs):
    player = resolve(f"{unbroken_runs('two adapters').run}@mixture", KUHN, engines := Engines())
    models = [player.engine.model_of(identity) for members in player.members for identity, _ in members]
    assert len({id(model) for model in models}) == 8
    assert len({id(model.model) for model in models}) == 1
    again = resolve(f"{unbroken_runs('two adapters').run}", KUHN, engines)
    assert again.engine.model_of(again.members[0][0][0]).model is models[0].model


def test_a_changed_base_is_refused_by_name(unbroken_runs, tmp_path):
    run = copy_of(unbroken_runs("two adapters").run, tmp_path)
    weights = run / "base" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.chmod(0o644)
    weights.write_bytes(content)
    with pytest.raises(UsageError, match=r"base of the adapters in .*model\.safetensors in .* changed"):
        resolve(str(run), KUHN, Engines())
    ended = league_train("--resume", run_dir=run)
    assert ended.status == 2
    assert "model.safetensors" in ended.output
    (run / "base" / "base.json").chmod(0o644)
    (run / "base" / "base.json").unlink()
    with pytest.raises(UsageError, match="is not the base of a run's adapters"):
        load_base(load(str(run / "config.toml")), run, "main")


def test_adapters_on_a_checkpoint_refer_to_it(unbroken_runs, tmp_path):
    """A base that was not built for the run is not copied into it."""
    source, run = unbroken_runs("two adapters").run / "base", tmp_path / "run"
    config = tmp_path / "config.toml"
    config.write_text(TINY.replace("iterations = 6", "iterations = 2") + 'policies.main.weights = "lora"\n')
    ended = league_train(config, "--set", f"model.source={source}", run_dir=run)
    assert ended.status == 0, ended.output
    assert not (run / "base").exists()
    assert sum(path.stat().st_size for path in (run / "population").rglob("*")) < source.stat().st_size + 200_000
    named = json.loads((run / "population" / "main-000002" / "adapter_config.json").read_text())
    assert named["base_model_name_or_path"] == str(source)
    assert kuhn_table(str(run)).expected == kuhn_table(f"hf:{run}/population/main-000002")


def test_bad_targets_are_found_before_the_first_match(tmp_path):
    config = validate({"games": {"kuhn_poker": {}}, "policies": {"main": {"weights": "lora", "targets": ["c_fc"]}}})
    with pytest.raises(UsageError, match=r"policies\.main\.targets: .*named 'c_fc'.*q_proj"):
        start_policies(run_context(config, tmp_path))


def test_the_cold_start_happens_once_for_all_policies(tmp_path, monkeypatch):
    imitators = []
    monkeypatch.setattr(
        "league.training.learning.cold_start.cold_start", lambda lm, *args, **settings: imitators.append(lm)
    )
    policies = {name: {"weights": weights} for name, weights in (("a", "full"), ("b", "lora"))}
    bound = {"kuhn_poker/first": "a", "kuhn_poker/second": "b"}
    config = validate({"games": {"kuhn_poker": {}}, "policies": policies, "roles": {"policy": bound}})
    made = start_policies(run_context(config, tmp_path))
    assert len(imitators) == 1
    assert isinstance(imitators[0], LanguageModel)
    assert made["b"].lm.model is imitators[0].model
    assert made["a"].lm.model is not imitators[0].model


def test_a_policy_has_a_critic_for_the_roles_that_need_one(tmp_path, monkeypatch):
    made = []
    fake = SimpleNamespace(Critic=lambda *arguments: made.append(arguments) or "critic")
    monkeypatch.setitem(sys.modules, "learners.update.critic", fake)
    games = ("kuhn_poker", "tiny_hanabi")
    credit = {"rule": "rae", "rules": {"kuhn_poker/first": "gae_turn", "kuhn_poker/second": "gae_turn"}}
    data = {"games": {name: {} for name in games}, "credit": credit, "cold_start": {"steps": 0, "matches": 4}}
    data["roles"] = {"policy": {"kuhn_poker/second": "b"}}
    config = validate({**data, "policies": {"b": {"weights": "lora", "frozen": True}}})
    policies = start_policies(run_context(config, tmp_path))
    ((width, roles, settings, _),) = made
    assert (width, roles, settings) == (128, ["kuhn_poker/first"], config.critic)
    assert (policies["main"].critic, policies["b"].critic) == ("critic", None)
