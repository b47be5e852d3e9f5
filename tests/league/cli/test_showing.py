"""``league replay`` and ``league report``: what they print, what they refuse, and that they only read."""

import json
import re
import shutil
import subprocess
import sys

import pytest
from support.processes.runs import TINY, contents, league_train
from support.source import ROOT

from arena.replays import load_episodes
from benchmarks.speed.long_run import make_run
from league.cli import main
from league.population.storage.sampled_matches import load_samples, sample_files
from league.training.board.metrics_log import METRICS_FILE


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("small") / "small"
    make_run(path, iterations=4, snapshots=3, matches=4)
    return path


def refusal(capsys, *words):
    assert main(list(map(str, words))) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("league: ")
    assert "Traceback" not in captured.err
    return captured.err


def test_a_saved_match_is_shown_step_by_step(capsys, tmp_path):
    path = tmp_path / "matches.jsonl"
    assert main(["match", "random", "always:bet", "--game", "kuhn_poker", "--matches", "4", "--save", str(path)]) == 0
    capsys.readouterr()
    [first, second, *_] = load_episodes(path)
    assert main(["replay", str(path)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Match 0: kuhn_poker, first ")
    cards = re.findall(r"only (\w+) sees:\n +Your card: (\w)", text)
    assert cards[0][0], cards[1][0] == ("first", "second")
    assert cards[0][1] != cards[1][1]
    assert [line.split()[1] for line in text.splitlines() if line.startswith("  plays ")] == [
        turn.action for turn in first.turns
    ]
    assert main(["replay", str(path), "--match", "1"]) == 0
    gain = f"{second.returns[0]:+.2f}".replace("-", "−")
    assert f"Returns: first {gain}" in capsys.readouterr().out


def test_the_matches_of_a_run_are_listed(capsys, small_run):
    assert main(["replay", str(small_run), "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    kept = [sample for path in sample_files(small_run) for sample in load_samples(path)]
    assert len(lines) == len(kept) + 1
    assert lines[0].split()[:3] == ["match", "game", "iteration"]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["replay", "RUN", "--match", "5"], ["--match 5", "has the matches", "--list"]),
        (["replay", "RUN", "--html"], ["-o"]),
        (["replay", "RUN", "-o", "x.html"], ["--html"]),
        (["replay", "absent.jsonl"], ["absent.jsonl", "--save"]),
        (["replay", "runs/absent"], ["runs/absent"]),
        (["replay", "RUN", "--html", "-o", "/dev/null/x.html"], ["/dev/null/x.html"]),
        (["report", "RUN", "-o", "/dev/null/x.html"], ["/dev/null/x.html"]),
        (["report", "runs/absent", "-o", "x.html"], ["runs/absent"]),
        (["report", "RUN", "RUN", "-o", "x.html"], ["twice"]),
        (["report", "RUN", "RUN/.", "-o", "x.html"], ["same folder"]),
        (["report", "RUN"], ["-o"]),
        (["report", "-o", "x.html"], ["RUN"]),
    ],
)
def test_a_mistake_ends_with_two_and_a_sentence(capsys, small_run, words, parts):
    message = refusal(capsys, *[word.replace("RUN", str(small_run)) if word != "x.html" else word for word in words])
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("config.toml", "nonsense", "config.toml"),
        (METRICS_FILE, '{"iteration": 1}\nnonsense\n{"iteration": 3}\n', METRICS_FILE),
        (METRICS_FILE, "", "nothing to report yet"),
        ("mixtures.json", "{", "mixtures.json"),
        ("results.sqlite", "nonsense" * 1000, "results.sqlite"),
    ],
)
def test_a_damaged_run_is_told_in_a_sentence(capsys, small_run, tmp_path, name, content, part):
    path = tmp_path / "damaged"
    shutil.copytree(small_run, path)
    (path / name).write_text(content)
    assert part in refusal(capsys, "report", path, "-o", tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_damaged_matches_do_not_keep_a_report_from_the_rest(capsys, small_run, tmp_path):
    path = tmp_path / "damaged"
    shutil.copytree(small_run, path)
    sample_files(path)[-1].write_text("nonsense")
    assert main(["report", str(path), "-o", str(tmp_path / "page.html")]) == 0
    assert "is not a file of episodes" in (tmp_path / "page.html").read_text()
    assert "not a file of episodes" in capsys.readouterr().out + refusal(capsys, "replay", path)


def test_what_a_run_does_not_have_yet_is_left_out(small_run, tmp_path):
    """As after the first snapshot, before any match was recorded."""
    path = tmp_path / "young"
    path.mkdir()
    shutil.copy(small_run / "config.toml", path)
    (path / METRICS_FILE).write_text('{"iteration": 0, "rating": 25.0}\n{"iteration": 1, "rat')
    assert main(["report", str(path), "-o", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    for words in ("0 of 4 iterations (not finished", "No snapshot yet", "No two players have met", "No match has been"):
        assert words in page


def test_showing_a_run_changes_nothing_in_it(small_run, tmp_path):
    path = tmp_path / "shown"
    shutil.copytree(small_run, path)
    for entry in sorted(path.rglob("*"), reverse=True):
        entry.chmod(0o555 if entry.is_dir() else 0o444)
    path.chmod(0o555)

    def state():
        return {str(entry): entry.stat().st_mtime_ns for entry in [path, *path.rglob("*")] if entry.is_file()}

    before = state()
    assert main(["report", str(path), "-o", str(tmp_path / "page.html")]) == 0
    assert main(["replay", str(path), "--html", "-o", str(tmp_path / "match.html")]) == 0
    assert state() == before
    for entry in [path, *path.rglob("*")]:
        entry.chmod(0o755)


def test_a_run_that_trains_meanwhile_is_reported(tmp_path):
    """The trainer holds its store open, with a log beside it, while another process reads."""
    from league.population.results.match_store import STORE_FILE, MatchStore

    path = tmp_path / "training"
    make_run(path, iterations=4, snapshots=3, matches=4)
    with MatchStore(path / STORE_FILE) as store, (path / METRICS_FILE).open("a") as metrics:
        store.discard_after(3)
        metrics.write('{"iteration": 5, "main/ent')
        metrics.flush()
        words = [sys.executable, "-m", "league", "report", str(path), "-o", str(tmp_path / "page.html")]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "leads with" in (tmp_path / "page.html").read_text()


@pytest.mark.thorough
def test_training_keeps_matches_and_stays_the_same_bit_for_bit(tmp_path):
    shorter = TINY.replace("iterations = 6", "iterations = 2").replace("snapshot_every = 2", "snapshot_every = 1")
    runs = {}
    for kept in (0, 12):
        (tmp_path / "tiny.toml").write_text(shorter.replace("episodes_kept = 3", f"episodes_kept = {kept}"))
        runs[kept] = tmp_path / f"kept-{kept}"
        ended = league_train(tmp_path / "tiny.toml", run_dir=runs[kept])
        assert ended.status == 0, ended.output
    without, kept = (
        {name: content for name, content in contents(path).items() if not name.startswith(("episodes/", "config"))}
        for path in runs.values()
    )
    assert without == kept
    assert len(sample_files(runs[12])) == 2
    for path in sample_files(runs[12]):
        samples = load_samples(path)
        reasons = {reason for sample in samples for reason in sample.kept_as}
        assert reasons >= {"first", "best", "worst", "most surprising", "random"}
        assert len(samples) == 12
        for sample in samples:
            [advantages] = sample.advantages
            request = sample.episode.request
            assert [value is not None for value in advantages] == [
                request.trained[turn.seat] for turn in sample.episode.turns
            ]
            assert all(turn.trace.logprobs for turn in sample.episode.turns if turn.player == "main")


def test_a_report_names_its_metrics_as_the_log_does(small_run, tmp_path):
    assert main(["report", str(small_run), "-o", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    line = json.loads((small_run / METRICS_FILE).read_text().splitlines()[-1])
    assert all(f'data-chart="{name}"' in page for name in line if name.endswith("exploitability"))
