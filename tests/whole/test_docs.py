"""What the documentation says is so: its commands parse, its keys, files and links exist."""

import re

import pytest
from support.pages import EXTENDING, PAGES, RESULTS, blocks, commands, page_of, prose
from support.source import ROOT

from league.cli.commands import COMMANDS, written
from league.cli.dispatch import parse
from league.config import GameConfig, RunConfig
from league.config import load as settings
from league.config.matchmaking import SELF_PLAY, SharesConfig
from league.population.matchmaking.rules import OPPONENT_RULES
from league.training.learning.imitation import IMITATION_FILE
from learners.advantages import RULES

PACKAGES = ("games", "roles", "arena", "learners", "league")

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def test_every_rule_is_told():
    """On the page of credit rules, with every setting that it has; and the page of credit says when to take it."""
    told, when = (page_of(name).read_text(encoding="utf-8") for name in ("credit_rules", "credit"))
    for name, rule in RULES.items():
        assert re.search(rf"^## {name}$", told, flags=re.M), name
        assert f"`{name}`" in when, name
        for key in rule.settings.model_fields:
            assert f"`credit.{name}.{key}`" in told, key


def test_every_matchmaking_rule_has_a_weight():
    assert set(SharesConfig.model_fields) == {SELF_PLAY, *OPPONENT_RULES}


def test_the_release_has_one_number_and_one_date():
    text = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("setup.py", "CITATION.cff", "CHANGELOG.md")}
    [version, date] = re.search(r"^## ([\d.]+) \(([\d-]+)\)$", text["CHANGELOG.md"], flags=re.M).groups()
    assert f'version="{version}",' in text["setup.py"]
    assert {f"version: {version}", f"date-released: {date}"} <= set(text["CITATION.cff"].splitlines())


# Everything that the pages name


@every_page
def test_examples_run(page, capsys):
    for _, language, text in blocks(page):
        if language == "python" and page not in (*EXTENDING, page_of("python")):  # which have their own tests
            exec(compile(text, str(page), "exec"), {})  # ours: it stands in this repository
            assert capsys.readouterr().out


@every_page
def test_commands_parse_and_their_settings_are_valid(page):
    for words in commands(page, "league"):
        if words == written(words[-1]).split():  # the command itself is meant, or it needs no argument
            assert words[-1] in COMMANDS
            continue
        arguments = parse(words)
        if arguments.command == "train" and arguments.config in [None, *settings.preset_names()]:
            settings.load(arguments.config or "pocket", arguments.set)


@every_page
def test_make_targets_exist(page):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for words in commands(page, "make"):
        assert f"\n{words[0]}:" in makefile


@every_page
def test_settings_exist(page):
    sections = {name: field.annotation for name, field in RunConfig.model_fields.items() if name != "games"}
    for section, key in re.findall(r"`(\w+)\.(\w+)(?: = [^`]*)?`", page.read_text(encoding="utf-8")):
        is_file = f"{section}.{key}" == IMITATION_FILE or (ROOT / section / f"{key}.py").exists()
        if section in sections and not is_file:
            assert key in sections[section].model_fields, f"{section}.{key}"
    made = {file.rsplit("/", 1)[-1].removesuffix(".py") for file, _, _ in blocks(EXTENDING)}
    for name, key in re.findall(r"credit\.(\w+)\.(\w+)", page.read_text(encoding="utf-8")):
        if not (page in EXTENDING and name in made):
            assert key in RULES[name].settings.model_fields, f"credit.{name}.{key}"
    for key in re.findall(r"`games\.[A-Z]+\.(\w+)", page.read_text(encoding="utf-8")):
        assert key in GameConfig.model_fields, key


@pytest.mark.parametrize(
    "page", [*PAGES, *RESULTS, *ROOT.glob("C*.md")], ids=lambda page: f"{page.parent.name}/{page.name}"
)
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", prose(page)):
        if target.startswith(("http://", "https://")):
            continue
        path = (page.parent / target).resolve() if target else page
        assert path.is_relative_to(ROOT), target
        assert path.exists(), target
        if anchor:
            heads = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert anchor in [re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads], anchor


@every_page
def test_files_exist(page):
    made = {file for file, language, _ in blocks(EXTENDING) if language in ("python", "toml")}
    places = ("benchmarks", "docs", "tests", *PACKAGES)
    for name in re.findall(r"`((?:\w+/)+[\w*.-]*)`", prose(page)):
        if name.split("/")[0] in places and not (page in EXTENDING and name in made):
            assert list(ROOT.glob(name.rstrip("/"))), name
