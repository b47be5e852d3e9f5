"""What an engine cannot do is told before it is started, with the number that would work."""

import pytest
import torch
from small_play import kuhn_pocket

from games.errors import UsageError
from league import settings
from league.engines import check_context, check_engine
from league.population import Population
from league.run_state import has_state
from league.session import train
from league.settings import run_roles

VLLM = ["engine.kind=vllm", "policies.main.kind=lora"]


def config(*changes):
    return settings.load("pocket", ["games={kuhn_poker={matches=8}}", *changes])


def refused(one, policies):
    """Return why an engine is refused; of one that would do, at most that vLLM is not installed here."""
    try:
        check_engine(one, policies)
    except UsageError as error:
        return str(error)
    return "vLLM is not installed"


@pytest.mark.parametrize(("rank", "fits"), [(17, 32), (64, 64), (500, 512)])
def test_a_rank_over_the_engines_is_told_with_the_rank_that_works(rank, fits):
    with pytest.raises(UsageError, match=rf"policies.main.rank = {rank}, .* = 16. Set engine.max_lora_rank = {fits}\."):
        check_engine(config(*VLLM, f"policies.main.rank={rank}"), ["main"])
    wider = config(*VLLM, f"policies.main.rank={rank}", f"engine.max_lora_rank={fits}")
    assert "vLLM is not installed" in refused(wider, ["main"])


def test_a_rank_that_no_engine_takes():
    with pytest.raises(UsageError, match=r"Set policies.main.rank to 512 or less"):
        check_engine(config(*VLLM, "policies.main.rank=600"), ["main"])


def test_one_vllm_serves_adapters_or_whole_models():
    with pytest.raises(UsageError, match="of this run's policies other would be whole and the others adapters"):
        check_engine(config(*VLLM), ["main", "other"])
    check_engine(config(*VLLM, "engine.kind=torch"), ["main", "other"])
    assert "vLLM is not installed" in refused(config("engine.kind=vllm"), ["main", "other"])


def test_a_context_too_short_is_told_with_the_length_that_works():
    lm = kuhn_pocket()
    short = config(*VLLM, "engine.max_model_len=3")
    with pytest.raises(UsageError, match=r"In trial matches of kuhn_poker, .* Set it to \d+ or more") as told:
        check_context(short, run_roles(short), lm)
    needed = int(str(told.value).rsplit("Set it to ", 1)[1].split()[0])
    for length, fits in ((needed, True), (needed - 1, False)):
        one = config(*VLLM, f"engine.max_model_len={length}")
        if fits:
            check_context(one, run_roles(one), lm)
        else:
            with pytest.raises(UsageError):
                check_context(one, run_roles(one), lm)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_no_gpu_is_told():
    with pytest.raises(UsageError, match=r"PyTorch finds no GPU here\. Set model.device = 'cpu'"):
        check_engine(config("model.device=cuda"), ["main"])


def test_sleep_is_for_a_gpu_that_this_process_learns_on():
    sleepy = [*VLLM, "engine.sleep=true"]
    with pytest.raises(UsageError, match=r"learner processes .* Set it to false, or decoupled.learners to 'none'"):
        check_engine(config(*sleepy, "decoupled.learners=each"), ["main"])
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match=r"engine.sleep = true .* finds no GPU here\. Set it to false"):
            check_engine(config(*sleepy), ["main"])


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        pytest.param(
            ["model.device=cuda"],
            r"Set model.device = 'cpu'",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here"),
        ),
        ([*VLLM, "policies.main.rank=17"], r"Set engine.max_lora_rank = 32\."),
    ],
)
def test_a_run_is_refused_before_anything_of_it_begins(wrong, told, tmp_path):
    with pytest.raises(UsageError, match=told):
        train(config(*wrong), tmp_path / "run")
    assert not Population(tmp_path / "run" / "population").all()
    assert not has_state(tmp_path / "run")


def test_vllm_that_is_not_installed_is_told():
    assert "vLLM is not installed" in refused(config(*VLLM), ["main"])
