"""What the documentation says is so: its recipes work, its commands parse, its keys, files and links exist."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from support.source import ROOT

from arena.replays import load_episodes
from games.spec import Game
from league.cli.dispatch import _parsers
from league.config import GameConfig, RunConfig
from league.config import load as settings
from league.config.matchmaking import SharesConfig
from league.matchmaking.lineups import JOINT_RULES, PAST_RULES
from learners.advantages import RULES
from learners.trajectories import Evidence

PACKAGES = ("games", "roles", "arena", "learners", "league")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXTENDING = ROOT / "docs" / "extending.md"

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def blocks(page):
    """Yield each code block as (the file named last before it, its language, its text)."""
    file = ""
    for part in re.split(r"(^```.*?^```$)", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE):
        if part.startswith("```"):
            head, _, text = part.removesuffix("```").partition("\n")
            yield file, head.removeprefix("```"), text
        else:
            file = [file, *re.findall(r"`([\w/]+\.(?:py|toml|md))`", part)][-1]


def prose(page):
    """Return a page without its code blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def commands(page, program):
    """Yield the words of each command line of a program that a page shows, in a block or within a sentence."""
    lines = [line.removeprefix("$ ") for _, _, text in blocks(page) for line in text.replace("\\\n", "").splitlines()]
    lines += re.findall(r"`([^`\n]+)`", prose(page))
    for line in lines:
        if line.startswith(f"{program} "):
            yield shlex.split(line, comments=True)[1:]


# The recipes of docs/extending.md


