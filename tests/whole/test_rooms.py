"""The house: wings and rooms in one direction, no circles, rooms that say what is in them, and its counts.

The counts are signs, not aims. What they do not fit stands in ``EXCEPTIONS``, with its reason, and nothing else does;
``python -m benchmarks.report.house`` prints them all.
"""

import ast
import re
from collections import Counter

import pytest
from support.source import FILES, PACKAGES, ROOT, import_graph

from benchmarks.report import wings
from benchmarks.report.house import read, share_of_heads

# By package its rooms and the files at its root, from the ground up: none imports a later one of the same package.
ORDER = {
    "games": (
        *("common", "abilities", "spec", "openspiel", "native", "talk", "tasks", "wrappers", "outside"),
        *("registry", "pettingzoo", "conformance"),
    ),
    "arena": (
        "errors",
        "records",
        "packed",
        "probes",
        "flops",
        "roofline",
        "lm",
        "remote",
        "cluster",
        "ROOT",
        "samplers",
        "serving",
        "programs",
    ),
    "roles": ("slots", "ROOT"),
    "learners": ("ROOT", "advantages", "selection", "values", "record_store", "parallel", "losses", "update", "rllib"),
    # the six wings
    "league": ("theory", "config", "population", "training", "lab", "cli"),
    # and the rooms of each
    "league.theory": (
        *("statistics", "confidence_sequence", "cycles", "solvers", "exact", "public", "meta_solvers", "diversity"),
        *("beliefs", "bayes_accuracy"),
    ),
    "league.population": (*("results", "storage", "models", "matchmaking", "players", "distillation", "evaluation"),),
    "league.training": (
        *("sizing", "monitors", "starts", "checkpoints", "interfaces", "snapshots", "evidence", "learning", "board"),
        *("backends", "loop"),
    ),
    "league.lab": (
        *("attacks", "breeding", "opponents", "credit", "latent", "standings", "comparisons", "reports", "audit"),
        *("look", "sweeps"),
    ),
}
# Beyond the order: these import nothing of those.
APART = {
    "arena.lm": ("arena.records",),
    "learners.rllib": ("learners.advantages", "learners.losses", "learners.update"),
    "league.theory": ("torch", "arena", "learners", "roles"),
}
MOST_ROOMS = 11  # of a wing: the lab has one for each kind of question
# What the counts do not fit, by count and place, with the reason. One line each, sorted; what fits may not stand here.
EXCEPTIONS = {
    ("loop", "evolve.py: exploiters"): "evolving adds policies: new ones get weights",
    ("loop", "evolve.py: imitation"): "a generation may imitate the last one's play",
    ("loop", "evolve.py: teacher"): "a teacher may be named by what is bred",
    ("loop", "loop.py: async_learners"): "a stream of matches takes the place of rounds",
    ("loop", "loop.py: distil"): "a distilled snapshot is due by iteration",
    ("loop", "loop.py: exploiters"): "an exploiter is frozen and reset by iteration",
    ("loop", "loop.py: shaping"): "paid between play and learning",
    ("loop", "loop.py: starts"): "the pool is drawn from and recorded in each iteration",
    ("loop", "readiness.py: cluster"): "what a cluster cannot play is refused before a run has a folder",
    ("loop", "readiness.py: curriculum"): "its control is a player, who is looked for before a run has a folder",
    ("loop", "recovery.py: starts"): "the pool is restored with the run",
    ("loop", "session.py: cluster"): "a session connects to it",
    ("loop", "session.py: curriculum"): "its control is loaded once",
    ("loop", "session.py: imitation"): "matches to imitate are read once",
    ("loop", "session.py: programs"): "a session listens for them",
    ("loop", "session.py: starts"): "a pool begins with the run",
    ("loop", "session.py: teacher"): "teachers are loaded once",
    ("loop", "stream.py: async_learners"): "its settings are those of a stream",
    ("parameters", "league/cli/python/sweeps.py:sweep"): "public, and each is one option of the command",
    ("parameters", "league/lab/sweeps/side_by_side.py:_SideBySide.__init__"): "as run_side_by_side, which it serves",
    ("parameters", "league/lab/sweeps/side_by_side.py:run_side_by_side"): "what a sweep's processes need to know",
    ("parameters", "league/population/storage/population.py:Population.add"): "all that a snapshot's card says",
    ("parameters", "learners/batching.py:pack"): "all that a batch needs",
    ("parameters", "learners/losses/batch_loss.py:BatchLoss.__init__"): "all that a loss needs, until terms own theirs",
    ("parameters", "learners/update/imitation.py:cold_start"): "its settings one by one, for callers without a run",
    ("parameters", "learners/update/policy.py:Policy.__init__"): "what a policy keeps beside its weights",
    ("parameters", "roles/cards.py:with_overrides"): "each is a key of the table [roles]",
    ("short", "arena/event_loop.py"): "the loop that asynchronous engines share",
    ("short", "arena/lm/decoding/mixed_adapters.py"): "one way to decode: several adapters in one pass",
    ("short", "arena/lm/finite.py"): "one refusal, which play and learning share",
    ("short", "arena/match_rng.py"): "one stream of seeds",
    ("short", "arena/packed.py"): "one format, which arena and learners pack their records in",
    ("short", "arena/remote/secret.py"): "the key of a server stands in one file that can be read whole",
    ("short", "arena/remote/usage.py"): "a record that interfaces and commands share",
    ("short", "arena/samplers/trie_sampling.py"): "one step that engines share",
    ("short", "arena/samplers/vllm_worker.py"): "runs in vLLM's own process",
    ("short", "arena/samplers/weight_lock.py"): "two processes share it",
    ("short", "games/aliases.py"): "names alone: the registry and what is below it both read them",
    ("short", "games/common/errors.py"): "what every file may raise",
    ("short", "games/common/limits.py"): "numbers alone, which commands read before anything slow is imported",
    ("short", "games/common/sealed_json.py"): "one format of file",
    ("short", "games/common/section.py"): "what every table of settings is made of",
    ("short", "games/common/seeds.py"): "one formula, which everything that draws shares",
    ("short", "games/common/text.py"): "makes text from outside harmless for a terminal, wherever it is shown",
    ("short", "games/families.py"): "stands above the registry, which aliases and names stand below",
    ("short", "games/openspiel/enumeration.py"): "one walk, over OpenSpiel's states and ours",
    ("short", "games/openspiel/sheriff.py"): "one game",
    ("short", "games/outside/as_played.py"): "reads a game's facts and imports nothing of its library",
    ("short", "games/outside/private_random.py"): "both libraries' games share it",
    ("short", "league/__main__.py"): "what `python -m league` runs",
    ("short", "league/config/context.py"): "what all parts of a run share, derived once",
    ("short", "league/config/names.py"): "the types of fields that choose an entry, one a family",
    ("short", "league/lab/audit/page.py"): "the page, beside what it shows",
    ("short", "league/lab/credit/fidelity.py"): "one measure of credit",
    ("short", "league/lab/credit/learned.py"): "estimators as credit rules, beside exact and sampled ones",
    ("short", "league/lab/latent/folder.py"): "the files of LSPO, beside its maths",
    ("short", "league/lab/look/page.py"): "the page and its policies, beside the answers",
    ("short", "league/lab/look/population.py"): "one subject of the page",
    ("short", "league/lab/opponents/questions.py"): "what is asked, beside who predicts it",
    ("short", "league/lab/standings/exact_standings.py"): "exact values, beside what matches say",
    ("short", "league/lab/sweeps/questions.py"): "what is asked of each run of a sweep",
    ("short", "league/lab/sweeps/table.py"): "what a sweep prints",
    ("short", "league/lab/sweeps/whole.py"): "the one entrance: here, side by side, or on a cluster",
    ("short", "league/population/models/catalogue.py"): "data: the models that can be fetched",
    ("short", "league/population/models/example_requests.py"): "what a model card shows",
    ("short", "league/population/models/merged.py"): "PEFT, which is slow to import, in one file",
    ("short", "league/population/players/believer.py"): "one kind of player",
    ("short", "league/population/results/judges.py"): "one measure: judges' verdicts beside the truth",
    ("short", "league/population/storage/full_disk.py"): "one kind of error, of all libraries",
    ("short", "league/population/storage/members.py"): "records that matchmaking and training share",
    ("short", "league/theory/exact/least_exploitable.py"): "one solver",
    ("short", "league/theory/exact/regret.py"): "both exact regrets, from one paper",
    ("short", "league/theory/public/seat_arrays.py"): "the table of kinds of games, which imports them all",
    ("short", "league/training/loop/interrupt.py"): "Ctrl-C in one file",
    ("short", "league/training/loop/readiness.py"): "what is refused before a run has a folder",
    ("short", "league/training/sizing/cards.py"): "how a run divides cards, for the plan and for what mends it",
    ("short", "league/training/starts/frontier.py"): "one measure of the pool",
    ("short", "league/training/starts/gallery.py"): "one measure of the pool",
    ("short", "learners/influence.py"): "one formula, which evidence and lab share",
    ("short", "learners/keys.py"): "names of keys in saved state",
    ("short", "learners/losses/distributions.py"): "formulas, which all losses share",
    ("short", "learners/losses/frozen_results.py"): "one cache",
    ("short", "learners/losses/given_rows.py"): "rows of terms, which are read without torch",
    ("short", "learners/losses/kl_estimators.py"): "a family's entries, which a configuration reads without torch",
    ("short", "learners/losses/listening.py"): "one entry of the registry",
    ("short", "learners/losses/whole_trajectories.py"): "rows of terms, which are read without torch",
    ("short", "learners/metric_sums.py"): "what updates and processes add up",
    ("short", "learners/rewards.py"): "the names of rewards that rules weigh",
    ("short", "learners/update/average.py"): "one part of a policy",
    ("short", "learners/update/master_weights.py"): "one part of a policy",
    ("short", "learners/update/optimizers.py"): "bitsandbytes in one file",
    ("short", "roles/tools.py"): "one subject, pure",
    ("short", "roles/truncation.py"): "a record that arena, learners and roles share",
    ("short", "roles/wording.py"): "one subject, pure",
}
LONGEST_FILE, SHORTEST_FILE, LONGEST_FUNCTION, MOST_PARAMETERS = 600, 60, 59, 7  # lines; without self
LARGEST_HEADS = 0.12  # share of docstrings at the top and imports, of a wing's lines
# Wings whose files are still too short for that: they may have no more than today. Lower it with them.
HEADS_TODAY = {
    "games": 0.16,
    "league/cli": 0.14,
    "league/lab": 0.18,
    "league/population": 0.17,
    "league/theory": 0.20,
    "league/training": 0.18,
    "learners": 0.22,
    "roles": 0.19,  # a rule for slots is a file
}
# Folders of entries: a file is one thing that a name chooses, such as a game, a rule or a command, or what those share.
ENTRIES = (
    *("games/native", "games/tasks", "games/wrappers", "learners/advantages", "league/cli"),
    *(
        "learners/selection",
        "learners/values",
        "league/theory/solvers",
        "league/population/matchmaking",
        "league/training/evidence",
    ),
    *("league/training/board/figures", "league/training/board/observers", "roles/slots"),
)
# Tables of a run's configuration that are off where nobody sets them; the loop should not know them.
OFF_BY_DEFAULT = (
    *("async_learners", "beliefs", "branching", "cluster", "curriculum", "descent", "distil", "exploiters"),
    *("imitation", "latent", "prediction", "programs", "shaping", "starts", "teacher"),
)
SOURCES = read(ROOT)
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


