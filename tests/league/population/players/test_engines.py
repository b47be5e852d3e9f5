"""What an engine cannot do is refused before it is started, with the number that would work."""

import pytest
import torch
from support.matches.kuhn import kuhn_pocket

from games.common.errors import UsageError
from league.config.load import load, run_roles
from league.population.players.model_engine import check_context, check_engine
from league.population.storage.population import Population
from league.training.checkpoints.checkpoint import has_checkpoint
from league.training.loop.session import train

VLLM = ["engine.kind=vllm", "policies.main.weights=lora"]


def config(*changes):
    return load("pocket-returns", ["games={kuhn_poker={matches=8}}", *changes])


def refusal(run, policies):
    """Return why an engine is refused; of one that fits, at most that vLLM is not installed here."""
    try:
        check_engine(run, policies)
    except UsageError as error:
        return str(error)
    return "vLLM is not installed"


@pytest.mark.parametrize(("rank", "allowed"), [(17, 32), (64, 64), (500, 512)])
def test_a_rank_above_the_engines_is_refused_with_the_rank_that_works(rank, allowed):
    with pytest.raises(
        UsageError, match=rf"policies.main.rank = {rank}, .* = 16. Set engine.vllm.max_lora_rank = {allowed}\."
    ):
        check_engine(config(*VLLM, f"policies.main.rank={rank}"), ["main"])
    wider = config(*VLLM, f"policies.main.rank={rank}", f"engine.vllm.max_lora_rank={allowed}")
    assert "vLLM is not installed" in refusal(wider, ["main"])


def test_a_rank_that_no_engine_takes():
    with pytest.raises(UsageError, match=r"Set policies.main.rank to 512 or less"):
        check_engine(config(*VLLM, "policies.main.rank=600"), ["main"])


def test_one_vllm_serves_adapters_or_full_models():
    with pytest.raises(UsageError, match="in this run other would be full and the other policies adapters"):
        check_engine(config(*VLLM), ["main", "other"])
    check_engine(config(*VLLM, "engine.kind=torch"), ["main", "other"])
    assert "vLLM is not installed" in refusal(config("engine.kind=vllm"), ["main", "other"])


def test_a_context_too_short_is_refused_with_the_length_that_works():
    lm = kuhn_pocket()
    short = config(*VLLM, "engine.vllm.max_model_len=3")
    with pytest.raises(UsageError, match=r"In trial matches of kuhn_poker, .* Set it to \d+ or more") as refused:
        check_context(short, run_roles(short), lm)
    needed = int(str(refused.value).rsplit("Set it to ", 1)[1].split()[0])
    for length, fits in ((needed, True), (needed - 1, False)):
        run = config(*VLLM, f"engine.vllm.max_model_len={length}")
        if fits:
            check_context(run, run_roles(run), lm)
        else:
            with pytest.raises(UsageError):
                check_context(run, run_roles(run), lm)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_missing_gpu_is_refused():
    with pytest.raises(UsageError, match=r"PyTorch finds no GPU here\. Set model.device = 'cpu'"):
        check_engine(config("model.device=cuda"), ["main"])


def test_sleep_is_for_a_gpu_that_this_process_learns_on():
    sleepy = [*VLLM, "engine.vllm.sleep=true"]
    with pytest.raises(
        UsageError, match=r"learner processes .* Set it to false, or async_learners.processes to 'none'"
    ):
        check_engine(config(*sleepy, "async_learners.processes=each"), ["main"])
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match=r"engine.vllm.sleep = true .* finds no GPU here\. Set it to false"):
            check_engine(config(*sleepy), ["main"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param(
            ["model.device=cuda"],
            r"Set model.device = 'cpu'",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here"),
        ),
        ([*VLLM, "policies.main.rank=17"], r"Set engine.vllm.max_lora_rank = 32\."),
    ],
)
def test_a_run_is_refused_before_it_starts(changes, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        train(config(*changes), tmp_path / "run")
    assert not Population(tmp_path / "run" / "population").all()
    assert not has_checkpoint(tmp_path / "run")


def test_vllm_that_is_not_installed_is_refused():
    assert "vLLM is not installed" in refusal(config(*VLLM), ["main"])


GIVEN = 'engine.vllm_server.urls=["http://localhost:8000"]'


def test_servers_that_others_keep_take_adapters_and_need_no_vllm_here(monkeypatch):
    monkeypatch.delenv("LEAGUE_TEST_KEY", raising=False)
    given = ["engine.kind=vllm_server", GIVEN]
    check_engine(config(*given, "policies.main.weights=lora"), ["main"])
    with pytest.raises(UsageError, match=r"policies.main.weights = 'full', .* Set it to 'lora'"):
        check_engine(config(*given, "policies.main.weights=full"), ["main"])
    locked = config(*given, "policies.main.weights=lora", "engine.vllm_server.key_variable=LEAGUE_TEST_KEY")
    with pytest.raises(UsageError, match=r"'LEAGUE_TEST_KEY', but that variable is not set"):
        check_engine(locked, ["main"])
    monkeypatch.setenv("LEAGUE_TEST_KEY", "sk-0123456789abcdef")
    check_engine(locked, ["main"])
    with pytest.raises(UsageError, match=r"servers keep their memory\. Set it to false"):
        check_engine(config(*given, "policies.main.weights=lora", "engine.vllm.sleep=true"), ["main"])


@pytest.mark.parametrize("urls", ['["localhost:8000"]', '["http://"]', '["http://a:1", "http://a:1"]'])
def test_addresses_that_are_none_are_refused(urls):
    with pytest.raises(UsageError, match=r"Give one such as|Give each one once"):
        config("engine.kind=vllm_server", f"engine.vllm_server.urls={urls}")


def test_more_servers_than_gpus_are_refused_with_the_number_that_fits(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr("league.population.players.model_engine.is_installed", lambda _: True)
    many = ["engine.kind=vllm_server", "policies.main.weights=lora", "engine.vllm_server.tensor_parallel=2"]
    check_engine(config(*many, "engine.vllm_server.replicas=2"), ["main"])
    with pytest.raises(UsageError, match=r"asks for 6 GPUs .* Set engine.vllm_server.replicas = 2"):
        check_engine(config(*many, "engine.vllm_server.replicas=3"), ["main"])
