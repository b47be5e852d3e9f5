"""An audit of players whose truth is known: its figures are those of other commands, and its controls find nothing."""

import json
import random
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
from support.browser import NARROW, WIDE, sideways_overflow
from support.processes.server import MODELS, Server, completion, error
from support.source import ROOT

from arena.records import Reply
from games.registry import make_game
from league.cli import main
from league.cli.measuring import audit as command
from league.cli.python.playing import exploitability, match
from league.lab.audit.audit import Audit, checkpoints_of, planted_leads
from league.lab.audit.findings import MOVED, _exploitable, _progress, chance_of, document, findings, reads_labels
from league.lab.audit.measures import (
    Control,
    Field,
    LaterEarlier,
    edit_effect,
    field_of,
    forfeits_of,
    later_and_earlier,
    margin_of,
)
from league.lab.audit.page import audit_page
from league.lab.audit.plan import GAMES, MATCHES, PLANTED, Kind, Pace, make_plan, tasks_of
from league.population.evaluation.head_to_head import A, compare
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.population.players.tabulating import TabulatedPolicy
from league.theory.exact.exploitability import PolicyTable, head_to_head, uniform_table
from league.theory.statistics import Estimate
from roles.role import OnIllegal

KUHN = make_game("kuhn_poker").spec
KNOWN = ("equilibrium", "random", "always:bet")


def audited(*names, minutes=10, games=None, monkeypatch=None):
    with Engines() as engines:
        return Audit(names, engines, minutes=minutes).run()


@pytest.fixture(scope="module")
def report(run_dir):
    return audited(str(run_dir), *KNOWN)


def test_exploitabilities_are_those_of_league_exploitability_bit_for_bit(report, run_dir):
    for player in (str(run_dir), *KNOWN):
        for one in (one for one in report.exploitabilities if one.player == player):
            if player == "always:bet" and one.spec.name != "kuhn_poker":
                continue
            alone = exploitability(player, game=one.spec.name)
            assert (one.nash_conv, one.values, one.best_responses) == (
                alone.nash_conv,
                alone.values,
                alone.best_responses,
            )
    games = {
        one.player: [o.spec.name for o in report.exploitabilities if o.player == one.player]
        for one in report.exploitabilities
    }
    assert games[str(run_dir)] == games["random"] == list(GAMES)
    random_play = next(one for one in report.exploitabilities if one.player == "random")
    assert random_play.nash_conv == pytest.approx(11 / 12)  # OpenSpiel's constant for uniform Kuhn poker


def test_matches_are_those_of_league_match_bit_for_bit(report, run_dir):
    assert {result.spec.name for result in report.matches} == {"kuhn_poker", "leduc_poker"}
    for result in report.matches:
        if result.spec.name == "kuhn_poker":
            alone = match(*result.players, game="kuhn_poker", matches=MATCHES)
            assert [episode.turns for episode in result.episodes] == [episode.turns for episode in alone.episodes]
            assert (result.lead, result.score, result.by_role) == (alone.lead, alone.score, alone.by_role)
    met = {result.players for result in report.matches if result.spec.name == "kuhn_poker"}
    assert (str(run_dir), "random") in met
    assert ("equilibrium", "always:bet") in met


def test_a_control_is_the_player_against_itself(report):
    for player in ("equilibrium", "always:bet"):
        [control] = [one for one in report.controls if (one.player, one.spec.name) == (player, "kuhn_poker")]
        assert control.lead == match(player, player, game="kuhn_poker", matches=MATCHES).lead
        assert control.matches == MATCHES


def test_what_a_script_cannot_do_is_said_and_the_rest_goes_on(report):
    refused = [str(task) for task, _ in report.refused]
    assert "the table of always:bet in renamed(kuhn_poker)" in refused
    assert "the table of equilibrium in renamed(kuhn_poker)" not in refused
    assert "the table of always:bet in leduc_poker" in refused
    assert not any("random" in task.players and task.kind is Kind.TABLE for task, _ in report.refused)


