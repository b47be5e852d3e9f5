"""The pages of ``docs/reference`` that are read off the code: ``python -m benchmarks.report.reference`` writes them.

A test fails where one is older than the code.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.report.provenance import ROOT
from games.common.files import atomic_write
from games.common.registry import Entry
from league.cli.commands import GROUPS, TITLES, find, written
from league.cli.showing.settings import Setting, of_presets
from league.cli.showing.settings import run as all_settings
from learners.advantages import RULES
from learners.losses import AUXILIARY, LOSSES
from learners.values import ESTIMATORS

FOLDER = ROOT / "docs" / "reference"
MOST_NAMES = 7  # that a setting takes, to be listed in the table
ARXIV = re.compile(r"arXiv (\d{4}\.\d{4,5})")


def credit_rules() -> str:
    """Return the page of credit rules: formula, needs and settings of each."""
    head = """# Credit rules

`credit.rule` names one for all roles, `credit.rules."GAME/ROLE"` one for a role; a rule's settings stand in the table
of its name. [Credit](../guide/credit.md) says how to choose. Below, r_k is the reward of turn k and R the return of the
match, in units in which every game spans 2 (`credit.scale_returns`). Means and standard deviations are those of the
whole set (ddof = 0), epsilon is 1e-6, and where all are equal the advantages are exactly zero. A group is what one role
made of one start: the same game, deal, role and seat, policy, and players in the other seats.
"""
    return _page(head, ((name, rule, f"credit.{name}") for name, rule in RULES.items()))


def estimators() -> str:
    """Return the page of value estimators."""
    head = """# Estimators of turn values

The rules `gae_turn` and `contribution` ask what a turn is worth. `values.estimator` names who says so,
`values.estimators."GAME/ROLE"` for a single role ([credit](../guide/credit.md#turn-values)).
"""
    return _page(head, ((name, entry, f"values.{name}") for name, entry in ESTIMATORS.items()))


def losses() -> str:
    """Return the page of losses: surrogates, and what is added to one."""
    head = """# Losses

`objective.name` chooses a surrogate; an auxiliary loss is added where it has a weight.
[The learner](../guide/learner.md#the-update) tells what is added to every surrogate, and what a token weighs.
"""
    named = [*((name, term, "objective") for name, term in LOSSES.items()), *((n, t, n) for n, t in AUXILIARY.items())]
    return _page(head, named)


def settings() -> str:
    """Return the page of the settings that presets set."""
    every = all_settings(argparse.Namespace(word="", all=True))
    lines = [
        "# Settings",
        "",
        "What presets set, by table. "
        f"`league show settings --all` prints all {len(every)} with what each takes, `league show settings WORD` those "
        "with a word in their meaning.",
    ]
    shown = of_presets(every)
    for table in dict.fromkeys(_table_of(setting) for setting in shown):
        own = [setting for setting in shown if _table_of(setting) == table]
        lines += ["", f"## {table or 'A run'}", ""]
        lines += [_item(s.name, _default(s), s.meaning.partition(";")[0] + _names(s)) for s in own]
    return "\n".join(lines) + "\n"


def commands() -> str:
    """Return the page of commands, with an example of each."""
    lines = [
        "# Commands",
        "",
        "A command's `--help` has every option, and more examples. With `--json` it prints one JSON document.",
    ]
    for group, own in GROUPS.items():
        lines += ["", f"## {TITLES[group]}", ""]
        for name, sentence in own.items():
            example = f"league {written(name)} {find(name).EXAMPLES[0]}".strip()
            lines.append(f"- `{example}`: {sentence}.")
    return "\n".join(lines) + "\n"


PAGES: Mapping[str, Callable[[], str]] = {
    "credit_rules": credit_rules,
    "estimators": estimators,
    "losses": losses,
    "settings": settings,
    "commands": commands,
}


def _page(head: str, entries: Iterable[tuple[str, Entry[Any], str]]) -> str:
    files: dict[str, list[tuple[str, Entry[Any], str]]] = {}
    for found in entries:
        if not _module_of(found[1]).startswith("learners."):
            continue  # a plugin's
        files.setdefault(_module_of(found[1]), []).append(found)
    return "\n".join([head, *(line for alike in files.values() for line in _section(alike))])


def _section(alike: Sequence[tuple[str, Entry[Any], str]]) -> Iterator[str]:
    """Yield the lines of the entries of one file: its docstring, and their settings, which they share."""
    _, entry, table = alike[0]
    yield f"## {', '.join(name for name, _, _ in alike)}\n"
    yield _as_markdown(inspect.cleandoc(sys.modules[_module_of(entry)].__doc__ or ""))
    if needs := sorted(str(getattr(need, "value", need)) for need in entry.needs):
        yield f"\nNeeds: {', '.join(needs)}."
    fields = entry.settings.model_fields if entry.settings is not None else {}
    if fields:
        yield ""
    for key, field in fields.items():
        default = field.get_default(call_default_factory=True)
        yield _item(f"{table}.{key}", f"`{default}`", field.description or "")
    yield ""


def _module_of(entry: Entry[Any]) -> str:
    made: Any = entry.make
    return str(getattr(made, "func", made).__module__)


def _as_markdown(text: str) -> str:
    """Return a docstring as Markdown: formulas, which are indented in it, as blocks, and links to papers."""
    parts = re.split(r"((?:^ {4,}\S.*\n?)+)", text.replace("``", "`"), flags=re.M)
    blocks = [f"```text\n{inspect.cleandoc(block)}\n```\n" for block in parts[1::2]]
    prose = [ARXIV.sub(r"[arXiv \1](https://arxiv.org/abs/\1)", part) for part in parts[::2]]
    return "".join(part for pair in zip(prose, [*blocks, ""], strict=True) for part in pair)


def _table_of(setting: Setting) -> str:
    table = setting.name.rpartition(".")[0]
    return table if table.startswith(("games", "policies", "roles")) else table.partition(".")[0]


def _names(setting: Setting) -> str:
    """Return what a setting chooses from, in brackets, unless its meaning has it: `` (zero, batch)``."""
    names = setting.kind.removesuffix(" or none").split(" | ")
    told = len(names) == 1 or len(names) > MOST_NAMES or all(name in setting.meaning for name in names)
    return "" if told or names == ["true", "false"] else f" ({', '.join(names)})"


def _default(setting: Setting) -> str:
    return "required" if setting.required else "none" if setting.default is None else f"`{setting.default}`"


def _item(name: str, default: str, meaning: str) -> str:
    """Return a setting as one line of a list, with the value that it has if nobody sets it."""
    return f"- `{name}` ({default}): {meaning}"


def main() -> None:
    """Write the pages."""
    for name, page in PAGES.items():
        atomic_write(FOLDER / f"{name}.md", page())


if __name__ == "__main__":
    main()
