"""``league lab team``, whole: what it says of small runs, the same with the same seed, and which inputs it refuses."""

import json
import tomllib

import pytest

from league.cli.dispatch import main
from league.config.load import validate
from league.training.loop.session import train

SMALL = """
iterations = 2
snapshot_every = 1
threads = 1
episodes_kept = 0
board.time = 0.0
matchmaking = { self_play = 1.0, fictitious = 0.0 }
credit.rule = "reinforce"
model = { hidden_size = 16, layers = 1, intermediate_size = 16, vocabulary = 300 }
cold_start = { steps = 2, matches = 8 }
evaluation = { matches = 0, exact = false }
"""
RELAY = """
games.relay_arithmetic.matches = 8
roles.policy."relay_arithmetic/generator" = "a"
roles.policy."relay_arithmetic/verifier" = "b"
roles.policy."relay_arithmetic/refiner" = "a"
"""
GIVEN = """
games.relay_arithmetic.matches = 8
roles.player."relay_arithmetic/verifier" = "scripted:optimal"
"""
CHAIN = """
games."lookup_chain(hops=1,people=4,relations=1)".matches = 8
roles.policy."lookup_chain(hops=1,people=4,relations=1)/planner" = "main"
roles.policy."lookup(people=4,relations=1)/worker" = "sub"
"""
ALONE = """games."lookup_alone(hops=1,people=4,relations=1)".matches = 4\n"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("team")
    for name, own in {"relay": RELAY, "chain": CHAIN, "alone": ALONE, "given": GIVEN}.items():
        train(validate(tomllib.loads(own + SMALL)), folder / name)
    return folder


def report(capsys, *arguments):
    capsys.readouterr()
    assert main(["team", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_run_of_three_roles_and_two_policies(runs, capsys):
    asked = [runs / "relay", "--matches", "40", "--seed", "3"]
    found = report(capsys, *asked)
    assert found["game"] == "relay_arithmetic"
    kinds = [one["kind"] for one in found["comparisons"]]
    assert kinds == ["untrained", "stand-in"] * 3 + ["swapped"] * 2  # generator and refiner have one policy
    first = found["comparisons"][0]
    assert [player.rpartition("@")[2] for player in first["players"].values()] == ["a-000000", "b-000002", "a-000002"]
    assert set(found["roles"]) == {"generator", "verifier", "refiner"}
    assert [sentence.split()[0] for sentence in found["sentences"][:3]] == list(found["roles"])
    for one in found["comparisons"]:
        assert one["return"] == pytest.approx(found["team"]["return"] - one["loss"])
        assert one["loss_low"] <= one["loss"] <= one["loss_high"]
    assert found["alone"] is None
    assert found["team"]["trained_tokens"] > 0
    assert report(capsys, *asked) == found
    assert report(capsys, *asked[:-1], "4")["comparisons"] != found["comparisons"]


def test_a_planner_and_its_workers_beside_one_alone_and_scripts_apart(runs, capsys):
    found = report(
        capsys,
        *(runs / "chain", "--matches", "40", "--alone", runs / "alone", "--stand-in", "scripted:optimal"),
        *("--apart", "planner=scripted:optimal", "scripted:optimal"),
    )
    assert set(found["roles"]) == {"planner", "worker"}
    apart, alone = found["comparisons"][-2:]
    assert (apart["return"], apart["team_is"]) == (1.0, "worse")  # two who are always right
    assert alone["players"] == {"lookup_alone(hops=1,people=4,relations=1)": found["alone"]["player"]}
    generated = {snapshot: alone_tokens(runs / "alone", snapshot) for snapshot in (0, 1, 2)}
    nearest = min(generated, key=lambda step: abs(generated[step] - found["team"]["trained_tokens"]))
    assert found["alone"] == {
        "player": f"{runs / 'alone'}@main-{nearest:06d}",
        "trained_tokens": generated[nearest],
    }
    assert main(["team", str(runs / "chain"), "--matches", "20", "--alone", "scripted:optimal"]) == 0
    out = capsys.readouterr().out
    assert "One alone does better than the team" in out
    assert "one alone" in out


def test_a_role_that_is_given_to_a_player_has_no_untrained_self(runs, capsys):
    found = report(capsys, runs / "given", "--matches", "40", "--apart", "relay_arithmetic/refiner=scripted:optimal")
    assert [one["kind"] for one in found["comparisons"]] == [
        *("untrained", "stand-in", "stand-in", "untrained", "stand-in"),
        *("swapped", "swapped", "apart"),  # all but generator with refiner, whose policy is one
    ]
    assert found["team"]["players"]["verifier"] == "scripted:optimal"
    apart = found["comparisons"][-1]
    assert apart["players"] == {**found["team"]["players"], "refiner": "scripted:optimal"}
    assert apart["line_up"] == "refiner: trained apart"


def alone_tokens(run, step):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return sum(line.get("reply_tokens", 0.0) for line in lines if line["iteration"] <= step)


@pytest.mark.parametrize(
    ("run", "options", "part"),
    [
        ("nope", [], "There is no run named"),
        ("alone", [], "any game whose roles work together: it has lookup_alone"),
        ("relay", ["--game", "kuhn_poker"], "There is no game of"),
        ("relay", ["--margin", "2"], "--margin 2: give a share of the range"),
        ("relay", ["--margin", "nan"], "--margin nan: give a share of the range"),
        ("relay", ["--matches", "0"], "--matches 0: it should be a whole number"),
        ("relay", ["--alone", "random"], "names no game in which one player does the whole team's work"),
        ("relay", ["--apart", "boss=random"], "There is no role of the team named 'boss'"),
        ("relay", ["--apart", "random", "scripted:poor"], "Write ROLE=RUN; the roles are generator, verifier, refiner"),
        ("relay", ["--apart", "refiner=random", "refiner=random"], "refiner is named twice"),
        ("relay", ["--stand-in", "scripted:none"], "which has the scripts optimal, poor"),
        ("relay", ["--stand-in", "nobody"], "There is no player named 'nobody'"),
    ],
)
def test_wrong_inputs_are_told_in_a_sentence(runs, capsys, run, options, part):
    assert main(["team", str(runs / run), *options]) == 2
    error = capsys.readouterr().err
    assert error.startswith("league: ")
    assert part in error
    assert "Traceback" not in error