def test_margins_are_exact_and_the_equilibrium_leads(report, run_dir):
    kuhn = report.fields[0]
    i, j = kuhn.players.index(str(run_dir)), kuhn.players.index("random")
    with Engines() as engines:
        tables = [resolve(name, KUHN, engines).tabulate().table for name in (str(run_dir), "random")]
    expected = (head_to_head(tables)[0] + head_to_head(tables[::-1])[1]) / 2
    assert kuhn.margin[i, j] == pytest.approx(expected, abs=1e-12)
    assert kuhn.error[i, j] == 0.0
    assert not any(planted_leads(one) for one in report.fields)
    leduc = report.fields[-1]
    assert leduc.leader == "equilibrium"


def test_labels_are_read_as_an_attacker_reads_them(report, run_dir):
    edits = {one.game: one for one in report.edits if one.player == str(run_dir)}
    assert list(edits) == ["renamed(kuhn_poker)", "permuted(kuhn_poker)", "paraphrased(kuhn_poker)"]
    effect = edits["renamed(kuhn_poker)"]
    assert effect.after.mean == pytest.approx(exploitability(str(run_dir), game="renamed(kuhn_poker)").exploitability)
    assert effect.moved > 0.0
    assert {one.moved for one in report.edits if one.player == "random"} == {0.0}


def test_the_document_is_json_and_says_all(report, run_dir):
    read = json.loads(json.dumps(document(report), allow_nan=False))
    assert [one["game"] for one in read["null_control"] if one["player"] == "random"] == ["kuhn_poker", "leduc_poker"]
    by_role = next(one for one in read["exploitability"] if one["player"] == str(run_dir))["by_role"]
    gains = [role["gain"] for role in by_role.values()]
    assert sum(gains) / 2 == pytest.approx(exploitability(str(run_dir), game="kuhn_poker").exploitability)
    assert any("Null control" in one["text"] for one in read["findings"])


def test_checkpoints_of_a_run_are_met_by_its_newest(report, run_dir):
    line = checkpoints_of(str(run_dir))
    assert line == (f"{run_dir}@main-000000", str(run_dir))
    assert report.lines == (line,)
    step = next(one for one in report.progress if one.game == "kuhn_poker")
    assert (step.later, step.earlier) == line[::-1]
    newest = exploitability(f"{run_dir}@main-000010", game="kuhn_poker")
    assert newest.nash_conv == next(one for one in report.exploitabilities if one.player == str(run_dir)).nash_conv
    assert checkpoints_of("random") == ("random",)
    assert checkpoints_of(f"{run_dir}@main-000010") == (f"{run_dir}@main-000010",)


def pure(game, rows):
    return TabulatedPolicy(PolicyTable(game, rows), True, 0.0)


def test_players_that_go_round_are_named():
    game = "matrix_rps"
    keys = list(uniform_table(game).probabilities)
    names = ("rock", "paper", "scissors")
    tables = {name: pure(game, dict.fromkeys(keys, tuple(np.eye(3)[i]))) for i, name in enumerate(names)}
    one = field_of(make_game(game).spec, tables, names)
    [cycle] = one.cycles
    assert str(cycle) == "rock beats scissors beats paper beats rock"
    later = later_and_earlier(one, names)
    assert [(step.later, step.verdict, step.earlier) for step in later] == [
        ("paper", "beats", "rock"),
        ("scissors", "loses to", "rock"),
        ("scissors", "beats", "paper"),
    ]


