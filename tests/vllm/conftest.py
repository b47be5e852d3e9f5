"""One small base model with adapters, and the real engine on it, started once."""

import os

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")

import pytest
from support.matches.kuhn import kuhn_pocket
from support.models.adapters import scrambled

from arena.lm.lora import Adapters, AdapterShape
from arena.lm.tokenization import ChatTokenizer
from arena.samplers.torch_lm import TorchLM

ADAPTERS = 8
SHAPE = AdapterShape(rank=8, alpha=16.0)


@pytest.fixture(scope="session")
def base_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    kuhn_pocket(hidden_size=128).save(folder)
    return folder


@pytest.fixture(scope="session")
def adapters(base_folder):
    """Return the base in this process, for adapters to be put on."""
    from arena.lm.language_model import LanguageModel

    return Adapters(LanguageModel.load(base_folder), str(base_folder))


@pytest.fixture(scope="session")
def adapter_folders(adapters, tmp_path_factory):
    """Return folders of adapters that matter, by player."""
    folders = {}
    for number in range(ADAPTERS):
        view = scrambled(adapters.add(SHAPE, number), number + 1)
        folders[f"adapter{number}"] = tmp_path_factory.mktemp("adapters") / f"adapter{number}"
        view.save(folders[f"adapter{number}"])
        view.release()
    return folders


@pytest.fixture(scope="session")
def engine(base_folder, adapter_folders):
    """Return vLLM with half as many adapter slots as there are adapters, and the base as a player."""
    from arena.samplers.vllm_lm import VllmLM
    from arena.samplers.vllm_shape import VllmShape

    shape = VllmShape(adapters=True, max_loras=4, max_lora_rank=8, max_model_len=1024)
    engine = VllmLM(base_folder, ChatTokenizer.read(base_folder), shape)
    engine.register("base", base_folder)
    for player, folder in adapter_folders.items():
        engine.register(player, folder)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def torch_engine(base_folder, adapters, adapter_folders):
    """Return the engine of this process with the same players."""
    engine = TorchLM(loaded=ADAPTERS + 1)
    engine.add("base", adapters.base)
    for player, folder in adapter_folders.items():
        engine.register(player, folder, like=adapters)
    return engine
