"""The pages in a real browser: plots and rows are there, arrow keys step, nothing hostile runs, nothing is loaded."""

import json
import re
import shutil

import pytest
from support.browser import NARROW, WIDE, sideways_overflow

from arena.records import EndReason, Episode, MatchRequest, TokenTrace, Turn
from arena.replays import save_episodes
from games.common.sealed_json import read_sealed
from games.registry import make_game
from league.cli import main
from league.config import RolesConfig
from league.config.load import seat_roles
from league.lab.reports.run_record import read_run
from league.population.results.match_store import STORE_FILE, MatchStore
from league.population.storage.sampled_matches import load_samples, sample_files
from league.theory.exact.equilibrium_gaps import exact_game
from league.training.board.metrics_log import METRICS_FILE

HOSTILE = """</pre></script><script>window.broken = 1</script><img src=x onerror="window.broken=1">{{ 7*7 }}&amp;"'"""


def report(out, *runs):
    assert main(["report", *map(str, runs), "-o", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def page_of_one(made_run, tmp_path_factory):
    return report(tmp_path_factory.mktemp("pages") / "one.html", made_run)


@pytest.fixture(scope="module")
def page_of_two(made_run, other_run, tmp_path_factory):
    return report(tmp_path_factory.mktemp("pages") / "two.html", made_run, other_run)


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("dark", [False, True])
def test_a_report_is_read_without_scrolling_sideways(browser, page_of_one, width, dark):
    with browser.open(page_of_one, width=width, dark=dark, offline=True) as page:
        assert sideways_overflow(page) == 0
        ink, paper = page.evaluate(
            "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        )
        assert abs(brightness(ink) - brightness(paper)) > 150
        assert (brightness(paper) < 128) is dark


def brightness(colour):
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3


def test_a_report_has_its_plots_and_rows(browser, page_of_one, made_run):
    with browser.open(page_of_one, offline=True) as page:
        assert page.locator("h1").inner_text() == "pocket-0"
        assert "40 of 40 iterations (finished)" in page.locator("#headline").inner_text()
        for name in ("kuhn_poker/exploitability", "kuhn_poker/score", "rating", "kuhn_poker/elo"):
            assert page.locator(f'figure[data-chart="{name}"] svg path').count() >= 1
        bluff = page.locator('figure[data-state="first bets J (a bluff)"]')
        assert bluff.locator("rect.band").count() == 1
        matrix = page.locator('table.matrix[data-game="kuhn_poker"]')
        assert matrix.locator("tbody tr").count() == 10
        assert "±" not in matrix.inner_text()
        assert "without one it is exact" in page.locator("#payoffs").inner_text()
        assert page.locator("svg.tree circle").count() == 9
        assert page.locator("pre.command").inner_text().startswith("league train")


def test_the_bluff_is_drawn_where_the_tables_say(page_of_one, made_run):
    """The last point of the line is the newest table's probability: the height of the plot is 140 pixels from 8 on."""
    rows = read_sealed(made_run / "state/tables/main-000040.kuhn_poker.json", "")
    [bluff] = [row[3] for row in rows if row[:2] == [0, "0"]]
    text = page_of_one.read_text()
    figure = text[text.index('data-state="first bets J') :]
    [path] = re.findall(r'class="line s0" d="([^"]+)"', figure)[:1]
    assert float(path.split()[-1]) == pytest.approx(148 - 140 * bluff, abs=0.06)


def test_matches_of_a_report_step_by_keys(browser, page_of_one):
    with browser.open(page_of_one, offline=True) as page:
        first = page.locator("section.match").first
        first.scroll_into_view_if_needed()
        first.focus()
        assert first.get_attribute("data-at") == "1"
        page.keyboard.press("ArrowRight")
        assert first.get_attribute("data-at") == "2"
        assert first.locator("article.step:visible").count() == 1
        page.keyboard.press("ArrowLeft")
        assert first.get_attribute("data-at") == "1"


def test_two_runs_are_beside_each_other(browser, page_of_two):
    with browser.open(page_of_two, width=NARROW, offline=True) as page:
        assert sideways_overflow(page) == 0
        row = page.locator('tr[data-figure="kuhn_poker/exploitability"]')
        assert row.locator("td").count() == 4  # name, both values, their mean over seeds
        assert " to " in row.inner_text()
        assert page.locator('figure[data-chart="kuhn_poker/exploitability"] path.line').count() == 2
        assert page.locator("svg.tree").count() == 2
        assert "differ in nothing but their seeds" in page.locator("#differences").inner_text()


@pytest.fixture(scope="module")
def sweep(made_run, tmp_path_factory):
    """Return a sweep's folder: three conditions of two seeds each, with long names."""
    folder = tmp_path_factory.mktemp("pages") / "rates"
    runs = []
    for number in range(6):
        path = folder / f"optimizer.learning_rate=0.00{number // 2},seed={number % 2}"
        shutil.copytree(made_run, path)
        config = path / "config.toml"
        text = config.read_text().replace("seed = 0", f"seed = {number % 2}", 1)
        config.write_text(text.replace("learning_rate = 0.001", f"learning_rate = 0.00{1 + number // 2}"))
        lines = [json.loads(line) for line in (path / METRICS_FILE).read_text().splitlines()]
        for line in lines:
            line["rating"] = line.get("rating", 25.0) + number
        (path / METRICS_FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
        runs.append({"folder": path.name})
    (folder / "sweep.json").write_text(json.dumps({"runs": runs}))
    return folder


@pytest.mark.parametrize("width", [WIDE, 1600])
def test_a_sweep_is_reported_by_its_folder_and_nothing_is_cut_off(browser, sweep, tmp_path, width):
    with browser.open(report(tmp_path / "sweep.html", sweep), width=width, offline=True) as page:
        assert sideways_overflow(page) == 0
        hidden = "box => box.scrollWidth - box.clientWidth"
        assert {box.evaluate(hidden) for box in page.locator("#differences *").all()[:400]} <= {0}
        rows = page.locator('tr[data-figure="rating"]')
        assert rows.count() == 3
        told = rows.nth(2).inner_text()
        assert "seed=0" in told
        assert "seed=1" in told
        assert " to " in told


def test_a_long_report_is_folded_up_to_what_is_read_first(browser, page_of_one, page_of_two):
    visible = "[...document.querySelectorAll('%s')].filter(one => one.checkVisibility()).length"
    for path in (page_of_one, page_of_two):
        with browser.open(path, offline=True) as page:
            assert 2 <= page.evaluate(visible % "#curves figure.chart") <= 9
            assert page.evaluate("document.documentElement.scrollHeight") < 7000
    with browser.open(page_of_one, offline=True) as page:
        assert page.evaluate(visible % "section.match") == 2
        page.get_by_text(re.compile(r"^\d+ more$")).click()
        assert page.evaluate(visible % "section.match") > 2


def test_payoffs_that_are_known_exactly_are_shown_and_those_of_matches_only_where_they_are_not(page_of_one, made_run):
    """As theory computes them from the stored tables; each pair of tabulated players, met or not."""
    run, text = read_run(str(made_run)), page_of_one.read_text()
    tables = run.tables["kuhn_poker"]
    first, second = exact_game([tables.tables[:2]] * 2).values
    mean = (first[1, 0] + second[0, 1]) / 2
    row, column = tables.players[1], tables.players[0]
    assert f"{row} against {column}: {mean:+.3f} exactly".replace("-0.", "−0.") in text
    assert "one deal" not in text[text.index('<section id="payoffs">') : text.index('<section id="population">')]


def test_a_replay_steps_through_its_matches_by_keys(browser, made_run, tmp_path):
    page_file = tmp_path / "replay.html"
    assert main(["replay", str(made_run), "--html", "-o", str(page_file)]) == 0
    newest = load_samples(sample_files(made_run)[-1])
    with browser.open(page_file, offline=True) as page:
        shown = page.locator("section.match:visible")
        assert shown.count() == 1
        before = shown.get_attribute("data-match")
        page.keyboard.press("ArrowUp")
        assert page.locator("section.match:visible").get_attribute("data-match") != before
        page.keyboard.press("End")
        assert "The match is over" in page.locator("section.match:visible article.step:visible").inner_text()
        page.keyboard.press("Home")
        page.locator("#chooser").select_option(index=page.locator("#chooser option").count() - 1)
        last = page.locator("section.match:visible")
        assert last.get_attribute("data-match") == str(newest[-1].episode.request.index)
        step = last.locator("article.step:visible")
        assert "advantage" in step.inner_text()
        last.locator('button[data-go="on"]').click()
        assert last.get_attribute("data-at") == "2"


def test_without_a_script_every_step_is_there(made_run, tmp_path):
    page_file = tmp_path / "replay.html"
    assert main(["replay", str(made_run), "--html", "-o", str(page_file)]) == 0
    assert '<article class="step" hidden' not in page_file.read_text()


@pytest.fixture
def hostile_run(made_run, tmp_path):
    """Return a run in which every text that a model or a name can bring is hostile."""
    path = tmp_path / "<img src=x onerror=alert(1)>"
    shutil.copytree(made_run, path)
    lines = [json.loads(line) for line in (path / METRICS_FILE).read_text().splitlines()]
    for line in lines:
        line[f"kuhn_poker/score/{HOSTILE.replace('/', '')}"] = 0.1 * line["iteration"]
        line[HOSTILE] = 1.0 + line["iteration"]
        line[f"alarms/{HOSTILE}"] = 1.0
    (path / METRICS_FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    match = hostile_match()
    with MatchStore(path / STORE_FILE) as store:
        store.add([match._replace(request=match.request._replace(index=10**6 + i, deal_seed=i)) for i in range(20)], 40)
    save_episodes(path / "episodes/iteration-000041.jsonl", [match])
    return path


def hostile_match():
    roles = seat_roles(RolesConfig(), make_game("kuhn_poker").spec)
    trace = TokenTrace(HOSTILE, (1,), (2, 3), (-0.5, -0.1), None)
    turns = tuple(
        Turn(
            seat,
            HOSTILE,
            HOSTILE,
            HOSTILE,
            (HOSTILE, "pass"),
            f"<think>{HOSTILE}</think>{HOSTILE}",
            HOSTILE,
            1.0,
            trace,
        )
        for seat, _ in enumerate(roles)
    )
    request = MatchRequest(7, "kuhn_poker", 0, 0, ("main-000040", HOSTILE), (False, False), HOSTILE, task=HOSTILE)
    return Episode(request, turns, (1.0, -1.0), EndReason.FINISHED, outcome=HOSTILE)


def test_nothing_that_is_said_or_named_runs(browser, hostile_run, tmp_path):
    for words in (["report", str(hostile_run)], ["replay", str(hostile_run), "--html"]):
        out = tmp_path / f"{words[0]}.html"
        assert main([*words, "-o", str(out)]) == 0
        with browser.open(out, offline=True) as page:
            assert page.evaluate("window.broken") is None
            assert page.locator("img:not(.population)").count() == 0
            assert page.locator("script").count() == 1
            text = page.evaluate("document.body.textContent")
            assert HOSTILE in text
            assert "49" not in re.findall(r"onerror=.window.broken=1.>(.{0,12})", text)


def test_what_a_model_writes_cannot_steer_the_terminal(capsys, tmp_path):
    turn = Turn(
        0, "first", "a\x1b[31m", "see\x1b]0;title\x07", ("x",), "\x1b[2J\nsecond line\x9b1m", "x\x07", 1.0, None
    )
    request = MatchRequest(0, "\x1b[1mgame", 0, 0, ("a\x1b[31m",), (True,))
    save_episodes(tmp_path / "m.jsonl", [Episode(request, (turn,), (1.0,), EndReason.FINISHED)])
    for more in ([], ["--list"]):
        assert main(["replay", str(tmp_path / "m.jsonl"), *more]) == 0
        out = capsys.readouterr().out
        assert not set(out) & set("\x1b\x07\x9b")
