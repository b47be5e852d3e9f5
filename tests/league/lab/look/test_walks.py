"""Walks over a run in a real Chromium, by keyboard and by mouse; hostile texts stay texts; a file needs no network."""

import re

import pytest
from support.browser import sideways_overflow

from arena.records import EndReason, Episode, MatchRequest, TokenTrace, Turn
from league.cli import main
from league.lab.look.one_file import look_page
from league.lab.look.run_files import RunFiles
from league.lab.look.server import LookServer
from league.population.storage.sampled_matches import SampledMatch, save_samples

pytestmark = pytest.mark.thorough

SMALL = [
    *("iterations=2", "snapshot_every=1", "threads=1", "episodes_kept=8", "board.time=0", "evaluation.matches=4"),
    *("model.hidden_size=16", "model.layers=1", "model.intermediate_size=32"),
    *("cold_start.steps=3", "cold_start.matches=8"),
]
KINDS = {
    "pocket-league": ["pocket-league", "games.kuhn_poker.matches=16"],
    "team": ["team", 'games."lookup_chain(people=6,relations=2)".matches=8', "matchmaking.group_size=4"],
    "debate": ["pocket", 'games={"debate(boxes=3,form=1)"={matches=8}}', "evaluation.exact=false"],
    "free": ["pocket-free", "games.kuhn_poker.matches=16"],
}
HOSTILE = (
    *("<script>window.broken=1</script>", "<img src=x onerror='window.broken=1'>", '"><svg onload=window.broken=1>'),
    *(
        "</script><script>window.broken=1</script>",
        "<!--<script>",
        "]]><b>",
        "{{7*7}}${7*7}",
        "javascript:window.broken=1",
    ),
    *("<a href='javascript:window.broken=1'>go</a>", "' onfocus='window.broken=1' autofocus='", "&lt;b&gt;&amp;"),
    *(
        "<iframe srcdoc='<script>parent.broken=1</script>'>",
        "<style>*{display:none}</style>",
        "\u202eabc\u202c",
        "\x00\x07",
    ),
    *("<base href='//evil.example/'>", "<meta http-equiv=refresh content='0;url=//evil.example'>", "\\u003cscript>"),
    *("%3Cscript%3E#/match/1?see=god", "<form action='//evil.example'><button autofocus>"),
)


@pytest.fixture(scope="module", params=KINDS)
def trained(request, tmp_path_factory):
    """Return the folder of a run of each kind, as small as it can be."""
    preset, *settings = KINDS[request.param]
    path = tmp_path_factory.mktemp("walks") / request.param
    words = [word for setting in [*SMALL, *settings] for word in ("--set", setting)]
    assert main(["train", preset, "--run-dir", str(path), *words]) == 0
    return path


@pytest.fixture(scope="module")
def served(made_run):
    with LookServer(RunFiles(made_run, "pocket-0"), 0) as server:
        yield server


def seen(page, title):
    """Wait until a view stands there whose title begins so."""
    page.locator("main h1", has_text=re.compile(f"^{re.escape(title)}")).wait_for()


def test_from_a_curve_to_the_tokens_in_every_kind_of_run(browser, trained):
    """By keyboard: a point, Enter; the first match, Enter; on, whose eyes, what tokens are coloured by; and back."""
    with LookServer(RunFiles(trained, trained.name), 0) as server, browser.open(server.address) as page:
        seen(page, "Curves")
        page.keyboard.press("/")
        page.keyboard.type("advantage")
        page.wait_for_url(re.compile("find=advantage"))
        page.locator("svg.opens").first.focus()
        page.keyboard.press("End")
        page.keyboard.press("Enter")
        seen(page, "Iteration 2")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        seen(page, "Match")
        page.locator(".line-of-tokens .token").first.wait_for()
        page.keyboard.press("o")
        page.wait_for_url(re.compile("overlay=mask"))
        page.keyboard.press("v")
        page.wait_for_url(re.compile("see=0"))
        page.keyboard.press("End")
        page.locator("output.place", has_text="the end").wait_for()
        page.go_back()
        seen(page, "Iteration 2")
        for key, title in (("w", "Who beats whom"), ("s", ""), ("m", "Matches that"), ("a", "Ask it"), ("c", "Curves")):
            page.keyboard.press(key)
            seen(page, title)
        assert sideways_overflow(page) == 0


def test_a_cell_a_snapshot_and_a_state_lead_on_by_mouse(browser, served):
    with browser.open(f"{served.address}#/matrix/kuhn_poker") as page:
        cell = page.locator("table.matrix a").first
        value = cell.inner_text()
        cell.click()
        page.locator("main h1", has_text=" against ").wait_for()
        assert re.fullmatch(r"[+−]?\d\.\d\d", value)
        page.get_by_role("link", name="Snapshots", exact=True).click()
        page.locator("svg.tree a").last.click()
        seen(page, "main-000040")
        page.get_by_text("How it differs from its parent, main-000035").wait_for()
        page.get_by_role("link", name="Strategies", exact=True).click()
        page.get_by_label("Find information states").fill("Q bet")
        page.get_by_text("2 of 12 information states").wait_for()
        page.get_by_role("link", name="last beside the equilibrium").click()
        page.get_by_text("worth to who plays as the first").wait_for()


