"""What a run measured is written once for each iteration, whatever interrupted it."""

import json
import re
from urllib.parse import parse_qs, urlparse
from urllib.request import urlopen

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from games.common.errors import UsageError
from league.training.board.metrics_log import MetricsLog, read_metrics, read_mixtures
from league.training.board.questions import pinned_metrics
from league.training.board.server import serve_tensorboard
from league.training.monitors.alarms import Alarm


def scalars(path, name):
    events = EventAccumulator(str(path / "tb"))
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(name)]


def test_both_places_hold_every_iteration(tmp_path):
    with MetricsLog(tmp_path) as board:
        board.write(0, {"a/b": 1.0, "c": 2.0})
        board.write(1, {"a/b": 3.0})
    assert list(read_metrics(tmp_path)) == [{"iteration": 0, "a/b": 1.0, "c": 2.0}, {"iteration": 1, "a/b": 3.0}]
    assert scalars(tmp_path, "a/b") == [(0, 1.0), (1, 3.0)]


@pytest.mark.parametrize("times", range(12))  # TensorBoard numbers a process's files, and 10 sorts before 9
def test_a_resumed_run_replaces_what_was_written_past_its_state(times, tmp_path):
    with MetricsLog(tmp_path) as board:
        for iteration in range(5):
            board.write(iteration, {"x": float(iteration)})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 5, "x"')  # the process was killed here
    assert len(list(read_metrics(tmp_path))) == 5
    with MetricsLog(tmp_path, resume_at=3) as board:
        board.write(3, {"x": 30.0})
    assert [line["x"] for line in read_metrics(tmp_path)] == [0.0, 1.0, 2.0, 30.0]
    assert scalars(tmp_path, "x") == [(0, 0.0), (1, 1.0), (2, 2.0), (3, 30.0)]


def test_an_alarm_is_a_curve_and_its_words_stand_at_the_iteration_in_which_it_began(tmp_path):
    first = Alarm("drift", "kuhn_poker/first", "its mean is +0.5.", 2)
    with MetricsLog(tmp_path) as board:
        board.write(1, {"alarms/drift": 0.0})
        board.write(2, {"alarms/drift": 1.0}, [first])
        board.write(3, {"alarms/drift": 1.0}, [first._replace(message="its mean is +0.6.")])
    assert [line["alarms/drift"] for line in read_metrics(tmp_path)] == [0.0, 1.0, 1.0]
    assert scalars(tmp_path, "alarms/drift") == [(1, 0.0), (2, 1.0), (3, 1.0)]
    events = EventAccumulator(str(tmp_path / "tb"))
    events.Reload()
    (words,) = events.Tensors("alarms/drift/kuhn_poker/first")
    assert words.step == 2
    assert words.tensor_proto.string_val[0].decode() == f"    {first}"


def test_an_alarm_is_pinned_once_it_has_rung():
    lines = [{"alarms/drift": 0.0, "alarms/entropy": 0.0, "gap": 0.0}, {"alarms/drift": 1.0, "alarms/entropy": 0.0}]
    assert pinned_metrics(lines) == ["alarms/drift", "gap"]


def test_a_metric_that_is_not_finite_is_refused_by_name(tmp_path):
    with MetricsLog(tmp_path) as board, pytest.raises(ValueError, match="loss"):
        board.write(0, {"fine": 1.0, "loss": float("nan")})
    assert list(read_metrics(tmp_path)) == []


def test_a_run_without_metrics_has_none(tmp_path):
    assert list(read_metrics(tmp_path)) == []


def test_exploitability_is_pinned_first_and_a_score_that_cannot_move_not_at_all():
    first = {"gap": 0.0, "tiny_hanabi/score/signaller": 0.5, "kuhn_poker/score/first": 0.4, "illegal_rate": 0.0}
    first |= {"probe/kuhn_poker/score_against_random": 0.5, "tic_tac_toe/score_against_random": 0.5}
    first |= {"rating": 25.0, "kuhn_poker/mixture_exploitability": 0.3, "main/loss": 0.1}
    later = {"kuhn_poker/score/first": 0.5, "probe/kuhn_poker/score_against_random": 0.6}
    lines = [first, first | later | {"tic_tac_toe/score_against_random": 0.6}]
    names = [
        "kuhn_poker/mixture_exploitability",
        "tic_tac_toe/score_against_random",
        "rating",
        "kuhn_poker/score/first",
        "illegal_rate",
        "gap",
    ]
    assert pinned_metrics(lines) == names


def test_the_board_opens_on_the_pinned_curves(tmp_path):
    with MetricsLog(tmp_path) as board:
        board.write(0, {"kuhn_poker(players=3)/exploitability": 1.0})
    address = serve_tensorboard([tmp_path], 0)
    with urlopen(address) as page:
        (opened,) = re.findall(r'location\.replace\("/(.+?)"', page.read().decode())
    query = parse_qs(urlparse(opened).query)
    now, *later = json.loads(query["pinnedCards"][0])
    assert now == {"plugin": "scalars", "tag": "kuhn_poker(players=3)/exploitability"}
    assert later == [{"plugin": "scalars", "tag": tag} for tag in ("rating", "illegal_rate", "gap")], "when they come"
    assert query["smoothing"] == ["0"]
    with urlopen(address + opened) as page:
        assert b"<title>TensorBoard</title>" in page.read()


def test_a_flipped_bit_in_mixtures_is_found_where_all_sums_stay_right(tmp_path):
    """Two weights that are changed against each other, or another player's name."""
    with MetricsLog(tmp_path) as log:
        for iteration in (0, 2):
            log.mixtures(iteration, {"kuhn_poker": [{"main-000000": 0.25, "main-000002": 0.75}]})
    path = tmp_path / "mixtures.jsonl"
    lines = path.read_text()
    assert [line["iteration"] for line in read_mixtures(tmp_path)] == [0, 2]
    assert list(read_mixtures(tmp_path))[1]["kuhn_poker"] == [{"main-000000": 0.25, "main-000002": 0.75}]
    for old, new in (('0.25, "main-000002": 0.75', '0.75, "main-000002": 0.25'), ("main-000002", "main-000003")):
        path.write_text(lines.replace(old, new, 1))
        with pytest.raises(UsageError, match=r"mixtures\.jsonl is damaged \(line 1 .* as they were written"):
            list(read_mixtures(tmp_path))
    older = "".join(re.sub(r', "sha256": "\w+"', "", line) + "\n" for line in lines.splitlines())
    path.write_text(older)
    assert len(list(read_mixtures(tmp_path))) == 2