def test_a_win_that_may_be_sampling_is_none():
    table = uniform_table("kuhn_poker")
    counts = dict.fromkeys(table.probabilities, (5, 3))
    rows = dict.fromkeys(table.probabilities, (5 / 8, 3 / 8))
    sampled = TabulatedPolicy(PolicyTable("kuhn_poker", rows), False, 0.0, counts=counts)
    one = field_of(KUHN, {"a": sampled, "b": TabulatedPolicy(table, True, 0.0)}, ("a", "b"))
    assert one.error[0, 1] == one.error[1, 0] > 0.0
    assert one.margin[0, 1] == pytest.approx(margin_of(sampled.table, table))
    [step] = later_and_earlier(one, ("b", "a"))
    assert step.verdict == "is level with"


def test_an_unmoved_strategy_that_was_sampled_moves_by_noise_alone():
    rng, table = np.random.default_rng(0), uniform_table("kuhn_poker")

    def drawn():
        counts = {key: tuple(rng.multinomial(64, row).tolist()) for key, row in table.probabilities.items()}
        rows = {key: tuple((np.array(row) / 64).tolist()) for key, row in counts.items()}
        return TabulatedPolicy(PolicyTable("kuhn_poker", rows), False, 0.0, counts=counts)

    effects = [edit_effect("a", "renamed(kuhn_poker)", drawn(), drawn()) for _ in range(10)]
    assert np.mean([one.moved for one in effects]) == pytest.approx(np.mean([one.noise for one in effects]), rel=0.25)
    assert max(one.moved for one in effects) > MOVED, "without its noise it would count as moved"
    assert not any(map(reads_labels, effects))


def test_a_planted_player_that_leads_is_reported():
    rows = uniform_table("kuhn_poker").probabilities
    folds = pure("kuhn_poker", dict.fromkeys(rows, (1.0, 0.0)))  # never bets, and folds to every bet
    one = field_of(KUHN, {"folds": folds, "random": pure("kuhn_poker", rows)}, ("folds", "random"))
    assert one.leader == "random"
    assert planted_leads(one)


class FailsAsSecond:
    """Bets at random; in the second seat its reply to a bet is not an action, when it holds a jack."""

    def sample(self, requests):
        return [
            Reply("?" if "Your card: J" in r.observation and "bet" in r.observation else r.rng.choice(r.legal))
            for r in requests
        ]


def test_forfeits_are_counted_by_role_and_turn_and_strength_is_given_without_them():
    with Engines() as engines:
        base = resolve("random", KUHN, engines)
        forfeiting = [
            role.model_copy(update={"conduct": role.conduct.model_copy(update={"on_illegal": OnIllegal.FORFEIT})})
            for role in base.roles
        ]
        members = ((("fails", 1.0),),) * 2
        failing = type(base)("fails", KUHN, FailsAsSecond(), tuple(forfeiting), members)
        result = compare((failing, base), 400, 0)
    counted = forfeits_of(result)
    expected = {"first": 0, "second": 0}
    turns = {}
    leads = []
    for scheduled, episode in zip(result.matches, result.episodes, strict=True):
        seat = scheduled.seating.index(A)
        if episode.offender is not None:
            assert episode.offender == seat
            expected[("first", "second")[seat]] += 1
            own = sum(turn.seat == seat for turn in episode.turns)
            turns[own] = turns.get(own, 0) + 1
        else:
            leads.append(episode.returns[seat] - episode.returns[1 - seat])
    assert counted.by_role == expected
    assert set(counted.by_turn) == {1, 2}  # as second at its first turn, as first at its second
    assert counted.by_turn == turns
    assert (counted.forfeited, counted.against) == (sum(expected.values()), 0)
    assert counted.unforfeited == 400 - counted.forfeited == len(leads)
    assert counted.lead_unforfeited.mean == pytest.approx(np.mean(leads))
    assert counted.lead_unforfeited.mean > counted.lead.mean


def test_a_null_control_finds_a_difference_in_one_of_twenty_at_most():
    repeats, found = 200, 0
    with Engines() as engines:
        player = resolve("random", KUHN, engines)
        for seed in range(repeats):
            result = compare((player, player), 100, seed)
            found += Control("random", KUHN, 100, result.lead).differs
    assert found / repeats <= 0.05 + 3.0 * (0.05 * 0.95 / repeats) ** 0.5
    assert found > 0  # a control that never finds anything would not find a difference that is there


