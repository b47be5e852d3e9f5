"""The house: wings and rooms in one direction, no circles, and rooms that say what is in them."""

import ast
from collections import Counter

import pytest
from support.source import FILES, PACKAGES, ROOT, import_graph

# By package its rooms and the files at its root, from the ground up: none imports a later one of the same package.
ORDER = {
    "games": (
        *("common", "abilities", "spec", "openspiel", "native", "talk", "tasks", "wrappers", "outside"),
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
    # the six wings
    "league": ("theory", "config", "population", "training", "lab", "cli"),
    # and the rooms of each
    "league.theory": (
        *("statistics", "confidence_sequence", "cycles", "solvers", "exact", "meta_solvers", "diversity"),
        *("beliefs", "bayes_accuracy"),
    ),
    "league.population": (*("results", "storage", "models", "matchmaking", "players", "distillation", "evaluation"),),
    "league.training": (
        *("monitors", "starts", "checkpoints", "interfaces", "snapshots", "evidence", "learning", "board"),
        *("backends", "loop"),
    ),
    "league.lab": (
        *("attacks", "breeding", "opponents", "credit", "latent", "standings", "comparisons", "reports", "sweeps"),
    ),
}
# Beyond the order: these import nothing of those.
APART = {
    "arena.lm": ("arena.records",),
    "learners.rllib": ("learners.advantages", "learners.losses", "learners.update"),
    "league.theory": ("torch", "arena", "learners", "roles"),
}
MOST_ROOMS = 10  # of a wing
GRAPH = import_graph()
ROOMS = sorted({path.parent for path in FILES})
OTHER_ROOMS = sorted(
    {path.parent for folder in ("benchmarks", "tests/support") for path in (ROOT / folder).rglob("*.py")}
)


def room_of(module, place):
    """Return where a module stands in the order of a package or wing; None if it is no part of that."""
    if not module.startswith(f"{place}."):
        return None
    order, room = ORDER[place], module.removeprefix(f"{place}.").split(".")[0]
    if room in order:
        return order.index(room)
    return order.index("ROOT") if "ROOT" in order else None


@pytest.mark.parametrize("place", ORDER)
def test_no_room_imports_a_later_one(place):
    assert [
        f"{module} imports {other}"
        for module, others in GRAPH.items()
        for other in others
        if None not in (own := room_of(module, place), its := room_of(other, place)) and its > own
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
    names = ["/".join(path.relative_to(ROOT).parts[:-1]) for path in FILES]
    rooms = {tuple(name.split("/")[:2]) for name in names if "/" in name}
    assert [f"{package}/{room}" for package, room in sorted(rooms) if room not in ORDER.get(package, ())] == []
    within = {tuple(name.split("/")[:3]) for name in names if name.count("/") > 1}
    wings = [tuple(wing.split(".")) for wing in ORDER if "." in wing]
    strangers = [room for room in sorted(within) if room[:2] in wings and room[2] not in ORDER[".".join(room[:2])]]
    assert strangers == []


@pytest.mark.parametrize("wing", ORDER["league"])
def test_a_wing_has_few_rooms(wing):
    folders = [path for path in (ROOT / "league" / wing).iterdir() if (path / "__init__.py").exists()]
    assert len(folders) <= MOST_ROOMS


def test_no_files_import_each_other_in_a_circle():
    left = dict(GRAPH)
    while free := [module for module, others in left.items() if not others & left.keys()]:
        for module in free:
            del left[module]
    assert sorted(left) == []


@pytest.mark.parametrize("room", [*ROOMS, *OTHER_ROOMS], ids=lambda room: str(room.relative_to(ROOT)))
def test_a_room_says_what_is_in_it(room):
    name = str(room.relative_to(ROOT))
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