def test_a_bar_opens_its_matches_and_a_deal_stands_side_by_side(browser, served):
    with browser.open(f"{served.address}#/iteration/40") as page:
        page.locator("button.bar").first.click()
        page.locator("main h3", has_text="matches").wait_for()
        page.get_by_text("deals that were played several times").click()
        page.locator("details table a").first.click()
        seen(page, "One deal, 2 matches")
        assert page.locator(".member").count() == 2


def test_a_person_plays_a_match_and_asks_three(browser, tmp_path):
    words = [word for setting in [*SMALL, "games.kuhn_poker.matches=16"] for word in ("--set", setting)]
    assert main(["train", "pocket", "--run-dir", str(tmp_path / "run"), *words]) == 0
    with LookServer(RunFiles(tmp_path / "run", "run"), 0) as server, browser.open(f"{server.address}#/ask") as page:
        page.get_by_role("button", name="Begin").click()
        while not page.get_by_text("It is over").count():
            page.locator("button.move").first.wait_for()
            page.keyboard.press("1")
            page.wait_for_timeout(200)
        page.goto(f"{server.address}#/matches")
        seen(page, "Matches that")
        page.locator("a.row").first.click()
        page.get_by_role("link", name="ask snapshots the same").click()
        page.get_by_role("button", name="Ask", exact=True).click()
        page.get_by_role("table", name="Answers").wait_for()
        assert page.get_by_role("table", name="Answers").locator("tbody tr").count() == 3


class Reader:
    """A person at the page who counts what they do: a click, or a word that is typed, is one."""

    def __init__(self, page):
        self.page, self.acts = page, 0

    def open(self, name):
        self.click(self.page.get_by_role("link", name=name, exact=True).first)

    def click(self, what):
        what.click()
        self.acts += 1

    def choose(self, label, option):
        self.page.get_by_label(label, exact=False).first.select_option(option)
        self.acts += 1

    def type(self, label, text):
        self.page.get_by_label(label).fill(text)
        self.acts += 1

    def finds(self, text):
        self.page.locator("main").get_by_text(text).first.wait_for()


def why_did_a_curve_move(reader):
    """Open the iteration of the last point of the first curve: each number with what it changed by."""
    reader.page.locator("svg.opens").first.focus()
    reader.page.keyboard.press("End")
    reader.page.keyboard.press("Enter")
    reader.acts += 2
    reader.finds("Every number and its change")


def what_does_the_caller_do_with_a_queen(reader):
    reader.open("Strategies")
    reader.type("Find information states", "Q bet")
    reader.finds("2 of 12 information states")


def what_is_it_worth_to_play_as_the_equilibrium_there(reader):
    reader.open("Strategies")
    reader.open("last beside the equilibrium")
    reader.finds("worth to who plays as the first")


def which_matches_did_stale_weights_write(reader):
    reader.open("Matches")
    reader.choose("with a turn that is", "stale")
    reader.finds(re.compile(r"^\d+ matches"))


def which_replies_were_illegal(reader):
    reader.open("Matches")
    reader.choose("with a turn that is", "illegal")
    reader.finds(re.compile(r"^\d+ matches"))


def who_beats_whom_and_in_which_matches(reader):
    reader.open("Who beats whom")
    reader.click(reader.page.locator("table.matrix a").first)
    reader.page.locator("main h1", has_text=" against ").wait_for()


def what_did_the_newest_snapshot_change(reader):
    reader.open("Snapshots")
    reader.click(reader.page.locator("svg.tree a").last)
    reader.finds("How it differs from its parent")


def what_was_the_most_surprising_turn(reader):
    reader.open("Matches")
    reader.type("kept as", "most surprising")
    reader.page.keyboard.press("Enter")
    reader.page.wait_for_url(re.compile("kept=most"))
    reader.click(reader.page.locator("a.row").first)
    reader.page.locator(".bubble").first.wait_for()


def what_did_a_seat_see_there(reader):
    reader.open("Matches")
    reader.click(reader.page.locator("a.row").first)
    reader.page.locator("[data-eyes]").select_option("0")
    reader.acts += 1
    reader.page.wait_for_url(re.compile("see=0"))


def did_the_same_deal_go_otherwise(reader):
    why_did_a_curve_move(reader)
    reader.click(reader.page.get_by_text("deals that were played several times"))
    reader.click(reader.page.locator("details table a").first)
    seen(reader.page, "One deal")


QUESTIONS = (
    why_did_a_curve_move,
    what_does_the_caller_do_with_a_queen,
    what_is_it_worth_to_play_as_the_equilibrium_there,
    which_matches_did_stale_weights_write,
    which_replies_were_illegal,
    who_beats_whom_and_in_which_matches,
    what_did_the_newest_snapshot_change,
    what_was_the_most_surprising_turn,
    what_did_a_seat_see_there,
    did_the_same_deal_go_otherwise,
)