def test_the_drawing_of_the_wings_is_what_the_imports_draw():
    stored = wings.DRAWING.read_text(encoding="utf-8")
    assert stored == wings.draw(ROOT), "run: python -m benchmarks.report.wings"


def test_a_drawing_leaves_out_what_follows_and_stands_on_floors():
    imports = {"cli": {"lab", "theory", "games"}, "lab": {"theory", "games"}, "theory": {"games"}, "games": set()}
    assert wings.without_shortcuts(imports) == {"cli": {"lab"}, "lab": {"theory"}, "theory": {"games"}, "games": set()}
    assert wings.floors_from_above(imports) == [["cli"], ["lab"], ["theory"], ["games"]]
    with pytest.raises(ValueError, match="circle: cli, lab"):
        wings.floors_from_above({"cli": {"lab"}, "lab": {"cli"}})


def test_a_public_class_has_its_name_for_itself():
    """Apart from ``Settings``, which every credit rule calls its own table."""
    names = Counter(
        node.name
        for path in FILES
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name != "Settings"
    )
    assert [name for name, times in names.items() if times > 1] == []


def beyond(count):
    """Return what a count does not fit, by its name in ``EXCEPTIONS``."""
    functions = [function for source in SOURCES for function in source.functions]
    return {
        "loop": features_in_the_loop,
        "long": lambda: [source.path for source in SOURCES if source.lines > LONGEST_FILE],
        "function": lambda: [function.name for function in functions if function.lines > LONGEST_FUNCTION],
        "parameters": lambda: [function.name for function in functions if function.parameters > MOST_PARAMETERS],
        "short": lambda: [source.path for source in SOURCES if too_short(source)],
    }[count]()