def test_an_exploitability_that_was_sampled_is_below_that_of_random_play_only_with_its_interval():
    def read(player, mean, *interval):
        sampled = SimpleNamespace(mean=(mean, *interval)) if interval else None
        return SimpleNamespace(player=player, spec=KUHN, exploitability=mean, sampled=sampled)

    for high, good in ((0.6, False), (0.4, True)):
        rows = [read(PLANTED, 0.5), read("sampled", 0.3, 0.2, high)]
        [finding] = _exploitable(SimpleNamespace(players=("sampled", PLANTED), exploitabilities=rows))
        assert finding.good is good
        assert finding.text.endswith(f"loses in {int(good)} of 1 games.")


def test_the_mean_margin_is_over_the_other_ranked_players():
    margin = np.array([[0.0, 0.3, 0.9], [-0.3, 0.0, 0.1], [-0.9, -0.1, 0.0]])
    field = Field(KUHN, ("a", "b", "c"), margin, margin * 0, (), ("a", "b", "c"))
    assert [field.mean_margin(name) for name in "abc"] == pytest.approx([0.6, -0.1, -0.5])
    assert field._replace(ranked=("b", "c")).mean_margin("b") == pytest.approx(0.1)


def test_what_is_said_of_a_runs_checkpoints_is_what_the_newest_does():
    """The middle one beats the first; that is its own matter."""
    steps = [("b", "a", (0.5, 0.4, 0.6)), ("c", "a", (-0.5, -0.6, -0.4)), ("c", "b", (0.0, -0.1, 0.1))]
    progress = [LaterEarlier("kuhn_poker", later, earlier, Estimate(*lead)) for later, earlier, lead in steps]
    [finding] = _progress(SimpleNamespace(lines=[("a", "b", "c")], progress=progress, fields=[]))
    assert finding.text == "In kuhn_poker c beats 0 of 2 earlier checkpoints, and loses to a."


def test_how_many_differences_are_chance():
    assert chance_of(0, 8) == pytest.approx(1.0)
    assert chance_of(1, 1) == pytest.approx(0.05)
    assert chance_of(1, 8) == pytest.approx(1 - 0.95**8)
    assert chance_of(3, 8) < 0.01


def test_the_plan_takes_what_is_worth_most_and_leaves_out_what_is_long():
    tasks = list(tasks_of(["a"], ["a@0"]))
    assert [str(task) for task in tasks[:3]] == [
        "the table of a in kuhn_poker",
        "the table of random in kuhn_poker",
        "the table of a@0 in kuhn_poker",
    ]
    with Engines() as engines:
        players = {
            (name, task.game): resolve("random", make_game(task.game).spec, engines)
            for task in tasks
            for name in task.players
        }
    slow, fast = Pace(0.5, 1), Pace(0.0, 1)
    plan = make_plan(tasks, players, 3, paces={"a": slow, "a@0": fast, "random": fast})
    chosen, left = [[str(planned.task) for planned in part] for part in (plan.tasks, plan.left_out)]
    assert chosen[0] == "the table of a in kuhn_poker"
    assert "the table of a in leduc_poker" in left  # 936 states of half a second
    assert "the table of random in leduc_poker" in chosen  # and what comes after it still fits
    assert plan.seconds <= 180.0
    assert not plan.costs()
    assert any("Left out" in sentence for sentence in plan.sentences())


def behave(number, body):
    """Of an endpoint: bets in three of four, and breaks the rules now and then."""
    words = body["messages"][-1]["content"]
    draw = random.Random(f"{words}/{number}").random()
    return completion("[oops]" if draw < 0.3 else "[bet]" if draw < 0.75 else "[pass]")


