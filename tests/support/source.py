"""The checkout: its root, the project's modules, and what each imports, read off the source."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("games", "roles", "arena", "learners", "league")
FILES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def module_of(path):
    """Return a file's module name; an ``__init__.py`` has its package's."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imported(path):
    """Return every absolute module name that a file imports, at any depth, and the names it takes from them."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here, so that their direction can be read"
            names += [f"{node.module}", *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def import_graph():
    """Return by module of the project which of its other modules it imports."""
    modules = {module_of(path): path for path in FILES}
    return {name: {other for other in imported(path) if other in modules} - {name} for name, path in modules.items()}