def changed(text, diff):
    """Return the text with one hunk applied; the lines that the hunk leaves or removes must stand there once."""
    lines = diff.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if not line.startswith("+"))
    assert text.count(before) == 1, before
    return text.replace(before, "".join(line[1:] for line in lines if not line.startswith("-")))


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """Return a copy of the packages to which every recipe of the page has been applied."""
    copy = tmp_path_factory.mktemp("extended")
    for folder in (*PACKAGES, "docs", "tests"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    for file, language, text in blocks(EXTENDING):
        path = copy / file
        if language == "diff":
            path.write_text(changed(path.read_text(encoding="utf-8"), text), encoding="utf-8")
        elif language != "sh":
            assert not path.exists()
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return copy


def module(file):
    """Return the names that the page's file of that name defines."""
    [text] = [text for name, language, text in blocks(EXTENDING) if (name, language) == (file, "python")]
    made = sys.modules["documented"] = ModuleType("documented")  # where pydantic looks names up
    exec(compile(text, file, "exec"), vars(made))  # ours: it stands in this repository
    return made


def test_the_recipes_train_together_and_the_result_is_there_to_look_at(extended):
    small = {"iterations": 2, "snapshot_every": 1, "threads": 1, "games.race_to_ten.matches": 16, "episodes_kept": 64}
    small |= {"model.hidden_size": 16, "model.layers": 1, "model.intermediate_size": 16, "cold_start.steps": 2}
    small |= {"cold_start.matches": 4, "evaluation.matches": 4}
    overrides = [word for key, value in small.items() for word in ("--set", f"{key}={value}")]
    asked = [[*words, *overrides] if words[0] == "train" else words for words in commands(EXTENDING, "league")]
    assert [words[0] for words in asked] == ["train", "standings", "match", "play"]
    code = f"import sys; from league.cli import main; sys.exit(max(map(main, {asked})))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=extended, input="1\n" * 10, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "runs/race against prefers:1" in done.stdout
    assert "league exploitability" not in done.stdout  # which could not be computed
    metrics = json.loads((extended / "runs/race/metrics.jsonl").read_text().splitlines()[-1])
    assert {"race_to_ten/score/opener", "race_to_ten/score_against_prefers:1", "opener/loss", "closer/loss"} <= set(
        metrics
    )
    episodes = load_episodes(extended / "runs/race/episodes/iteration-000002.jsonl")
    assert {episode.request.rule for episode in episodes} == {"self_play", "recent"}


def test_the_games_first_seat_wins_by_two_and_only_by_two():
    game = module("games/race.py").RaceToTen()
    assert isinstance(game, Game)

    def value(match):  # to the seat that is to act
        return max(-outcome(match, step) for step in match.legal_actions())

    def outcome(match, step):
        after = match.copy()
        after.apply(step)
        return -after.returns()[match.to_act()] if after.to_act() is None else value(after)

    assert [step for step in game.legal_actions() if outcome(game, step) < 0] == ["2"]
    assert game.observe(0) == "Total: 0"
    with pytest.raises(ValueError, match="'4' is not legal"):
        game.apply("4")


def test_the_estimators_means_are_zero_by_role():
    rule = module("learners/advantages/batch_mean.py").RULE
    part = [("first", (0.0, 1.0)), ("second", (-1.0,)), ("first", (-1.0,)), ("first", (1.0,))]
    trajectories = [
        SimpleNamespace(game="g", role=role, match_return=sum(rewards), turns=rewards) for role, rewards in part
    ]
    advantages, weights, state = rule.credit(trajectories, [Evidence()] * 4, {}, rule.settings())
    assert (weights, state) == ([1.0] * 4, {})
    assert [a[0] for a in advantages] == pytest.approx([2 / 3, 0, -4 / 3, 2 / 3])
    assert [len(a) for a in advantages] == [2, 1, 1, 1]


def test_the_estimator_counts_a_seat_that_had_no_turn_by_its_return():
    """Its match ended before its first turn: it is paid -1, not the 0 that no rewards add up to."""
    rule = module("learners/advantages/batch_mean.py").RULE
    part = [((1.0,), 1.0), ((), -1.0)]
    trajectories = [SimpleNamespace(game="g", role="r", match_return=gain, turns=turns) for turns, gain in part]
    advantages, _, _ = rule.credit(trajectories, [Evidence()] * 2, {}, rule.settings())
    assert advantages == [[1.0], []]


def test_a_credit_rule_with_settings_of_its_own_is_four_files(extended):
    """Its file, its line in the table, its test and its paragraph: no other is changed, and the tests of rules pass."""
    start = EXTENDING.read_text(encoding="utf-8").index("## An estimator")
    end = EXTENDING.read_text(encoding="utf-8").index("## A matchmaker")
    section = extended / "an_estimator.md"
    section.write_text(EXTENDING.read_text(encoding="utf-8")[start:end], encoding="utf-8")
    assert {file for file, _, _ in blocks(section)} == {
        "learners/advantages/batch_mean.py",
        "learners/advantages/__init__.py",
        "tests/learners/advantages/test_batch_mean.py",
        "docs/credit.md",
    }
    asked = [
        "tests/learners/advantages/test_batch_mean.py",
        "tests/whole/test_rule_names.py",
        "tests/whole/test_docs.py::test_every_rule_is_told",
    ]
    asked += ["tests/learners/advantages/test_dispatch.py::test_every_setting_says_what_it_means"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *asked]
    done = subprocess.run(command, cwd=extended, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def test_the_matchmaker_halves_with_age():
    pool = SimpleNamespace(players=["a", "b", "c"])
    assert module("league/matchmaking/recent.py").recent(pool) == pytest.approx(np.array([1, 2, 4]) / 7)


def test_every_rule_is_told():
    """On the page of credit, with every setting that it has."""
    told = (ROOT / "docs" / "credit.md").read_text(encoding="utf-8")
    for name, rule in RULES.items():
        assert re.search(rf"\*\*{name}\b", told), name
        for key in rule.settings.model_fields:
            assert f"`credit.{name}.{key}`" in told, key


def test_every_matchmaking_rule_has_a_weight():
    assert set(SharesConfig.model_fields) == {"self_play", *PAST_RULES, *JOINT_RULES}


# Everything that the pages name


@every_page
def test_examples_run(page, capsys):
    for _, language, text in blocks(page):
        if language == "python" and page != EXTENDING:
            exec(compile(text, str(page), "exec"), {})  # ours: it stands in this repository
            assert capsys.readouterr().out


@every_page
def test_commands_parse_and_their_settings_are_valid(page):
    parser, names = _parsers()
    for words in commands(page, "league"):
        if len(words) == 1:  # the command itself is meant, or it needs no argument
            assert words[0] in names
            continue
        arguments = parser.parse_args(words)
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
        if section in sections and not (ROOT / section / f"{key}.py").exists():
            assert key in sections[section].model_fields, f"{section}.{key}"
    made = {file.rsplit("/", 1)[-1].removesuffix(".py") for file, _, _ in blocks(EXTENDING)}
    for name, key in re.findall(r"credit\.(\w+)\.(\w+)", page.read_text(encoding="utf-8")):
        if not (page == EXTENDING and name in made):
            assert key in RULES[name].settings.model_fields, f"credit.{name}.{key}"
    for key in re.findall(r"`games\.[A-Z]+\.(\w+)", page.read_text(encoding="utf-8")):
        assert key in GameConfig.model_fields, key


@every_page
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
        if name.split("/")[0] in places and not (page == EXTENDING and name in made):
            assert list(ROOT.glob(name.rstrip("/"))), name