def quick(monkeypatch):
    """Only Kuhn poker, and few matches."""
    monkeypatch.setattr("league.lab.audit.plan.GAMES", GAMES[:1])
    monkeypatch.setattr("league.lab.audit.audit.GAMES", GAMES[:1])
    monkeypatch.setattr("league.lab.audit.plan.MET_IN", GAMES[:1])
    for module in ("plan", "audit"):
        monkeypatch.setattr(f"league.lab.audit.{module}.MATCHES", 40)


def test_an_endpoint_is_asked_what_was_said_and_after_a_kill_only_what_is_missing(tmp_path, capsys, monkeypatch):
    quick(monkeypatch)
    page, answers = tmp_path / "page.html", tmp_path / "page.answers.jsonl"
    with Server(behave) as server:
        name = f"openai:{MODELS[0]}@{server.url}"
        words = ["audit", name, "-o", str(page), "--replies", "8", "--json"]
        assert main(["audit", name, "--plan", "--json", "--replies", "8"]) == 0
        [cost] = json.loads(capsys.readouterr().out)["costs"]
        beside = len(server.seen)  # words that take the pace and ask for log-probs
        assert beside <= 3
        server.seen.clear()
        server.behave = lambda number, body: behave(number, body) if number < 150 else error(401, "stopped")
        assert main(words) != 0
        capsys.readouterr()
        kept = len(answers.read_text().splitlines())
        assert 100 <= kept <= 150
        assert not page.exists()
        server.behave = behave
        server.seen.clear()
        assert main(words) == 0
        report = json.loads(capsys.readouterr().out)
        asked = len(server.seen) - beside
        total = len(answers.read_text().splitlines())
        assert total - kept == asked
        server.seen.clear()
        assert main(words) == 0
        again = json.loads(capsys.readouterr().out)
        assert len(server.seen) == beside  # nothing but those words
    assert total <= cost["requests"]
    assert again["exploitability"] == report["exploitability"]
    assert again["matches"] == report["matches"]
    table = next(one for one in report["exploitability"] if one["player"] == name)
    assert table["interval"][0] <= table["exploitability"] <= table["interval"][1]
    forfeits = [one for one in report["forfeits"] if one["player"] == name]
    assert forfeits[0]["illegal_rate"] > 0.0
    assert page.exists()


