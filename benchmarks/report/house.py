"""The shape of the source, counted: ``python -m benchmarks.report.house [CHECKOUT]`` prints it as Markdown.

Files, lines and heads by package and wing; the arrows and floors between the folders of ``league``; functions that are
long or take many parameters. Any checkout can be counted, an older one too: nothing in it is imported or run.
``tests/whole/test_rooms.py`` holds the bounds on the same figures.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

PACKAGES = ("games", "roles", "arena", "learners", "league")
LONGEST_FUNCTION, MOST_PARAMETERS = 60, 8  # a function is counted from these lines and parameters on
Graph = Mapping[str, AbstractSet[str]]  # what each module, or folder, imports


class Function(NamedTuple):
    """One function or method."""

    name: str  # "package/file.py:Class.function"
    lines: int  # from ``def`` to its last line
    parameters: int  # without self or cls


class Source:
    """One file, parsed."""

    def __init__(self, root: Path, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        self.path = path.relative_to(root).as_posix()
        self.parts = path.relative_to(root).with_suffix("").parts
        self.lines = len(text.splitlines())
        self.tree = ast.parse(text)

    @property
    def module(self) -> str:
        """The module's name; an ``__init__.py`` has its package's."""
        return ".".join(self.parts[:-1] if self.parts[-1] == "__init__" else self.parts)

    @property
    def place(self) -> str:
        """The package, and of ``league`` the folder in it: a wing today, a room before there were wings."""
        return "/".join(self.parts[: 2 if self.parts[0] == "league" and len(self.parts) > 2 else 1])

    @property
    def doc(self) -> str:
        """The docstring of the file; "" for none."""
        return ast.get_docstring(self.tree) or ""

    @cached_property
    def head(self) -> int:
        """The lines of the docstring and the imports, with the blank lines among them."""
        last = 0
        for node in self.tree.body:
            if not (_is_import(node) or (node is self.tree.body[0] and _is_text(node)) or _is_import_for_types(node)):
                break
            last = node.end_lineno or 0
        return last

    @cached_property
    def functions(self) -> list[Function]:
        """All functions and methods, in their order."""
        return list(self._functions(self.tree.body, ""))

    def _functions(self, body: list[ast.stmt], within: str) -> Iterator[Function]:
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from self._functions(node.body, f"{within}{node.name}.")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                taken += [extra for extra in (node.args.vararg, node.args.kwarg) if extra]
                own = sum(argument.arg not in ("self", "cls") for argument in taken)
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                yield Function(f"{self.path}:{within}{node.name}", lines, own)
                yield from self._functions(node.body, f"{within}{node.name}.")

    def imports(self) -> Iterator[str]:
        """Yield every module that is imported, at any depth, and what is taken from it as if it were one."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def read(root: Path) -> list[Source]:
    """Return the files of the packages, in their order. Raises FileNotFoundError for a folder that is not a
    checkout.
    """
    if not all((root / package).is_dir() for package in PACKAGES):
        raise FileNotFoundError(f"{root} is no checkout of this project: it lacks one of {', '.join(PACKAGES)}.")
    return [Source(root, path) for package in PACKAGES for path in sorted((root / package).rglob("*.py"))]


def import_graph(sources: list[Source]) -> dict[str, set[str]]:
    """Return by module which other modules of the project it imports."""
    modules = {source.module for source in sources}
    return {source.module: modules & set(source.imports()) - {source.module} for source in sources}


def folders_graph(sources: list[Source], depth: int) -> dict[str, set[str]]:
    """Return which folders of ``league`` import which, folders so deep below it; files above them are not counted."""
    rooms = {source.module: ".".join(source.parts[1 : 1 + depth]) for source in sources if _is_below(source, depth)}
    graph: dict[str, set[str]] = {room: set() for room in rooms.values()}
    for module, others in import_graph(sources).items():
        if module in rooms:
            graph[rooms[module]] |= {rooms[other] for other in others if other in rooms} - {rooms[module]}
    return graph


def floors(graph: Graph) -> list[list[str]]:
    """Return the folders by floor, from the ground: each stands one above the highest that it imports.

    Folders that import each other in a circle, and those above them, stand together on the last floor.
    """
    left, built = {name: set(others) for name, others in graph.items()}, list[list[str]]()
    while left:
        free = sorted(name for name, others in left.items() if not others & left.keys()) or sorted(left)
        built.append(free)
        for name in free:
            del left[name]
    return built


def share_of_heads(sources: list[Source]) -> float:
    """Return the share of docstrings at the top and imports in all lines."""
    return sum(source.head for source in sources) / max(1, sum(source.lines for source in sources))


def table(root: Path) -> str:
    """Return what is counted of a checkout, as Markdown."""
    sources = read(root)
    rows = [("place", "files", "lines", "heads"), ("---", "---:", "---:", "---:")]
    for place in [*PACKAGES, *sorted({source.place for source in sources} - set(PACKAGES))]:
        own = [source for source in sources if f"{source.place}/".startswith(f"{place}/")]
        rows.append((place, f"{len(own)}", f"{sum(s.lines for s in own):,}", f"{share_of_heads(own):.1%}"))
    lines = sum(source.lines for source in sources)
    rows.append(("all", f"{len(sources)}", f"{lines:,}", f"{share_of_heads(sources):.1%}"))
    functions = [function for source in sources for function in source.functions]
    short = sum(source.lines < 60 for source in sources if source.parts[-1] != "__init__")
    found = [
        *(_arrows(sources, depth) for depth in (1, 2) if _mostly_below(sources, depth)),
        f"files under 60 lines, not __init__: {short}; over 600: {sum(source.lines > 600 for source in sources)}",
        f"functions: {len(functions):,}; over {LONGEST_FUNCTION} lines: "
        f"{sum(function.lines > LONGEST_FUNCTION for function in functions)}; with {MOST_PARAMETERS} parameters or "
        f"more: {sum(function.parameters >= MOST_PARAMETERS for function in functions)}",
    ]
    cells = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return cells + "\n\n" + "\n".join(f"- {fact}" for fact in found)


def _arrows(sources: list[Source], depth: int) -> str:
    graph = folders_graph(sources, depth)
    arrows, where = sum(map(len, graph.values())), "league" if depth == 1 else "its folders"
    return f"folders of {where}: {len(graph)}, with {arrows} arrows on {len(floors(graph))} floors"


def _mostly_below(sources: list[Source], depth: int) -> bool:
    """Whether folders so deep are what ``league`` is divided into; a few may always stand deeper."""
    own = [source for source in sources if source.parts[0] == "league"]
    return 2 * sum(_is_below(source, depth) for source in own) > len(own)


def _is_below(source: Source, depth: int) -> bool:
    return source.parts[0] == "league" and len(source.parts) > 1 + depth


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _is_import_for_types(node: ast.stmt) -> bool:
    """Return whether a statement imports for a type checker, and does nothing else."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and all(map(_is_import, node.body))


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def main() -> int:
    """Print the table of a checkout."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.report.house", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("checkout", nargs="?", type=Path, default=Path(__file__).parents[2], help="default: this one")
    try:
        print(table(parser.parse_args().checkout))
    except FileNotFoundError as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
