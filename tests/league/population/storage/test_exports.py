"""Kept matches go out with their prompts, log-probs and advantages, and whole ones come back equal."""

import json
import shutil
from pathlib import Path

import pytest

from arena.records import EndReason, Episode, MatchRequest, TokenTrace, Turn
from games.common.errors import UsageError
from games.registry import make_game
from league.cli import main
from league.config.load import load, seat_roles, write_run_config
from league.population.storage.exports import load_matches, openai_record, reply_rows, save_matches, trl_record
from league.population.storage.sampled_matches import SampledMatch, load_samples, save_samples
from roles.cards import with_overrides
from roles.prompts import messages

KUHN = make_game("kuhn_poker").spec
LEGAL = ("pass", "bet")


def turn(seat, reply, action, reward, trace=None, observation="Your card: K"):
    name = ("first", "second")[seat]
    return Turn(seat, name, ("main", "main-000002")[seat], observation, LEGAL, reply, action, reward, trace)


TRACE = TokenTrace("main", (5, 6, 7), (8, 9), (-0.1 - 0.2, -1e-300), None, 0.7)
MATCH = Episode(
    MatchRequest(3, "kuhn_poker", 11, 12, ("main", "main-000002"), (True, False), rule="fictitious"),
    (turn(0, "\u2028 oh", None, 0.0, TRACE), turn(0, "[bet]", "bet", 2.0, TRACE), turn(1, "[bet]", "bet", -2.0)),
    (2.0, -2.0),
    EndReason.FINISHED,
)
SAMPLES = [SampledMatch(MATCH, 4, ("first", "best"), ((0.1 + 0.2, -0.5, None),))]
ROLES = {
    "kuhn_poker": tuple(
        with_overrides(role, reply="free", on_illegal="retry", retries=2)
        for role in seat_roles(load("pocket-returns").roles, KUHN)
    )
}


def test_whole_matches_come_back_equal_to_the_last_bit(tmp_path):
    save_matches(tmp_path / "matches.jsonl", SAMPLES)
    assert load_matches(tmp_path / "matches.jsonl") == SAMPLES


def test_a_row_has_the_chat_that_its_reply_was_asked_for_with():
    first, second = reply_rows(SAMPLES, ROLES)
    role = ROLES["kuhn_poker"][0]
    assert first.prompt == messages(role, "Your card: K", LEGAL)
    assert [message["role"] for message in second.prompt] == ["system", "user", "assistant", "user"]
    assert second.prompt[2]["content"] == "\u2028 oh"
    assert "no answer in the form" in second.prompt[3]["content"]
    assert (second.reply, second.action, second.advantage, second.reward, second.match_return) == (
        "[bet]",
        "bet",
        -0.5,
        2.0,
        2.0,
    )
    assert (second.logprobs, second.prompt_ids, second.reply_ids) == (TRACE.logprobs, (5, 6, 7), (8, 9))
    assert (second.game, second.role, second.player, second.match, second.turn, second.iteration) == (
        "kuhn_poker",
        "first",
        "main",
        3,
        1,
        4,
    )


def test_seats_that_do_not_learn_are_left_out_unless_asked_for():
    assert [row.seat for row in reply_rows(SAMPLES, ROLES)] == [0, 0]
    third = list(reply_rows(SAMPLES, ROLES, all_seats=True))[2]
    assert (third.seat, third.advantage, third.logprobs, third.match_return) == (1, None, None, -2.0)


def test_records_have_the_keys_that_other_tools_read():
    row = next(reply_rows(SAMPLES, ROLES))
    trl = trl_record(row)
    assert trl["prompt"] == row.prompt
    assert trl["completion"] == [{"role": "assistant", "content": row.reply}]
    assert {"completion_ids", "prompt_ids", "logprobs", "advantage", "reward"} <= set(trl)
    assert openai_record(row) == {"messages": [*row.prompt, *trl["completion"]]}


@pytest.mark.parametrize("text", ["", "{}\n", '{"format": "league matches", "version": 1}\n{"episode": 1}\n', "x"])
def test_another_file_is_refused(tmp_path, text):
    (tmp_path / "file").write_text(text)
    with pytest.raises(UsageError, match="not a file of whole matches"):
        load_matches(tmp_path / "file")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a run's folder with matches of two iterations."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "runs" / "small"
    path.mkdir(parents=True)
    write_run_config(path, load("pocket-free"))
    for iteration in (2, 4):
        save_samples(path, iteration, [sample._replace(iteration=iteration) for sample in SAMPLES])
    return path


def test_a_run_is_exported_and_imported_without_loss(run, tmp_path, capsys):
    assert main(["export", "small", "-o", "all.jsonl"]) == 0
    assert capsys.readouterr().out == "all.jsonl: 2 matches, whole; `league lab import` reads them.\n"
    assert main(["import", "all.jsonl", "-o", "back"]) == 0
    assert "2 matches in 2 files" in capsys.readouterr().out
    for name in ("iteration-000002.jsonl", "iteration-000004.jsonl"):
        assert load_samples(tmp_path / "back/episodes" / name) == load_samples(run / "episodes" / name)
    assert main(["import", "all.jsonl", "-o", "back"]) == 2
    assert "has matches already" in capsys.readouterr().err


@pytest.mark.parametrize("style", ["trl", "openai"])
def test_other_formats_have_a_line_for_each_reply(run, style, capsys):
    assert main(["export", str(run), "--format", style]) == 0
    lines = [json.loads(line) for line in Path(f"small-{style}.jsonl").read_text(encoding="utf-8").split("\n")[:-1]]
    assert len(lines) == 4
    if style == "trl":
        assert [line["logprobs"] for line in lines] == [[-0.1 - 0.2, -1e-300]] * 4
        assert [line["advantage"] for line in lines] == [0.1 + 0.2, -0.5] * 2


def test_a_parquet_file_has_the_same_numbers(run):
    parquet = pytest.importorskip("pyarrow.parquet")
    assert main(["export", str(run), "--format", "parquet"]) == 0
    rows = parquet.read_table("small-parquet.parquet").to_pylist()
    assert main(["export", str(run), "--format", "trl"]) == 0
    lines = [json.loads(line) for line in Path("small-trl.jsonl").read_text(encoding="utf-8").split("\n")[:-1]]
    assert rows == lines


def test_a_run_without_matches_is_refused(run, capsys):
    shutil.rmtree(run / "episodes")
    assert main(["export", str(run)]) == 2
    assert "has kept no matches" in capsys.readouterr().err


@pytest.mark.parametrize("iteration", ["5", -1, 1.5, True, [1], 10**30])
def test_a_match_of_a_wrong_iteration_is_refused(tmp_path, iteration):
    save_matches(tmp_path / "f", SAMPLES)
    header, line, _ = (tmp_path / "f").read_text().split("\n")
    wrong = json.dumps({**json.loads(line), "iteration": iteration})
    (tmp_path / "f").write_text(f"{header}\n{wrong}\n")
    with pytest.raises(UsageError, match="its iteration is"):
        load_matches(tmp_path / "f")


@pytest.mark.parametrize("line", ["[" * 100_000, '{"episode": "\\ud800"}'])
def test_a_line_that_no_reader_can_hold_is_refused(tmp_path, line):
    save_matches(tmp_path / "f", SAMPLES)
    (tmp_path / "f").write_text(f"{(tmp_path / 'f').read_text().splitlines()[0]}\n{line}\n")
    with pytest.raises(UsageError, match="is not a file of whole matches"):
        load_matches(tmp_path / "f")
