"""games → roles → arena → learners → league: no package imports a later one, and heavy engines have one door each."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("games", "roles", "arena", "learners", "league")
FILES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]

# The only places that may import a library; a place is a file, or a folder and all in it.
DOORS = {
    "vllm": ["arena/samplers/vllm.py"],
    "httpx2": ["arena/samplers/openai_api.py"],
    "ray": ["arena/ray_pool.py", "learners/best_response.py"],
    "tensorboard": ["league/board.py"],
    "torch.utils.tensorboard": ["league/board.py"],
    "pettingzoo": ["games/pettingzoo.py"],
    "gymnasium": ["games/pettingzoo.py"],
    "textarena": ["games/textarena.py"],
    "openskill": ["league/ratings.py"],
    "rich": ["league/progress.py", "league/cli.py", "league/commands"],
    "argparse": ["league/cli.py", "league/commands"],
    "torch": ["arena", "learners", "league"],
    "peft": ["arena/adapters.py"],
    "bitsandbytes": ["learners/optimizers.py"],
    "transformers": [
        "arena/adapters.py",
        "arena/checkpointing.py",
        "arena/lm.py",
        "arena/prefix_attention.py",
        "arena/steps.py",
        "arena/wording.py",
        "arena/zero_adapter.py",
        "learners",
    ],
}


def imported(path):
    """Yield every absolute module name that a file imports, at any depth."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here, so that their direction can be read"
            yield f"{node.module}"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


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
    names = {"pickle", "cPickle", "dill", "marshal", "shelve"}
    users = [str(path) for path in FILES if names & {name.split(".")[0] for name in imported(path)}]
    assert users == []
