"""A credit rule is known by name to its own file and to the table of rules alone."""

import ast
import re

from support.source import FILES, ROOT

from learners.advantages import RULES

RULES_FOLDER = ROOT / "learners" / "advantages"
NAME = re.compile(rf"(?<![\w/])({'|'.join(sorted(RULES, key=len, reverse=True))})(?!\w)")

# Words that are also rules' names, where they mean something else: a surrogate, a measure with its command, what starts
# are weighed by, a suite.
OTHERWISE = {
    "reinforce": ["learners/losses/__init__.py"],
    "regret": [
        *("league/cli/commands.py", "league/cli/measuring/regret.py"),
        "league/config/matchmaking.py",
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
