"""The pages of the documentation: their code blocks, their prose, and the commands that they show."""

import re
import shlex

from support.source import ROOT

RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.md"))  # what was measured
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def page_of(name):
    """Return a page of the documentation by its name, such as ``credit``."""
    [found] = [page for page in PAGES if page.stem == name]
    return found


# What a package of one's own may have; its files are named once, over all of these pages.
EXTENDING = tuple(map(page_of, ("extending", "talk_games", "rules_and_losses", "families")))


def text_of(page):
    """Return the text of a page, or of several."""
    pages = page if isinstance(page, tuple) else (page,)
    return "\n".join(one.read_text(encoding="utf-8") for one in pages)


def blocks(page):
    """Yield each code block of a page, or of several, as (the file named last before it, its language, its text)."""
    file = ""
    for part in re.split(r"(^```.*?^```$)", text_of(page), flags=re.DOTALL | re.MULTILINE):
        if part.startswith("```"):
            head, _, text = part.removesuffix("```").partition("\n")
            yield file, head.removeprefix("```"), text
        else:
            file = [file, *re.findall(r"`([\w/]+\.(?:py|toml|md))`", part)][-1]


def prose(page):
    """Return a page without its code blocks."""
    return re.sub(r"^```.*?^```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE)


def commands(page, program):
    """Yield the words of each command line of a program that a page shows, in a block or within a sentence."""
    lines = [line.removeprefix("$ ") for _, _, text in blocks(page) for line in text.replace("\\\n", "").splitlines()]
    lines += re.findall(r"`([^`\n]+)`", prose(page))
    for line in lines:
        if line.startswith(f"{program} "):
            yield shlex.split(re.split(" >+ ", line)[0], comments=True)[1:]