QUICK = """
import sys
from league.cli import main
from league.lab.audit import audit, plan
plan.GAMES = audit.GAMES = plan.MET_IN = plan.GAMES[:1]
plan.MATCHES = audit.MATCHES = 40
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.thorough
def test_after_a_real_kill_no_answer_is_asked_for_again(tmp_path, capsys, monkeypatch):
    """What was under way when it was killed, one request a slot, was never answered, and is asked for again."""
    quick(monkeypatch)
    page, answers, slots = tmp_path / "page.html", tmp_path / "page.answers.jsonl", 16
    with Server(behave) as server:
        words = ["audit", f"openai:{MODELS[0]}@{server.url}", "-o", str(page), "--replies", "8", "--json"]
        killed = subprocess.Popen([sys.executable, "-c", QUICK, *words], cwd=ROOT, stderr=subprocess.DEVNULL)
        while len(server.seen) < 150:
            assert killed.poll() is None
            time.sleep(0.01)
        killed.kill()
        killed.wait()
        asked = len(server.seen)
        kept = answers.read_bytes().count(b"\n")
        assert not page.exists()
        server.seen.clear()
        assert main(words) == 0
        missing = len(server.seen)
        total = answers.read_bytes().count(b"\n")
        server.seen.clear()
        assert main(words) == 0
        beside = len(server.seen)  # words that take the pace and ask for log-probs
    capsys.readouterr()
    assert beside <= 3
    assert missing - beside == total - kept
    assert 0 <= asked - beside - kept <= slots
    assert page.exists()


HEADINGS = [
    "How exploitable is it?",
    "Does a later one beat earlier ones, or is there a cycle?",
    "Strength, with forfeits shown separately",
    "Does it read the cards, or the labels?",
    "Seats",
    "Controls",
    "Plan and cost",
]


@pytest.mark.thorough
@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_in_a_browser_answers_every_question(browser, report, run_dir, tmp_path, width, dark):
    path = tmp_path / "audit.html"
    path.write_text(audit_page(report), encoding="utf-8")
    with browser.open(path, width=width, dark=dark, offline=True) as page:
        assert sideways_overflow(page) == 0
        assert page.locator("h2").all_inner_texts() == HEADINGS
        for link in page.locator("nav.contents a").all():
            assert page.locator(link.get_attribute("href")).count() == 1
        assert page.locator("ul.findings li").all_inner_texts() == [
            f"{ {True: '✓', False: '✗', None: '·'}[one.good] } {one.text}" for one in findings(report)
        ]
        [row] = [
            row
            for row in page.locator("#exploitability table").first.locator("tbody tr").all()
            if row.locator("td.player").inner_text() == str(run_dir)
        ]
        own = [one for one in report.exploitabilities if one.player == str(run_dir)]
        assert row.locator("td.number").all_inner_texts() == [f"{one.exploitability:.3f}" for one in own]
        assert page.locator("#exploitability h3").count() == len(GAMES)
        assert page.locator("#progress table.matrix").count() == len(report.fields)
        assert page.locator("#forfeits tbody tr").count() == len(report.forfeits)
        assert page.locator("#labels tbody tr").count() == len(report.edits)
        assert page.locator("#controls tbody tr").count() == len(report.controls)
        assert "cannot take part in" in page.locator("#plan summary").first.inner_text()
        page.locator("#plan summary").last.click()
        assert page.locator("#plan ol li:visible").count() == len(report.plan.tasks)


@pytest.mark.thorough
def test_a_hostile_page_runs_nothing(browser, report, tmp_path):
    evil = """</script><script>window.broken = 1</script><img src=x onerror="window.broken=1">{{ 7*7 }}"""
    path = tmp_path / "audit.html"
    own = tuple(one._replace(player=evil, roles=(evil,) * len(one.roles)) for one in report.exploitabilities)
    path.write_text(audit_page(report._replace(players=(evil,), exploitabilities=own)), encoding="utf-8")
    with browser.open(path, offline=True) as page:
        assert page.evaluate("window.broken") is None
        assert evil in page.locator("h1").inner_text()
        assert sideways_overflow(page) == 0


def test_hostile_names_and_replies_stay_text(report):
    evil = '<img src=x onerror="alert(1)">'
    page = audit_page(
        report._replace(
            players=(evil,),
            exploitabilities=tuple(
                one._replace(player=evil, roles=(evil,) * len(one.roles)) for one in report.exploitabilities
            ),
            forfeits=tuple(
                one._replace(player=evil, by_role={evil: 1}, by_turn={1: 1}, forfeited=1) for one in report.forfeits
            ),
            refused=((report.plan.tasks[0].task, evil),),
        )
    )
    assert "<img" not in page
    assert "&lt;img" in page


def test_a_player_that_is_named_twice_or_is_none_is_refused(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["audit", "random", "random"]) == 2
    assert "named twice" in capsys.readouterr().err
    assert main(["audit", "radnom"]) == 2
    assert "random" in capsys.readouterr().err
    assert main(["audit", "random", "-o", ""]) == 2
    assert "-o" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_command_prints_what_follows_and_where_the_page_is(tmp_path, capsys, monkeypatch):
    quick(monkeypatch)
    monkeypatch.chdir(tmp_path)
    assert main(["audit", "random"]) == 0
    out, err = capsys.readouterr()
    assert "Null control" in out
    assert "audit.html has the whole audit" in err
    page = (tmp_path / "audit.html").read_text()
    assert "<!doctype html>" in page
    assert "No matches were played." in page  # random is not met by itself
    assert "−0.000" not in page
    assert command.MINUTES == 10
