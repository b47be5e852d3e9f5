"""The command line: fast to answer, clear about mistakes, and pure where a program reads it."""

import json
import resource
import shutil
import subprocess
import sys

import pytest
from support.source import ROOT

from arena.replays import load_episodes
from league.cli import main
from league.config.load import load_run_config, write_run_config

LEAGUE = [sys.executable, "-m", "league"]


def refusal(capsys, *words):
    assert main(list(map(str, words))) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.lstrip("\n").startswith("league: ")
    assert "Traceback" not in captured.err
    return captured.err


def document(capsys, *words):
    assert main([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def words(capsys, *arguments):
    assert main(list(map(str, arguments))) == 0
    return capsys.readouterr().out


@pytest.mark.timed
@pytest.mark.parametrize("arguments", [["--help"], ["games"], ["games", "--json"], ["match", "--help"]])
def test_the_whole_process_takes_less_than_seven_tenths_of_a_second(arguments):
    """Of a core's time, the best of a few: on the clock it depends on what else the machine does."""
    times = []
    for _ in range(4):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([*LEAGUE, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert done.returncode == 0, done.stderr
    assert min(times) < 0.7


@pytest.mark.parametrize("arguments", [["--help"], ["games"], ["nonsense"]])
def test_an_answer_needs_no_torch(arguments):
    code = f"import sys; from league.cli import main\ntry: main({arguments})\nexcept SystemExit: pass\n"
    code += "sys.exit('torch' in sys.modules or 'scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["trian"], ["'trian'", "train"]),
        (["games", "--jsn"], ["'--jsn'", "--json"]),
        (["--hepl"], ["'--hepl'", "--help"]),
        (["games", "extra"], ["extra"]),
        (["match", "random"], ["--game", "league match --help"]),
        (["match", "random", "random", "--game", "kuhn_pokr"], ["kuhn_pokr", "kuhn_poker"]),
        (["match", "random", "randon", "--game", "kuhn_poker"], ["randon", "random"]),
        (["match", "random", "random", "--game", "kuhn_poker", "--matches", "0"], ["--matches 0"]),
        (["match", "random", "random", "--game", "kuhn_poker", "--matches", "x"], ["--matches", "'x'"]),
        (
            ["match", "random", "random", "--game", "lookup", "--seatings", "1"],
            ["--seatings", "each player plays alone"],
        ),
        (
            ["match", "random", "random", "--game", "kuhn_poker", "--until", "0.9", "--seatings", "1"],
            ["--seatings leaves out some of their seatings"],
        ),
        (["match", "random", "equilibrium", "--game", "tiny_hanabi"], ["tiny_hanabi"]),
        (["exploitability", "random", "--game", "negotiation"], ["negotiation"]),
        (["standings", "runs/absent"], ["runs/absent"]),
        (["board", "runs/absent"], ["runs/absent"]),
        (["play", "--game", "kuhn_poker", "--against", "random", "--seat", "2"], ["seats 0 to 1"]),
        (["train", "poket"], ["poket"]),
        (["train", "pocket", "--set", "nonsense"], ["'='"]),
    ],
)
def test_a_mistake_ends_with_two_and_a_sentence(capsys, arguments, parts):
    message = refusal(capsys, *arguments)
    for part in parts:
        assert part in message


def test_match_in_json_has_the_promised_keys_and_nothing_else_on_stdout(capsys):
    report = document(capsys, "match", "random", "equilibrium", "--game", "kuhn_poker", "--matches", 41)
    assert report["matches"] == 42
    assert report["players"] == ["random", "equilibrium"]
    assert report["score_a_low"] < report["score_a"] < report["score_a_high"]
    assert set(report["by_role"]) == {"first", "second"}
    assert report["by_role"]["first"]["matches"] == 21
    assert report["illegal_rate"] == 0.0
    assert report["return_a"] == pytest.approx(-report["return_b"])
    assert report["transcript"][-1].startswith("The match is over.")


def test_a_match_shows_beliefs_where_it_is_asked_and_plays_the_same(capsys):
    """Before anything is said a right clue gives the wolf 1/4 + 20 % of 3/4 = 0.4, a wrong one a third of the rest."""
    command = ("match", "scripted:bayes", "scripted:bayes", "--game", "hidden_roles", "--matches", 1, "--seed", 1)
    plain, asked = document(capsys, *command), document(capsys, *command, "--beliefs")
    curves = [line for line in asked["transcript"] if line.startswith("Belief in the truth, probe wolf, seat ")]
    assert [line.split(": ")[1].split()[0] for line in curves] == ["0.40", "0.40", "0.20", "0.20"]
    assert [line for line in asked["transcript"] if line not in curves] == plain["transcript"]
    told = ("beliefs", "transcript", "transcripts")
    assert {name: value for name, value in asked.items() if name not in told} == {
        name: value for name, value in plain.items() if name not in told
    }
    assert not any(plain["beliefs"])
    assert all(asked["beliefs"])


def test_few_seatings_of_a_deal_are_its_first_ones_and_as_many_matches_are_shown(capsys):
    """Five seats have 2^5 - 2 seatings; of one with the second player in the last seat alone, it has no villager_4."""
    command = ("match", "scripted:bayes", "random", "--game", "hidden_roles(days=1,form=1)", "--seed", 1)
    every = document(capsys, *command, "--matches", 31, "--transcripts", 60)
    few = document(capsys, *command, "--matches", 2, "--seatings", 1, "--transcripts", 2)
    assert (every["matches"], every["deals"], few["matches"], few["deals"]) == (60, 2, 2, 2)
    assert few["transcripts"][0] == every["transcripts"][0] == few["transcript"]
    assert len(few["transcripts"]) == 2
    assert {name: role["matches"] for name, role in few["by_role"].items()} == {
        "wolf": 2,
        **{f"villager_{number}": 2 for number in (1, 2, 3)},
    }
    said = words(capsys, *command, "--matches", 2, "--seatings", 1, "--transcripts", 2)
    assert "each played in 1 of 30 seatings" in said
    assert [line for line in said.splitlines() if line.startswith("Match ")] == ["Match 0:", "Match 1:"]


def test_where_all_ends_of_a_small_game_pay_all_alike_nobody_is_stronger(capsys):
    """OpenSpiel calls lewis_signaling general-sum. Random talk names one of three things right: 1/3."""
    said = words(capsys, "match", "random", "random", "--game", "lewis_signaling", "--matches", 20)
    assert "In this game all players get the same." in said
    assert "33.3% of the best possible, 1." in words(capsys, "exploitability", "random", "--game", "lewis_signaling")


def test_one_deal_has_null_where_there_is_no_interval(capsys):
    report = document(capsys, "match", "random", "random", "--game", "kuhn_poker", "--matches", 1)
    assert report["score_a_low"] is None


def test_match_in_words_tells_who_is_stronger(capsys):
    text = words(capsys, "match", "equilibrium", "random", "--game", "kuhn_poker", "--matches", 4000)
    assert "equilibrium is stronger than random." in text
    text = words(capsys, "match", "random", "random", "--game", "kuhn_poker", "--matches", 20)
    assert "do not show who is stronger" in text
    text = words(capsys, "match", "random", "random", "--game", "tiny_hanabi", "--matches", 20)
    assert "of the best possible, 10" in text


def test_saved_matches_are_one_json_line_each(capsys, tmp_path):
    file = tmp_path / "deep" / "episodes.jsonl"
    document(capsys, "match", "random", "random", "--game", "kuhn_poker", "--matches", 6, "--save", file)
    saved = load_episodes(file)
    assert [episode.request.index for episode in saved] == list(range(6))


def test_exploitability_of_uniform_play(capsys):
    report = document(capsys, "exploitability", "random", "--game", "kuhn_poker")
    assert report["nash_conv"] == pytest.approx(11 / 12)
    assert report["exploitability"] == pytest.approx(11 / 24)
    assert report["exact"] is True
    assert report["game_value"] == pytest.approx(-1 / 18)
    assert "0.458" in words(capsys, "exploitability", "random", "--game", "kuhn_poker")


def test_exploitability_of_a_cooperative_game_tells_the_share_of_the_optimum(capsys):
    report = document(capsys, "exploitability", "random", "--game", "tiny_hanabi")
    assert report["cooperative"]
    assert report["share_of_optimum"] == pytest.approx(67 / 180)
    assert "cooperative" in words(capsys, "exploitability", "random", "--game", "tiny_hanabi")


def test_a_run_is_measured_through_every_command(capsys, run_dir):
    assert document(capsys, "exploitability", run_dir, "--game", "kuhn_poker")["exact"] is True
    report = document(capsys, "match", f"{run_dir}@mixture", run_dir, "--game", "kuhn_poker", "--matches", 10)
    assert report["illegal_rate"] == 0.0
    standings = document(capsys, "standings", run_dir)
    assert standings["snapshots"] == ["main-000000", "main-000010"]
    kuhn = standings["games"]["kuhn_poker"]
    assert [point["iteration"] for point in kuhn["exploitability"]] == [0, 10]
    assert {line["player"] for line in kuhn["ratings"]} == set(standings["snapshots"])
    assert {(pair["player"], pair["role"], pair["matches"]) for pair in kuhn["payoffs"]} >= {
        ("main-000000", "first", 10.0),
        ("main-000010", "second", 10.0),
    }
    text = words(capsys, "standings", run_dir)
    assert "10 of 20 iterations" in text
    assert "main-000010 (newest)" in text


def test_games_lists_the_facts(capsys):
    report = document(capsys, "games")
    facts = {game["name"]: game for game in report["games"]}
    assert facts["kuhn_poker"]["roles"] == ["first", "second"]
    assert facts["tiny_hanabi"]["utility"] == "identical"
    assert "goofspiel" in report["others"]
    assert "kuhn_poker(players=3)" in words(capsys, "games")


def test_a_person_plays_a_match(capsys, monkeypatch):
    answers = iter(["raise", "2"])
    monkeypatch.setattr("builtins.input", lambda _: next(answers))
    text = words(capsys, "play", "--game", "kuhn_poker", "--against", "random", "--seat", 1, "--seed", 0)
    assert "'raise' is not one of: pass, bet." in text
    assert "you" in text
    assert "The match is over." in text


def test_a_person_is_told_what_the_runs_own_cards_say(run_dir, tmp_path, capsys, monkeypatch):
    """The opponent was told so too; without the cards a match would be played in words that it never heard."""
    cards = shutil.copytree(ROOT / "roles/cards", tmp_path / "cards")
    card = cards / "kuhn_poker.toml"
    card.write_text(card.read_text().replace("The deck is J, Q, K", "Aboard this ship the deck is J, Q, K"))
    run = shutil.copytree(run_dir, tmp_path / "run")
    config = load_run_config(run)
    write_run_config(run, config.model_copy(update={"roles": config.roles.model_copy(update={"cards": str(cards)})}))
    monkeypatch.setattr("builtins.input", lambda _: "1")
    for seat, name in enumerate(("first", "second")):
        text = words(capsys, "play", "--game", "kuhn_poker", "--against", run, "--seat", seat, "--seed", 0)
        assert f"You are the {name} player in two-player Kuhn poker. Aboard this ship the deck is" in " ".join(
            text.split()
        )
    text = words(capsys, "play", "--game", "kuhn_poker", "--against", run_dir, "--seed", 0)
    assert "Aboard" not in text


def test_a_person_may_leave(capsys, monkeypatch):
    def leave(_):
        raise EOFError

    monkeypatch.setattr("builtins.input", leave)
    assert main(["play", "--game", "kuhn_poker", "--against", "random"]) == 130
    assert "left" in capsys.readouterr().err


def test_the_board_serves_and_stops(run_dir):
    command = [*LEAGUE, "board", str(run_dir), "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        address = process.stdout.readline()
        assert "http://localhost:" in address
        process.send_signal(2)  # Ctrl-C
        assert process.wait(timeout=20) == 0


def test_the_command_searches_for_garbage_seldom_and_not_at_its_end():
    """To import torch took a second more, and to end another."""
    program = """import gc; from league.cli import command
status = command()
print(gc.get_freeze_count() > 0, *gc.get_threshold(), status)"""
    words = [sys.executable, "-c", program, "show", "presets"]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.splitlines()[-1].split() == ["True", "500000", "50", "100", "0"]
