"""Nobody asks which entry of a family it is: an entry is known by name to its own file and to its family's alone."""

import ast
import re
import sys
from pathlib import Path

import pytest
from support.source import FILES, ROOT

from games.common.registry import HOMES, families
from league.config.plugins import own_tables
from learners.advantages import RULES

RULES_FOLDER = ROOT / "learners" / "advantages"
NAME = re.compile(rf"(?<![\w/])({'|'.join(sorted(RULES, key=len, reverse=True))})(?!\w)")

# Words that are also rules' names, where they mean something else: a surrogate, a measure with its command, what starts
# are weighed by, what is measured of snapshots, a suite.
OTHERWISE = {
    "reinforce": ["learners/losses/__init__.py"],
    "regret": [
        *("league/cli/commands.py", "league/cli/measuring/regret.py"),
        *("league/config/matchmaking.py", "league/training/snapshots/evaluations.py"),
    ],
    "mars": ["league/config/checks/config.py"],
}


def strings(path):
    """Yield the string literals of a file, and the last parts of the modules that it imports.

    Docstrings are left out, and a command's examples.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    examples = [node for node in assigned if ast.unparse(node.targets[0]) == "EXAMPLES"]
    alone |= {id(part) for node in examples for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("learners.advantages"):
            yield from (node.module.rsplit(".", 1)[-1], *(alias.name for alias in node.names))


def test_no_rule_is_named_outside_its_file():
    found = [
        (str(path.relative_to(ROOT)), name)
        for path in FILES
        if RULES_FOLDER not in path.parents
        for text in strings(path)
        for name in NAME.findall(text)
    ]
    assert [(path, name) for path, name in found if path not in OTHERWISE.get(name, [])] == []


def test_no_rule_is_named_in_anothers_file_but_for_what_it_shares():
    """``matpo`` uses functions of ``grpo.py``, but nobody asks which rule it is."""
    for path in sorted(RULES_FOLDER.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        compared = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
        literals = [part.value for node in compared for part in ast.walk(node) if isinstance(part, ast.Constant)]
        assert not set(literals) & set(RULES), path.name


def test_every_rule_has_a_file_of_its_name_that_ends_in_it():
    for name, rule in RULES.items():
        last = ast.parse((RULES_FOLDER / f"{name}.py").read_text(encoding="utf-8")).body[-1]
        assert isinstance(last, ast.Assign), name
        assert [target.id for target in last.targets] == ["RULE"], name
        assert rule.make.__module__ == f"learners.advantages.{name}"


# Names that are also words: by name, where one is compared and no entry is meant.
ALSO_WORDS = {
    "refused": ["league/training/learning/learner_pool.py"],  # what a learner's process says of its run
    "partner": ["league/lab/attacks/curve.py"],  # a kind of attack: a hostile partner
    "forward": ["arena/lm/tensors.py"],  # a method of PyTorch's modules
    "replies": ["league/training/evidence/predicted.py"],  # what is predicted: the others' replies, or tools'
    "matches": ["league/training/monitors/live_view.py"],  # a column
    "mixture": [  # RUN@mixture
        *("league/cli/training/distil.py", "league/population/players/fixed.py"),
        *("league/population/storage/run_dir.py", "league/cli/playing/serve.py"),
        "league/population/players/player.py",
    ],
    "gap": ["league/training/learning/iteration.py", "league/training/learning/learner.py"],  # a metric
}


def test_words_that_name_no_entry_are_still_compared_where_they_are_said_to_be():
    assert [
        f"{place}: {name}"
        for name, places in ALSO_WORDS.items()
        for place in places
        if name not in COMPARED[ROOT / place]
    ] == []


def compared(tree):
    """Yield the strings that a file compares something with, alone or in a tuple, a list or a set, and matches."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            sides = [node.value]
        else:
            continue
        for side in sides:
            for part in side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else [side]:
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


def files_of(family):
    """Return the files that may name a family's entries: the family's, and those that the entries are made in."""
    modules = {HOMES[family.family], *(getattr(entry.make, "__module__", "") for entry in family.values())}
    return {Path(sys.modules[name].__file__) for name in modules if name in sys.modules}


def test_what_is_compared_is_read():
    code = "a == 'x'\nif b in ('y', 'z'): pass\nmatch c:\n    case 'w': pass\nf('v')"
    assert sorted(compared(ast.parse(code))) == ["w", "x", "y", "z"]


COMPARED = {path: set(compared(ast.parse(path.read_text(encoding="utf-8")))) for path in FILES}


@pytest.mark.parametrize("family", families(), ids=lambda family: family.family)
def test_no_entry_is_compared_by_name(family):
    own = files_of(family)
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, names in COMPARED.items()
        if path not in own
        for name in names & family.keys()
        if str(path.relative_to(ROOT)) not in ALSO_WORDS.get(name, [])
        # A word may name entries of two families; then the file may be the other's.
        and not any(path in files_of(other) for other in families() if name in other)
    ]
    assert found == []


def test_families_that_a_setting_chooses_from_are_there_and_have_what_they_say():
    assert set(own_tables()) <= {family.family for family in families()}
    assert {
        "credit",
        "matchmaking",
        "league_roles",
        "meta_solvers",
        "starts",
        "branching",
        "breeding",
        "engines",
    } <= set(own_tables())
    for family in families():
        for name, entry in family.items():
            assert isinstance(entry, family.kind), f"{family.family}: {name}"