def too_short(source):
    is_entry = source.parts[-1] == "__init__" or source.path.startswith(tuple(f"{folder}/" for folder in ENTRIES))
    return source.lines < SHORTEST_FILE and not is_entry


def features_in_the_loop():
    """Return "file: feature" for each feature that is off by default and that names in a file of the loop speak of."""
    found = []
    for source in SOURCES:
        if source.path.startswith("league/training/loop/"):
            words = " ".join(f"_{name.lower()}_" for name in names_in(source.tree))
            found += [f"{source.parts[-1]}.py: {name}" for name in OFF_BY_DEFAULT if f"_{name}_" in words]
    return found


def names_in(tree):
    """Yield the names that a file uses, defines, or imports; words of texts and comments are none."""
    for node in ast.walk(tree):
        for key in ("id", "attr", "arg", "name"):
            if isinstance(name := getattr(node, key, None), str):
                yield from re.split(r"\W", name)
        if isinstance(node, ast.ImportFrom):
            yield from node.module.split(".")


@pytest.mark.parametrize("count", ["function", "long", "loop", "parameters", "short"])
def test_what_does_not_fit_a_count_is_an_exception_with_a_reason(count):
    allowed = {place for kind, place in EXCEPTIONS if kind == count}
    found = set(beyond(count))
    assert sorted(found - allowed) == [], f"{count}: make it fit, or say in EXCEPTIONS why it should not"
    assert sorted(allowed - found) == [], f"{count}: these fit now. Take them out of EXCEPTIONS"


def test_exceptions_are_sorted_and_have_reasons():
    """One line each in one order, so that two branches that change the table can be merged."""
    assert list(EXCEPTIONS) == sorted(EXCEPTIONS)
    assert [place for place, reason in EXCEPTIONS.items() if len(reason.split()) < 2] == []


def test_folders_of_entries_are_there_and_need_to_be_named():
    """A folder none of whose files is short has nothing to be excused."""
    short = [source.path for source in SOURCES if source.lines < SHORTEST_FILE and source.parts[-1] != "__init__"]
    assert [folder for folder in ENTRIES if not any(path.startswith(f"{folder}/") for path in short)] == []


@pytest.mark.parametrize("wing", [*PACKAGES[:-1], *(f"league/{wing}" for wing in ORDER["league"])])
def test_heads_are_a_small_part_of_a_wing(wing):
    share = share_of_heads([source for source in SOURCES if source.path.startswith(f"{wing}/")])
    assert share <= HEADS_TODAY.get(wing, LARGEST_HEADS)
    if wing in HEADS_TODAY:
        assert share > LARGEST_HEADS, f"{wing} fits now. Take it out of HEADS_TODAY"
