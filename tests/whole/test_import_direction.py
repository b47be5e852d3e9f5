"""games → roles → arena → learners → league: no package imports a later one, and heavy engines have one door each."""

import pytest
from support.source import FILES, PACKAGES, ROOT, imported

# The only places that may import a library; a place is a file, or a folder and all in it.
DOORS = {
    "vllm": ["arena/samplers/vllm_process.py"],
    "httpx2": ["arena/samplers/openai_api.py"],
    "uvicorn": ["arena/serving/web_server.py", "league/cli/python/openenv_server.py"],
    "h11": ["arena/serving/web_server.py", "arena/samplers/vllm_servers.py"],
    "starlette": ["arena/serving/web_pages.py"],
    "ray": ["arena/cluster/ray_cluster.py", "learners/rllib/best_response.py"],
    "tensorboard": ["league/training/board/event_file.py", "league/training/board/server.py"],
    "torch.utils.tensorboard": [],
    "matplotlib": ["league/training/board/figures"],
    "wandb": ["league/training/board/loggers.py"],
    "mlflow": ["league/training/board/loggers.py"],
    "trackio": ["league/training/board/loggers.py"],
    "pandas": ["league/cli/python/runs.py"],
    "pyarrow": ["league/cli/showing/export.py"],
    "filelock": ["league/population/storage/lock.py"],
    "pettingzoo": ["games/pettingzoo.py", "games/pettingzoo_parallel.py", "games/conformance"],
    "gymnasium": ["games/pettingzoo.py", "games/pettingzoo_parallel.py", "games/outside/pettingzoo_game.py"],
    "verifiers": ["league/cli/python/verifiers_env.py"],
    "datasets": ["league/cli/python/verifiers_env.py"],
    "openenv": ["league/cli/python/openenv_server.py", "league/cli/python/trl_rollouts.py"],
    "mcp": ["league/cli/python/mcp_server.py"],
    "textarena": ["games/outside/textarena_game.py"],
    "openskill": ["league/population/results/ratings.py"],
    "rich": [
        "league/training/monitors/live_view.py",
        "league/training/monitors/terminal.py",
        "league/cli",
        "league/cli",
    ],
    "jinja2": ["arena/lm/chat_template.py", "league/lab/reports/pages.py"],
    "argparse": ["league/cli", "league/cli"],
    "argcomplete": ["league/cli/completion.py", "league/cli/showing/completion.py"],
    "torch": ["arena", "learners", "league"],
    "gguf": ["league/population/models/gguf_file.py"],
    "peft": ["arena/lm/lora.py", "league/population/models/merged.py"],
    "bitsandbytes": ["learners/update/optimizers.py"],
    "transformers": [
        "arena/lm/lora.py",
        "arena/lm/scoring.py",
        "arena/lm/language_model.py",
        "arena/lm/pocket.py",
        "arena/lm/attention/prefix_attention.py",
        "arena/lm/decoding/kv_cache.py",
        "arena/lm/tokenization.py",
        "arena/lm/chat_template.py",
        "arena/lm/tree_decoding.py",
        "league/population/models/gguf_file.py",
        "league/population/players/model_engine.py",
        "learners/parallel/fsdp.py",
    ],
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_import_goes_backward(path):
    own = PACKAGES.index(path.relative_to(ROOT).parts[0])
    later = PACKAGES[own + 1 :]
    assert [name for name in imported(path) if name.split(".")[0] in later] == []


@pytest.mark.parametrize("library", DOORS)
def test_a_library_is_imported_only_through_its_door(library):
    doors = [ROOT / door for door in DOORS[library]]
    strangers = [
        str(path.relative_to(ROOT))
        for path in FILES
        if any(name == library or name.startswith(f"{library}.") for name in imported(path))
        and not any(door == path or door in path.parents for door in doors)
    ]
    assert strangers == []


def test_nothing_reads_pickles_or_runs_strings():
    """Apart from what reads what this run has just written: a game sent to a process, a figure, a task for a rank."""
    names = {"pickle", "cPickle", "dill", "marshal", "shelve"}
    users = [str(path) for path in FILES if names & {name.split(".")[0] for name in imported(path)}]
    own = (
        "games/conformance/repeating.py",
        "league/training/board/painter.py",
        "league/training/board/painting.py",
        "league/training/learning/data_parallel.py",
    )
    assert users == [str(ROOT / path) for path in own]
