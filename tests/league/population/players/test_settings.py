"""Settings of players on the command line: they reach the engine and the role, and what would do nothing is refused."""

import json
from shutil import copytree

import pytest
import torch
from support.models.pocket import pocket

from arena.lm.lora import Adapters, AdapterShape
from arena.records import MatchRequest
from arena.scheduler import play
from games.common.errors import UsageError
from games.registry import make_game
from league.cli import main
from league.config.load import load
from league.population.players.engines import Engines
from league.population.players.model_engine import checkpoint_source, fitted
from league.population.players.player import resolve
from league.population.players.settings import PlayerSettings
from roles.role import OnIllegal, ReplyForm

KUHN = make_game("kuhn_poker").spec


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    pocket().save(folder)
    return folder


def refusal(capsys, *words):
    assert main(list(map(str, words))) == 2
    return capsys.readouterr().err


def episode(player):
    request = MatchRequest(0, KUHN.name, 1, 2, tuple(m[0][0] for m in player.members), (False, False))
    (played,) = play(
        [request],
        roles_of=lambda _: player.roles,
        engine_of=lambda _: player.engine,
        make_game=make_game,
        in_flight=1,
    )
    return played


def test_settings_reach_role_and_weights(model):
    settings = PlayerSettings("free", 3, 0.5, "bfloat16", "torch")
    with Engines(settings) as engines:
        player = resolve(f"hf:{model}", KUHN, engines)
        role = player.roles[0]
        assert (role.reply, role.max_reply_tokens, role.temperature) == (ReplyForm.FREE, 3, 0.5)
        assert role.conduct.on_illegal is OnIllegal.FORFEIT
        trace = episode(player).turns[0].trace
        assert (len(trace.reply_ids) <= 3, trace.temperature, trace.mask) == (True, 0.5, None)
        (loaded,) = player.engine._loaded.values()
        assert {weight.dtype for weight in loaded.model.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize(
    ("settings", "game", "shown"),
    [
        (PlayerSettings(reply="free"), "kuhn_poker", 1),
        (PlayerSettings(reply="free", demonstrations=0), "kuhn_poker", 0),
        (PlayerSettings(), "kuhn_poker", 0),
        (PlayerSettings(demonstrations=2), "kuhn_poker", 2),
        (PlayerSettings(reply="free"), "lookup_chain", 0),  # random play cannot give any
    ],
)
def test_a_model_from_nowhere_is_shown_a_turn_before_it_writes_freely(model, settings, game, shown, tmp_path):
    """Its tokenizer ends replies by another token than that of a pocket model does."""
    other = copytree(model, tmp_path / "other")
    path = other / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pad_token": "<|end|>"}))
    with Engines(settings) as engines:
        roles = resolve(f"hf:{other}", make_game(game).spec, engines).roles
    assert {role.demonstrations for role in roles} == {shown}
    assert all(role.ask for role in roles)


def test_free_replies_are_truncated_as_asked(model):
    with Engines(PlayerSettings("free", 3, top_k=1)) as engines:
        trace = episode(resolve(f"hf:{model}", KUHN, engines)).turns[0].trace
    assert trace.truncation == (1, 1.0, 0.0)
    assert set(trace.logprobs) == {0.0}, "of one token that may be sampled"


def test_settings_go_before_those_of_a_run(run_dir):
    with Engines(PlayerSettings(reply="free", dtype="bfloat16")) as engines:
        player = resolve(str(run_dir), KUHN, engines)
        assert player.roles[1].reply is ReplyForm.FREE
        assert player.roles[1].temperature == 1.0
        episode(player)
        (loaded,) = player.engine._loaded.values()
        assert {weight.dtype for weight in loaded.model.parameters()} == {torch.bfloat16}
    with Engines() as engines:
        assert resolve(str(run_dir), KUHN, engines).roles[1].reply is ReplyForm.CHOICE


def test_a_masked_run_that_answers_freely_forfeits():
    config = load("pocket-returns", ["roles.on_illegal=mask"])
    assert PlayerSettings(reply="free").run(config).roles.on_illegal is None
    assert PlayerSettings(temperature=0.3).run(config).roles.on_illegal == "mask"


def test_an_engine_of_the_command_line_is_large_enough_for_a_runs_adapters():
    """A run of rank 20, trained in this process, plays in vLLM: of vLLM's ranks 32 is the next."""
    config = load("pocket-returns", ["policies.main.weights=lora", "policies.main.rank=20"])
    changed = fitted(PlayerSettings(engine="vllm").run(config))
    assert (changed.engine.kind, changed.engine.vllm.max_lora_rank) == ("vllm", 32)
    assert fitted(config) == config
    assert PlayerSettings(dtype="bfloat16").run(config).engine == config.engine
    assert config.engine.kind == "torch"


def test_an_adapter_by_itself_is_played_on_its_base(model, tmp_path):
    Adapters(pocket(), str(model)).add(AdapterShape(rank=20), 1).save(tmp_path / "adapter")
    config = load("pocket-returns", [f"model.source={tmp_path / 'adapter'}", "engine.kind=vllm"])
    sized, source = checkpoint_source(config, tmp_path / "adapter")
    assert sized.engine.vllm.max_lora_rank == 32
    assert source().base == model
    with Engines(PlayerSettings(temperature=0.5)) as engines:
        player = resolve(f"hf:{tmp_path / 'adapter'}", KUHN, engines)
        assert episode(player).turns[0].trace.temperature == 0.5


def test_an_adapter_is_no_model_to_train_from(model, tmp_path, capsys):
    Adapters(pocket(), str(model)).add(AdapterShape(rank=2), 1).save(tmp_path / "adapter")
    words = ["--run-dir", tmp_path / "run", "--set", f"model.source={tmp_path / 'adapter'}"]
    assert f"{tmp_path / 'adapter'} holds an adapter. Name the model that it adapts" in refusal(capsys, "train", *words)
    assert not (tmp_path / "run").exists()


def test_vllm_is_asked_for_where_it_is_not_installed(model, capsys):
    from importlib.util import find_spec

    if find_spec("vllm"):
        pytest.skip("vLLM is installed here, and tests/vllm tests it")
    for player in (f"hf:{model}",):
        message = refusal(capsys, "match", player, "random", "--game", "kuhn_poker", "--engine", "vllm")
        assert "vLLM is not installed" in message
    message = refusal(capsys, "match", f"hf:{model}", "random", "--game", "kuhn_poker", "--engine", "vlm")
    assert "vllm" in message


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--temperature", "0"], "temperature"),
        (["--max-reply-tokens", "0"], "max_reply_tokens"),
        (["--threads", "0"], "--threads 0"),
        (["--reply", "loud"], "loud"),
        (["--dtype", "float8"], "float8"),
        (["--reply", "free", "--top-p", "1.5"], "top_p"),
        (["--top-p", "0.9"], "a choice is drawn from all legal replies"),
    ],
)
def test_a_value_out_of_range_is_refused(model, capsys, options, part):
    assert part in refusal(capsys, "match", f"hf:{model}", "random", "--game", "kuhn_poker", *options)


