"""``league show docs``: the pages of the documentation, in a checkout as in an installed package."""

from __future__ import annotations

import argparse
from pathlib import Path

from games.common.errors import UsageError, unknown_name
from league.cli.parser import Parser

EXAMPLES = ("", "credit")
PACKAGE = Path(__file__).parents[2]
SUBJECTS = {
    "start": "To begin with",
    "guide": "A task each",
    "reference": "To look things up",
    "extend": "What you can add",
    "research": "What studies found",
}  # a folder each
MOVED = {
    "results": "findings",
    "programs": "serving",
    "exploiters": "robustness",
    "prompts": "roles",
    "curriculum": "starts",
    "latent": "one_model",
    "teachers": "one_model",
}  # pages that were merged into others
INSTALLED, CHECKOUT = PACKAGE / "docs", PACKAGE.parent / "docs"  # setup.py copies the first into the second


def add_arguments(parser: Parser) -> None:
    """Add what the command is given."""
    parser.add_argument("page", nargs="?", metavar="PAGE", help="the page to print, such as credit")


def run(arguments: argparse.Namespace) -> int:
    """Print a page, or list all, by subject."""
    pages = {path.stem: path for path in sorted(folder().rglob("*.md"))}
    if arguments.page is None:
        width = max(map(len, pages))
        for subject, told in SUBJECTS.items():
            print(told)
            for name, path in pages.items():
                if path.parent.name == subject:
                    print(f"  {name:{width}}  {title(path)}")
        print(f"\nRead one:  league show docs {next(iter(pages))}\nThe files are in {folder()}.")
        return 0
    name = arguments.page.rsplit("/", 1)[-1].removesuffix(".md")
    if name in MOVED:
        print(f"The page {name} is now part of another: league show docs {MOVED[name]}\n")
        name = MOVED[name]
    if name not in pages:
        raise unknown_name("page", arguments.page, pages)
    print(pages[name].read_text(encoding="utf-8"), end="")
    return 0


def folder() -> Path:
    """Return the folder of the pages. Raises UsageError if they are missing."""
    pages = next((candidate for candidate in (INSTALLED, CHECKOUT) if (candidate / "start").is_dir()), None)
    if pages is None:
        raise UsageError(f"The pages are neither in {INSTALLED} nor in {CHECKOUT}. Install the package again.")
    return pages


def title(path: Path) -> str:
    """Return the heading of a page."""
    with path.open(encoding="utf-8") as file:
        return file.readline().removeprefix("#").strip()
