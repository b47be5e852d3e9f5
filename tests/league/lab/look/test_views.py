"""What the views of a run say, against what its files hold; and the server's door."""

import http.client
import json
import math
import re
import shutil
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from arena.records import EndReason, Episode, MatchRequest, TokenTrace, Turn
from games.common.errors import UsageError
from games.registry import make_game
from league.lab.look.boards import drawings
from league.lab.look.curves import MOST_POINTS, points
from league.lab.look.matches import why_nothing
from league.lab.look.one_file import look_page
from league.lab.look.run_files import LoggedCurve, RunFiles
from league.lab.look.server import LookServer
from league.lab.look.tokens import _folder, _text, _tokenizer
from league.lab.look.views import as_json, view
from league.population.storage.sampled_matches import load_samples, sample_files
from league.theory.exact.exploitability import head_to_head, uniform_table

OLDER = Path(__file__).parents[3] / "data" / "older-runs" / "adapted"


@pytest.fixture(scope="module")
def run(made_run):
    return RunFiles(made_run, "pocket-0")


def test_curves_are_those_of_the_log(run, made_run):
    lines = [json.loads(line) for line in (made_run / "metrics.jsonl").read_text().splitlines()]
    overview = view(run, "overview", {})
    assert (overview["done"], overview["snapshots"]) == (40, 9)
    shown = overview["points"]["kuhn_poker/exploitability"]
    measured = [(line["iteration"], line["kuhn_poker/exploitability"]) for line in lines if "rating" in line]
    assert list(zip(shown["x"], shown["y"], strict=True)) == measured
    row = next(row for row in view(run, "iteration", {"at": "7"})["metrics"] if row["name"] == "main/loss")
    assert (row["value"], row["before"]) == (lines[7]["main/loss"], lines[6]["main/loss"])


def test_a_long_curve_keeps_its_peaks():
    values = [math.sin(place / 50) for place in range(2000)]
    values[1234], values[77] = 9.0, -9.0
    thinned = points(LoggedCurve(list(range(2000)), values))
    assert len(thinned["x"]) <= MOST_POINTS + 2
    assert {(1234, 9.0), (77, -9.0), (0, values[0]), (1999, values[1999])} <= {*zip(*thinned.values(), strict=True)}


def test_a_growing_log_is_read_on_and_one_that_was_cut_off_anew(tmp_path):
    log, run = tmp_path / "metrics.jsonl", RunFiles(tmp_path, "grows")
    log.write_text('{"iteration": 0, "loss": 3.0}\n{"iteration": 1, "loss": 2.0}\n{"iteration": 2, "lo')
    assert run.metrics()["loss"] == ([0, 1], [3.0, 2.0])
    with log.open("a") as file:
        file.write('ss": 1.0}\n')
    assert (run.metrics()["loss"].values, run.done()) == ([3.0, 2.0, 1.0], 2)
    log.write_text('{"iteration": 0, "loss": 3.0}\n{"iteration": 1, "loss": 5.0}\n{"iteration": 2, "loss": 6.0}\n')
    assert run.metrics()["loss"].values == [3.0, 5.0, 6.0]


def test_a_match_is_what_the_run_kept(run, made_run):
    path = sample_files(made_run)[-1]
    sample = load_samples(path)[0]
    at, index = str(sample.iteration), str(sample.episode.request.index)
    match = view(run, "match", {"at": at, "index": index})
    assert [step["reply"] for step in match["steps"]] == [turn.reply for turn in sample.episode.turns]
    assert tuple(step["advantage"] for step in match["steps"]) == sample.advantages[0]
    assert tuple(match["returns"]) == sample.episode.returns
    with pytest.raises(UsageError, match="kept no match 999999"):
        view(run, "match", {"at": at, "index": "999999"})
    for number in ("", "1e3", "9" * 19, "٣"):  # SQLite's numbers have 64 bits
        with pytest.raises(UsageError, match="give a whole number of at most 18 digits"):
            view(run, "results", {"at": number})
    assert view(run, "results", {"at": "-1"})["total"] == 0
    with pytest.raises(UsageError, match="has no submatch '3'"):
        view(run, "match", {"at": at, "index": index, "path": "3"})


def test_the_exact_advantages_of_a_match_at_random_are_those_of_the_rules(run):
    """Uniform play: who holds K and is bet at earns 2 by calling, −1 by folding: V = ½, so calling is worth +1.5."""
    from league.lab.look.exact import exact_credit

    seed = next(seed for seed in range(99) if _dealt(seed)[1] == "K")
    turns = tuple(
        Turn(seat, role, "random", "", ("pass", "bet"), "bet", "bet", 0.0, None)
        for seat, role in enumerate(("first", "second"))
    )
    request = MatchRequest(0, "kuhn_poker", seed, 0, ("random", "random"), (True, True))
    credit, why = exact_credit(run, Episode(request, turns, (-2.0, 2.0), EndReason.FINISHED), 40)
    scale = run.context.scales["kuhn_poker"]
    assert why == ""
    assert credit[1] * scale == pytest.approx(1.5)
    table = uniform_table("kuhn_poker")
    assert head_to_head([table, table])[0] == pytest.approx(0.125)  # which uniform Kuhn is known to pay the first seat