def test_settings_without_a_language_model_are_refused(capsys):
    for command in (["match", "random", "equilibrium"], ["exploitability", "random"], ["play", "--against", "random"]):
        message = refusal(capsys, *command, "--game", "kuhn_poker", "--max-reply-tokens", "9", "--threads", "1")
        assert "--max-reply-tokens, --threads: there is no language model among" in message


def test_threads_are_of_the_command_alone(model):
    before = torch.get_num_threads()
    with Engines(PlayerSettings(threads=before + 1)) as engines:
        resolve(f"hf:{model}", KUHN, engines)
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def test_a_tournament_keeps_its_settings(model, tmp_path, capsys):
    folder = tmp_path / "cup"
    begin = ["tournament", f"hf:{model}", "random", "--game", "kuhn_poker", "--matches", "4", "--run-dir", folder]
    assert main([*map(str, begin), "--reply", "free", "--temperature", "0.5"]) == 0
    kept = json.loads((folder / "tournament.json").read_text())
    assert kept["settings"] == {"reply": "free", "temperature": 0.5}
    resume = ["tournament", "--resume", "--run-dir", str(folder)]
    assert main([*resume, "--threads", "1"]) == 0
    assert "--threads" in refusal(capsys, *resume, "--temperature", "0.9")
    message = refusal(capsys, *begin, "--reply", "choice")
    assert "holds another tournament (settings" in message


def test_only_what_was_given_changes_anything():
    config = load("pocket-returns")
    assert PlayerSettings().run(config) == config
    with pytest.raises(UsageError, match="max_reply_tokens"):
        PlayerSettings(max_reply_tokens=0).roles(config.roles)
