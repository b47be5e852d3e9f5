"""Devices and types of policies with base models of their own: chosen, told, moved and counted one by one."""

import pytest

from arena.cluster.interface import Resources
from arena.gpus import Gpu
from games.common.errors import UsageError
from league.config import RunConfig
from league.config.load import chosen, load, sentence, to_toml, validate
from league.lab.sweeps.plan import SweepRun
from league.lab.sweeps.side_by_side import needed
from league.training.backends.placement import check_resources

H100 = Gpu("NVIDIA H100 80GB HBM3", 81_559 << 20)


def config(run=None, **own):
    return RunConfig(
        games={"kuhn_poker": {}}, model=run or {}, policies={name: {"model": model} for name, model in own.items()}
    )


def devices(settings, *names):
    return [(settings.model_of(name).device, settings.model_of(name).dtype) for name in names]


def test_auto_of_one_policy_is_chosen_for_it_alone():
    own = config(b={"device": "auto", "dtype": "auto"})
    assert devices(chosen(own, H100), "a", "b") == [("cpu", "float32"), ("cuda", "bfloat16")]
    assert devices(chosen(own, None), "a", "b") == [("cpu", "float32")] * 2
    assert "b: cuda, bfloat16" in sentence(chosen(own, H100), H100)


def test_the_type_fits_the_device_of_each():
    """A pocket model that stays on the processor beside a large one on the GPU keeps its 32 bits."""
    own = config({"device": "auto", "dtype": "auto"}, b={"device": "cpu"})
    assert devices(chosen(own, H100), "a", "b") == [("cuda", "bfloat16"), ("cpu", "float32")]


def test_what_a_run_keeps_has_no_auto_left(monkeypatch):
    monkeypatch.setattr("league.config.load.find_gpu", lambda: None)
    run = load("pocket-returns", ["policies.main.model.device=auto"])
    assert "auto" not in to_toml(run)
    assert run.model_of("main") == run.model


def test_all_models_are_moved_and_only_gpus_are_renumbered():
    own = config({"device": "cuda"}, b={"device": "cpu"}, c={"device": "cuda:1"})
    assert [device for device, _ in devices(own.on_devices(lambda _: "cpu"), "a", "b", "c")] == ["cpu"] * 3
    numbered = own.on_devices(lambda device: device if device == "cpu" else "cuda:3")
    assert [device for device, _ in devices(numbered, "a", "b", "c")] == ["cuda:3", "cpu", "cuda:3"]


def test_one_policy_on_a_gpu_makes_a_run_need_one():
    own = config(b={"device": "cuda"})
    assert own.devices == {"cpu", "cuda"}
    assert needed([SweepRun("x", own)], [Resources(2.0, 1.0)]).gpus == 1.0
    with pytest.raises(UsageError, match=r"policies\.b\.model\.device = 'cuda', but cluster\.engine_gpus = 0"):
        check_resources(own, 0)


def test_exploiters_need_a_base_that_somebody_trains():
    """They begin from [model], and are compared with where they began: a snapshot of a policy on it."""
    table = {"games": {"kuhn_poker": {}}, "policies": {"main": {"model": {"layers": 1}}}}
    probe = {"probe": {"league_role": "main_exploiter"}}
    validate(table)
    with pytest.raises(UsageError, match="probe starts from \\[model\\], but no policy"):
        load_table(table | {"policies": table["policies"] | probe})


def load_table(table):
    from league.config.checks.config import check_config
    from league.config.load import run_roles

    settings = validate(table)
    check_config(settings, run_roles(settings))