def _dealt(seed):
    game = make_game("kuhn_poker")
    game.reset(seed)
    return [game.observe(seat)[len("Your card: ")] for seat in (0, 1)]


@pytest.mark.parametrize(
    ("game", "moves", "shown"),
    [
        ("tic_tac_toe", ("5", "1"), {"kind": "grid", "stones": "OX"}),
        ("connect_four", ("4", "4"), {"kind": "discs", "stones": "OX"}),
        ("hex(board_size=3)", ("b2", "a1"), {"kind": "hex", "stones": "OX"}),
        ("dark_hex(board_size=3)", (), {"kind": "hex", "stones": ""}),
        ("kuhn_poker", ("pass",), {"kind": "cards", "hands": ["first", "second"]}),
        ("leduc_poker", ("call", "call"), {"kind": "cards", "hands": ["first", "second", "board"]}),
        ("liars_dice", (), {"kind": "dice", "hands": ["first", "second"]}),
        ("goofspiel(num_cards=4)", (), {"kind": "cards", "hands": ["prizes", "first holds", "second holds"]}),
        ("hanabi", (), {"kind": "cards", "hands": ["fireworks", "first", "second"]}),
        ("simple_negotiation(form=1)", (), {"kind": "table", "hands": []}),
        ("bargaining", (), {"kind": "table", "hands": []}),
    ],
)
def test_a_board_is_drawn_from_what_the_seats_see(game, moves, shown):
    match = make_game(game)
    match.reset(1)
    for move in moves:
        match.apply(next(action for action in match.legal_actions() if move in (action, action.split(",")[-1])))
    views = [match.observe(seat) for seat in range(match.spec.seats)]
    board = drawings(game, views, ["first", "second"])["god"]
    cells = [cell for row in board["rows"] for cell in row] if "stones" in shown else []
    stones = "".join(sorted(cell["stone"] for cell in cells if "stone" in cell))
    assert {"kind": board["kind"], "stones": stones} == {"kind": shown["kind"], "stones": shown.get("stones", "")}
    assert [hand["label"] for hand in board.get("hands", ())] == shown.get("hands", [])


def test_a_seats_drawing_has_its_own_cards_alone():
    both = drawings("kuhn_poker", ["Your card: Q\nMoves: none", "Your card: K\nMoves: none"], ["first", "second"])
    assert [[hand["cards"] for hand in seat["hands"]] for seat in both["seats"]] == [[["Q"]], [["K"]]]
    assert drawings("kuhn_poker", ["words of another game"] * 2, ["first", "second"]) is None
    assert drawings("debate", ["a box"], ["first"]) is None


def test_it_is_said_why_a_turn_weighs_nothing(run):
    trace = TokenTrace("main", (1,), (2, 3), (-0.7, 0.0), ("pass", "bet"))
    turn = Turn(0, "first", "main", "", ("pass", "bet"), "bet", "bet", 0.0, trace)
    request = MatchRequest(0, "kuhn_poker", 0, 0, ("main", "random"), (True, False))
    match = Episode(request, (turn,), (1.0, -1.0), EndReason.FINISHED)
    forced = turn._replace(trace=trace._replace(logprobs=(0.0, 0.0)))
    assert why_nothing(run, match, turn, 0.5) == ""
    assert "is 0" in why_nothing(run, match, turn, 0.0)
    assert "dropped" in why_nothing(run, match, turn, None)
    assert "only one allowed" in why_nothing(run, match, forced, 0.5)
    assert "not trained" in why_nothing(run, match, turn._replace(seat=1), 0.5)
    assert "no tokens" in why_nothing(run, match, turn._replace(trace=None), 0.5)


def test_a_cell_of_the_matrix_leads_to_the_matches_of_both(run):
    matrix = view(run, "matrix", {"game": "kuhn_poker"})
    a, b = next((a, b) for a, row in enumerate(matrix["cells"]) for b, cell in enumerate(row) if cell)
    pair = view(run, "pair", {"game": "kuhn_poker", "player": matrix["players"][a], "against": matrix["players"][b]})
    assert pair["total"] == matrix["cells"][a][b][2]
    assert all({*row["players"]} == {*pair["players"]} for row in pair["matches"])


def test_a_histogram_and_the_groups_hold_every_match_of_the_iteration(run):
    found = view(run, "results", {"game": "kuhn_poker", "at": "40"})
    for histogram in found["histograms"]:
        assert sum(each["count"] for each in histogram["bins"]) == found["total"]
    group = view(run, "group", {"game": "kuhn_poker", "at": "40", "deal": found["groups"][0]["deal"]})
    assert len(group["matches"]) == found["groups"][0]["size"]


