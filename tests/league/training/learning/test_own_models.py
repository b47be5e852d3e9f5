"""Policies with base models of their own: two widths and vocabularies in one run, trained, rated, killed, resumed."""

import json
import random
import signal

import pytest
from safetensors.torch import load_file
from support.models.checkpoint import save_checkpoint
from support.processes.runs import TrainingProcess, contents, league_train
from support.processes.unbroken import each_once

from games.common.errors import UsageError
from games.registry import make_game
from league.cli.dispatch import main
from league.config.context import run_context
from league.config.load import load, run_roles, validate
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.population.storage.population import Population
from league.training.learning.policies import start_policies
from roles.cards import load_roles
from roles.role import Wording

KUHN = make_game("kuhn_poker").spec
BOUND = 'roles.policy = { "kuhn_poker/first" = "a", "kuhn_poker/second" = "b" }\n'
LARGER = "policies.b.model = { hidden_size = 48, vocabulary = 300 }\n"
RELAY = "relay_arithmetic(most=4)"
VARIANTS = {
    "two widths": BOUND + LARGER + "objective = { magnet = 0.1, magnet_every = 2 }\n",
    "adapters on two bases": BOUND
    + """
policies.a = { weights = "lora", rank = 2 }
policies.b = { weights = "lora", rank = 2, model = { hidden_size = 48, vocabulary = 300 } }
objective = { kl_reference = 0.05 }
loaded_snapshots = 1
""",
    "learners apart": BOUND + LARGER + 'async_learners.processes = "each"\n',
    "a team": f"""
games."{RELAY}".matches = 32
policies.writer.model = {{ hidden_size = 48, layers = 2, vocabulary = 400 }}
[roles.policy]
"{RELAY}/generator" = "writer"
"{RELAY}/refiner" = "writer"
""",
}


@pytest.fixture(scope="module")
def unbroken_runs(tmp_path_factory):
    return each_once(VARIANTS, tmp_path_factory)


def widths(run, policy):
    return {
        json.loads((snapshot.path / "config.json").read_text())["hidden_size"]
        for snapshot in Population(run / "population").all(policy)
    }


