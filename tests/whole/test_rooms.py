"""A room is a folder of one subject: few files, an __init__ that says what is in it, and imports in one direction."""

import ast
from collections import Counter

import pytest
from support.source import FILES, PACKAGES, ROOT, import_graph

MOST_FILES = 13
ONE_RULE_A_FILE = ("learners/advantages",)  # as many files as there are rules

# By package its rooms and the files at its root, from the ground up: none imports a later one of the same package.
ORDER = {
    "games": (
        *("common", "spec", "openspiel", "native", "talk", "tasks", "wrappers", "outside"),
        *("registry", "pettingzoo", "conformance"),
    ),
    "arena": (
        "errors",
        "records",
        "probes",
        "flops",
        "lm",
        "remote",
        "cluster",
        "ROOT",
        "samplers",
        "serving",
        "programs",
    ),
    "learners": ("ROOT", "advantages", "values", "record_store", "parallel", "losses", "update", "rllib"),
    "league": (
        "suites",
        "config",
        "meta_solvers",
        "results",
        "starts",
        "exact",
        "opponents",
        "storage",
        "models",
        "monitors",
        "matchmaking",
        "players",
        "learning",
        "evaluation",
        "attacks",
        "credit",
        "contests",
        "distillation",
        "latent",
        "standings",
        "reports",
        "backends",
        "run",
        "descent",
        "sweeps",
        "commands",
        "api",
        "cli",
    ),
}
# Beyond the order: these import nothing of those.
APART = {
    "arena.lm": ("arena.records",),
    "learners.rllib": ("learners.advantages", "learners.losses", "learners.update"),
}
GRAPH = import_graph()
ROOMS = sorted({path.parent for path in FILES})
OTHER_ROOMS = sorted(
    {path.parent for folder in ("benchmarks", "tests/support") for path in (ROOT / folder).rglob("*.py")}
)


def room_of(module):
    """Return where a module stands in its package's order."""
    package, *rest = module.split(".")
    order = ORDER[package]
    if rest and rest[0] in order:
        return order.index(rest[0])
    return order.index("ROOT") if "ROOT" in order else None


@pytest.mark.parametrize("package", ORDER)
def test_no_room_imports_a_later_one(package):
    assert [
        f"{module} imports {other}"
        for module, others in GRAPH.items()
        for other in others
        if module.startswith(f"{package}.") and other.startswith(f"{package}.")
        if None not in (room_of(module), room_of(other)) and room_of(other) > room_of(module)
    ] == []


@pytest.mark.parametrize("room", APART)
def test_a_room_that_stands_apart_imports_nothing_of_others(room):
    strangers = [
        f"{module} imports {other}"
        for module, others in GRAPH.items()
        for other in others
        if module.startswith(f"{room}.") and other.startswith(APART[room])
    ]
    assert strangers == []


def test_every_room_has_a_place_in_the_order():
    rooms = {path.relative_to(ROOT).parts[:2] for path in FILES if len(path.relative_to(ROOT).parts) > 2}
    assert [f"{package}/{room}" for package, room in sorted(rooms) if room not in ORDER.get(package, ())] == []


def test_no_files_import_each_other_in_a_circle():
    left = dict(GRAPH)
    while free := [module for module, others in left.items() if not others & left.keys()]:
        for module in free:
            del left[module]
    assert sorted(left) == []


@pytest.mark.parametrize("room", [*ROOMS, *OTHER_ROOMS], ids=lambda room: str(room.relative_to(ROOT)))
def test_a_room_has_few_files_and_says_what_is_in_it(room):
    name = str(room.relative_to(ROOT))
    files = [path for path in room.glob("*.py") if path.name != "__init__.py"]
    assert len(files) <= MOST_FILES or name in ONE_RULE_A_FILE
    init = room / "__init__.py"
    assert init.exists(), f"{name} is no package"
    text = ast.get_docstring(ast.parse(init.read_text(encoding="utf-8")))
    assert text, f"{name}/__init__.py does not say what is in it"
    if name not in PACKAGES and not name.startswith("tests"):
        assert "ay import" in text, f"{name}/__init__.py does not say what it may import"


def test_a_public_class_has_its_name_for_itself():
    """Apart from ``Settings``, which every credit rule calls its own table."""
    names = Counter(
        node.name
        for path in FILES
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name != "Settings"
    )
    assert [name for name, times in names.items() if times > 1] == []