def test_a_strategy_is_found_by_what_the_seat_sees_and_compared_by_cost(run):
    found = view(run, "states", {"game": "kuhn_poker", "find": "q BET"})
    assert {state["text"] for state in found["states"]} == {
        "first\nYour card: Q\nMoves: pass bet",
        "second\nYour card: Q\nMoves: bet",
    }
    best = view(run, "compare", {"game": "kuhn_poker", "a": "equilibrium", "b": "main-000000"})
    assert [state["cost"] for state in best["states"]] == sorted((s["cost"] for s in best["states"]), reverse=True)
    with pytest.raises(UsageError, match="main-000001"):
        view(run, "compare", {"game": "kuhn_poker", "a": "main-000001", "b": "main-000000"})


def test_json_of_an_answer_may_stand_in_a_page():
    text = as_json({"a</script>": [math.nan, math.inf, 0.5, "<!--&"]})
    assert not re.search("[<>&]", text)
    assert json.loads(text) == {"a</script>": [None, None, 0.5, "<!--&"]}


def test_one_file_holds_what_its_first_views_ask(run):
    page = look_page(run)
    kept = json.loads(re.search(r'id="kept">(.*?)</script>', page, re.DOTALL)[1])
    assert {"overview []", "tree []", "matches []"} <= kept.keys()
    assert any(name.startswith("match ") for name in kept)
    assert not re.search(r'(src|href)="https?:', page)


def asked(server, path, method="GET", headers=(), body=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request(method, path, body, dict(headers))
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


def test_the_door_needs_the_token_this_machines_name_and_no_other_page(run):
    with LookServer(run, 0) as server:
        own = f"/{server.token}"
        status, headers, page = asked(server, f"{own}/")
        assert status == 200
        assert "script-src 'self'" in headers["Content-Security-Policy"]
        assert headers["Referrer-Policy"] == "no-referrer"
        assert b"https:" not in page
        assert asked(server, f"{own}/main.js")[0] == 200
        assert json.loads(asked(server, f"{own}/api/overview")[2])["name"] == "pocket-0"
        for path in ("/", "/wrong/", "/wrong/api/overview", "/wrong/main.js", f"{own}/../setup.py", f"{own}/page.py"):
            assert asked(server, path)[0] == 404, path
        assert asked(server, f"{own}/api/nothing")[0] == 404
        assert asked(server, f"{own}/api/overview", headers={"Host": "evil.example"})[0] == 403
        post = {"Content-Type": "application/json"}
        assert asked(server, f"{own}/api/begin", "POST", {**post, "Origin": "http://evil.example"}, "{}")[0] == 403
        assert asked(server, f"{own}/api/begin", "POST", {"Content-Type": "text/plain"}, "{}")[0] == 415
        assert asked(server, f"{own}/api/close", "POST", post, "{}")[0] == 404
        assert asked(server, f"{own}/api/begin", "POST", post, "[]")[0] == 400
        told = asked(server, f"{own}/api/begin", "POST", post, '{"snapshot": "main-000001", "game": "go"}')[2]
        assert "main-000040" in json.loads(told)["error"]  # the nearest name


def test_tokens_of_an_adapters_matches_are_words_of_its_base():
    """The tokenizer is the base's; an adapter that does not say its base, or whose base is gone, leaves numbers."""
    run = RunFiles(OLDER, "adapted")
    snapshot = run.snapshots()[0]
    [tokenizer] = {(snapshot.path / "../../base/tokenizer.json").resolve()}
    known = Tokenizer.from_file(str(tokenizer))
    ids = tuple(known.encode("bet", add_special_tokens=False).ids)
    found = _tokenizer(run, TokenTrace(snapshot.id, (1,), ids, (-0.5,) * len(ids), None))
    assert "".join(_text(found, token) for token in ids).strip() == "bet"


def test_an_adapter_without_a_base_has_numbers_for_tokens(tmp_path):
    (tmp_path / "adapter_config.json").write_text("{}")
    assert _folder(tmp_path) == tmp_path
    (tmp_path / "adapter_config.json").write_text("no json")
    assert _folder(tmp_path) == tmp_path
    assert _text(None, 7) == "#7"


@pytest.mark.parametrize("name", ["ratings.json", "mixtures.json"])
@pytest.mark.parametrize("content", ["5", "[]", "{", '{"ratings": 5}', '{"toy": [5]}', "[" * 10**5, '"\\ud800"'])
def test_a_damaged_file_is_named(made_run, tmp_path, name, content):
    run = shutil.copytree(made_run, tmp_path / "run")
    (run / name).write_text(content)
    with pytest.raises(UsageError, match=rf"{name} is damaged"):
        view(RunFiles(run, "run"), "snapshot", {"id": "main-000040"})