@pytest.mark.parametrize("answer", QUESTIONS, ids=lambda one: one.__name__)
def test_ten_questions_take_five_acts_at_most(browser, served, answer):
    """Each begins at the first view; a chosen option or a typed word counts as a click."""
    with browser.open(served.address) as page:
        seen(page, "Curves")
        page.locator("svg.opens").first.wait_for()
        reader = Reader(page)
        answer(reader)
        assert 1 <= reader.acts <= 5


@pytest.mark.parametrize(("width", "dark"), [(400, True), (1600, False)])
def test_no_view_is_wider_than_its_window(browser, served, width, dark):
    views = ("curves", "iteration/40", "matches", "matrix", "tree", "snapshot/main-000040", "strategy", "ask")
    with browser.open(served.address, width=width, dark=dark) as page:
        for view in views:
            page.goto(f"{served.address}#/{view}")
            page.wait_for_function("location.hash.startsWith('#/' + arguments_) ".replace("arguments_", repr(view)))
            page.locator("main h1").wait_for()
            page.wait_for_timeout(150)
            assert sideways_overflow(page) == 0, view


def test_one_file_is_walked_without_a_network(browser, made_run, tmp_path):
    path = tmp_path / "look.html"
    path.write_text(look_page(RunFiles(made_run, "pocket-0")), encoding="utf-8")
    with browser.open(path, offline=True) as page:
        seen(page, "Curves")
        page.keyboard.press("m")
        seen(page, "Matches that")
        page.locator("a.row").first.click()
        page.locator(".bubble").first.wait_for()
        page.keyboard.press("t")
        page.locator("figure.state").first.wait_for()
        page.goto(f"{path.as_uri()}#/iteration/1")
        page.get_by_text("The whole run is shown by: league look RUN").wait_for()


HELD = """async () => {
    const ask = look.ask, ready = await ask("overview");
    const held = () => new Promise((answer) => { window.release = () => answer(ready); });
    look.ask = (view, query) => (view === "overview" ? held() : ask(view, query));
}"""


@pytest.mark.parametrize("late", [False, True], ids=["before-it-begins", "after-it-stands"])
@pytest.mark.parametrize("first", ["#/curves?find=a", "#/strategy/kuhn_poker"])
def test_a_view_that_comes_late_does_not_take_the_address_of_the_next(browser, served, first, late):
    """Its answer comes after somebody went on, before the browser tells of the new address or when that view stands."""
    with browser.open(f"{served.address}#/matrix/kuhn_poker") as page:
        page.locator("table.matrix").first.wait_for()
        page.evaluate(HELD)
        page.evaluate("first => { location.hash = first; }", first)
        page.wait_for_function("window.release !== undefined")
        if late:
            page.evaluate("location.hash = '#/matches'")
            seen(page, "Matches that")
            page.evaluate("release()")
        else:
            page.evaluate("location.hash = '#/matches'; release()")
            seen(page, "Matches that")
        page.wait_for_timeout(300)
        assert page.evaluate("location.hash") == "#/matches"
        seen(page, "Matches that")


def test_hostile_texts_stay_texts(browser, tmp_path):
    """In names of players and roles, in replies, observations, forms and outcomes; on the server and in a file."""
    run = tmp_path / "<b>run"
    run.mkdir()
    (run / "config.toml").write_text('iterations = 1\n[games."kuhn_poker"]\n')
    (run / "metrics.jsonl").write_text(
        '{"iteration": 0}\n{"iteration": 1, "<img src=x onerror=window.broken=1>": 1.0}\n'
    )
    save_samples(run, 1, [_hostile(index, text) for index, text in enumerate(HOSTILE)])
    page_file = tmp_path / "look.html"
    files = RunFiles(run, str(run))
    page_file.write_text(look_page(files), encoding="utf-8")
    with LookServer(files, 0) as server:
        for place in (server.address, page_file.as_uri()):
            with browser.open(place) as page:
                for index, text in enumerate(HOSTILE):
                    page.goto(f"{place}#/match/1/{index}?step=1&see=0")
                    seen(page, f"Match {index}:")
                    page.locator(".bubble").wait_for()
                    assert page.locator(".bubble .reply").text_content() == text
                    assert text in page.locator(".bubble .who").text_content()
                    assert page.evaluate(
                        "window.broken === undefined && document.baseURI.startsWith(location.origin)"
                    ) or place.startswith("file")
                    assert (
                        page.locator("main").locator("script, img, iframe, style, form[action], base, meta").count()
                        == 0
                    )


def _hostile(index, text):
    trace = TokenTrace("main", (1,), (2,), (-0.5,), None)
    turn = Turn(0, text, text, text, (), text, text, 1.0, trace, form=text)
    request = MatchRequest(index, "textarena:Hostile-v0", 0, 0, (text,), (True,), rule=text)
    return SampledMatch(Episode(request, (turn,), (1.0,), EndReason.FINISHED, outcome=text), 1, (text,), ((0.5,),))