def test_two_widths_train_are_rated_and_play(unbroken_runs, capsys):
    run = unbroken_runs("two widths").run
    assert (widths(run, "a"), widths(run, "b")) == ({32}, {48})
    for policy in ("a", "b"):
        first, *_, last = [load_file(s.path / "model.safetensors") for s in Population(run / "population").all(policy)]
        assert any((first[name] != last[name]).any() for name in first)
    assert len({len((s.path / "tokenizer.json").read_text()) for s in Population(run / "population").all()}) == 2
    rated = {cell[0] for cell in json.loads((run / "payoffs.json").read_text())["cells"]}
    assert {"a", "b"} <= rated
    assert main(["match", str(run), "random", "--game", "kuhn_poker", "--matches", "20", "--json"]) == 0
    capsys.readouterr()
    assert main(["exploitability", f"{run}@mixture", "--game", "kuhn_poker", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert 0.0 < said["exploitability"] < 1.0


def test_what_training_measured_is_what_the_snapshots_of_both_models_play(unbroken_runs):
    from league.theory.exact.exploitability import exploitability
    from league.training.board.metrics_log import read_metrics

    for variant in ("two widths", "adapters on two bases"):
        run = unbroken_runs(variant).run
        with Engines() as engines:
            found = exploitability(resolve(str(run), KUHN, engines).tabulate().table)
        told = [line["kuhn_poker/exploitability"] for line in read_metrics(run) if "kuhn_poker/exploitability" in line]
        assert found == pytest.approx(told[-1], abs=1e-6)


def test_adapters_have_their_bases_in_folders_by_name(unbroken_runs):
    run = unbroken_runs("adapters on two bases").run
    sizes = {
        folder: json.loads((run / folder / "config.json").read_text())["hidden_size"] for folder in ("base", "base-b")
    }
    assert sizes == {"base": 32, "base-b": 48}
    named = {
        s.policy: json.loads((s.path / "adapter_config.json").read_text())["base_model_name_or_path"]
        for s in Population(run / "population").all()
    }
    assert named == {"a": "../../base", "b": "../../base-b"}


@pytest.mark.thorough
@pytest.mark.parametrize("variant", VARIANTS)
def test_killed_at_random_moments_and_resumed(variant, unbroken_runs, tmp_path):
    unbroken, run, rng = unbroken_runs(variant), tmp_path / "run", random.Random(variant)
    for _ in range(2):
        arguments = ["--resume"] if (run / "config.toml").exists() else [unbroken.config]
        ended = TrainingProcess(*arguments, run_dir=run).end(rng.uniform(0.2, 0.8) * unbroken.seconds)
        assert ended.status in (0, -signal.SIGKILL), ended.output
    ended = league_train("--resume", run_dir=run)
    assert ended.status == 0, ended.output
    if variant != "learners apart":  # whose journals differ by when each learner was ready
        assert contents(run) == contents(unbroken.run)
    for policy in ("a", "b") if "a" in widths_by_policy(run) else ("writer", "main"):
        newest, other = (Population(path / "population").newest(policy) for path in (run, unbroken.run))
        assert newest.id == other.id
        assert newest.sha256 == other.sha256


def widths_by_policy(run):
    return {snapshot.policy for snapshot in Population(run / "population").all()}


@pytest.mark.thorough
def test_a_policy_that_names_the_runs_own_model_plays_the_same_bits(tmp_path, tmp_path_factory):
    same = BOUND + 'policies.b.model = { source = "pocket", hidden_size = 32 }\n'
    runs = each_once({"plain": BOUND, "same": same}, tmp_path_factory)
    plain, named = contents(runs("plain").run), contents(runs("same").run)
    plain.pop("config.toml"), named.pop("config.toml")
    assert plain == named


def test_what_distils_and_pushes_finds_each_base(unbroken_runs, tmp_path, capsys):
    run = unbroken_runs("adapters on two bases").run
    assert main(["distil", f"{run}@mixture", "-o", str(tmp_path / "one"), "--set", "distil.steps=2"]) == 0
    assert {path.name for path in (tmp_path / "one").glob("base*")} == {"base", "base-b"}
    for policy in ("a", "b"):
        newest = Population(run / "population").newest(policy).id
        folder = tmp_path / policy
        assert main(["push", f"{run}@{newest}", f"me/{policy}", "--dry-run", "--out", str(folder)]) == 0
        assert json.loads((folder / "config.json").read_text())["hidden_size"] == (32 if policy == "a" else 48)


def test_a_pretrained_policy_reads_all_rules_and_the_other_the_brief_cards(tmp_path):
    save_checkpoint(tmp_path / "model", steps=1)
    (tmp_path / "run.toml").write_text(
        BOUND + f'games.kuhn_poker = {{}}\npolicies.b.model.source = "{tmp_path}/model"\n'
    )
    config = load(str(tmp_path / "run.toml"), [])
    first, second = run_roles(config)["kuhn_poker"]
    assert (config.roles.wording, config.roles.wordings) == ("brief", {"b": "full"})
    assert first.system == load_roles(KUHN, None, Wording.BRIEF)[0].system
    assert second.system == load_roles(KUHN, None, Wording.FULL)[1].system != load_roles(KUHN)[1].system
    unprepared = config.model_copy(update={"cold_start": config.cold_start.model_copy(update={"steps": 0})})
    policies = start_policies(run_context(unprepared, tmp_path))
    assert policies["a"].lm.encode_prompt([{"role": "user", "content": "bet"}]) != policies["b"].lm.encode_prompt(
        [{"role": "user", "content": "bet"}]
    )


@pytest.mark.parametrize(
    ("policies", "told"),
    [
        ({"b": {"model": {"width": 3}}}, r"policies\.b\.model\.width.*keys are those of \[model\]"),
        ({"b": {"model": {"hidden_size": 0}}}, r"policies\.b\.model\.hidden_size"),
        ({"b": {"model": {"hidden_size": 30}}}, "not a multiple of model.heads"),
        (
            {"p": {"league_role": "main_exploiter", "model": {"layers": 1}}},
            r"partners that learn start from the run.s \[model\]",
        ),
    ],
)
def test_models_that_cannot_be_are_refused_in_a_sentence(policies, told):
    with pytest.raises(UsageError, match=told):
        validate({"games": {"kuhn_poker": {}}, "policies": policies})


def test_a_model_that_is_not_there_is_named_with_its_policy(tmp_path, capsys):
    run = str(tmp_path / "run")
    words = ["train", "pocket-returns", "--run-dir", run, "--set", "policies.main.model.source=/nowhere"]
    assert main(words) == 2
    assert "policies.main.model.source = '/nowhere'" in capsys.readouterr().err
