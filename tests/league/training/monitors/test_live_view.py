"""The live view shows what was measured, keeps what was measured last, and never shows a number that was not."""

import io
import threading
import time

from rich.console import Console

from league.training.monitors import live_view
from league.training.monitors.alarms import Alarm
from league.training.monitors.live_view import LiveView
from league.training.monitors.terminal import PipedProgress, Terminal, Ticker, format_duration

FIRST = {
    "kuhn_poker/score/first": 0.5,
    "kuhn_poker/exploitability": 0.458,
    "kuhn_poker/matches": 512.0,
    "illegal_rate": 0.0,
    "rating": 25.0,
}


DRIFT = Alarm("drift", "kuhn_poker/first", "its mean is +0.5.", 2)
ECHO = Alarm("echo_trap", "kuhn_poker/second", "90% of its phrases repeat" + " again" * 20 + ".", 3)  # a long line


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def shown(terminal, clock, steps):
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=140, color_system=None)
    with LiveView(["kuhn_poker", "tic_tac_toe"], 10, console=console, clock=clock) as progress:
        for step in steps:
            step(progress)
    return out.getvalue()


def test_on_a_terminal_the_last_values_stay_and_the_change_is_shown():
    clock = Clock()

    def second(progress):
        clock.now = 4.0
        progress.update(1, {"kuhn_poker/exploitability": 0.2, "gap": 0.0001})

    text = shown(True, clock, [lambda p: p.update(0, FIRST), second])
    final = text[text.rindex("training: iteration 2 of 10") :]
    for part in ("0:04 elapsed, about 0:32 left", "first 0.50", "0.458 → 0.200", "rating 25.0", "0.0001 nats", "0.0%"):
        assert part in final
    header = final.splitlines()[2]
    assert header.split("  ")[0] == "game"
    assert header.strip().endswith("measured at snapshots, first → latest")
    tic_tac_toe = next(line for line in final.splitlines() if line.startswith("tic_tac_toe"))
    assert not any(letter.isdigit() for letter in tic_tac_toe)


def test_without_a_terminal_there_is_a_line_now_and_then():
    clock = Clock()

    def tick(progress):
        for iteration in range(1, 10):
            clock.now += 4.0
            progress.update(iteration, {"kuhn_poker/exploitability": 0.4})

    text = shown(False, clock, [lambda p: p.set_activity("cold start"), lambda p: p.update(0, FIRST), tick])
    lines = text.splitlines()
    assert lines[0] == "cold start ..."
    assert [line.split()[1] for line in lines[1:]] == ["1/10", "5/10", "9/10", "10/10"]
    assert "\x1b" not in text


def until_announced(progress):
    """Wait for the thread that prints, which an announcement may not do itself: it may have interrupted a print."""
    for thread in threading.enumerate():
        if thread.name == "announcement":
            thread.join(10)


def test_an_announcement_does_not_wait_for_the_end_of_an_iteration():
    clock = Clock()
    announce, updates = (
        [lambda p: p.announce("stopping soon")],
        [lambda p: p.update(0, FIRST), lambda p: p.update(1, {})],
    )
    assert shown(False, clock, [*announce, until_announced]) == "stopping soon\n"
    assert shown(False, clock, [*announce, until_announced, *updates]).count("stopping soon") == 1
    assert "stopping soon: iteration 2 of 10" in shown(True, clock, [*announce, *updates])


def test_an_alarm_stays_in_the_view_as_long_as_it_rings():
    steps = [lambda p: p.update(1, FIRST, [DRIFT]), lambda p: p.update(2, {}, [DRIFT, ECHO])]
    line = "Alarm since iteration 2, drift of kuhn_poker/first: its mean is +0.5."
    text = shown(True, Clock(), steps)
    final = text[text.rindex("training: iteration 3 of 10") :]
    assert line in final
    assert "Alarm since iteration 3, echo_trap of kuhn_poker/second: 90% of its phrases repeat again" in final
    over = shown(True, Clock(), [*steps, lambda p: p.update(3, {}, [])])
    assert "Alarm" not in over[over.rindex("training: iteration 4 of 10") :]


def test_without_a_terminal_an_alarm_is_told_when_it_begins_and_when_it_ends():
    later = DRIFT._replace(message="its mean is +0.6.")
    ringing = [[DRIFT], [later], [later, ECHO], [ECHO], [ECHO]]
    steps = [lambda p, i=i, alarms=alarms: p.update(i, FIRST, alarms) for i, alarms in enumerate(ringing, start=1)]
    lines = [line for line in shown(False, Clock(), steps).splitlines() if "larm" in line]
    assert lines == [
        "Alarm since iteration 2, drift of kuhn_poker/first: its mean is +0.5.",
        str(ECHO),
        "The alarm of iteration 2 is over: drift of kuhn_poker/first.",
    ]


def test_time_left_counts_from_where_a_run_was_resumed():
    clock = Clock()
    progress = LiveView(["kuhn_poker"], 100, done=90, console=Console(file=io.StringIO()), clock=clock)
    assert progress.seconds_left() is None
    clock.now = 10.0
    progress.update(90, {})
    assert progress.seconds_left() is None  # the time so far may have been a cold start
    clock.now = 12.0
    progress.update(91, {})
    assert progress.seconds_left() == 16.0


def test_a_resumed_run_shows_the_change_since_its_first_iteration():
    out = io.StringIO()
    before = [{"iteration": 0, "kuhn_poker/exploitability": 0.466}, {"iteration": 1, "kuhn_poker/exploitability": 0.3}]
    progress = LiveView(["kuhn_poker"], 3, done=1, before=before, console=Console(file=out))
    progress.update(2, {"kuhn_poker/exploitability": 0.203, "rating": 25.0})
    assert "exploitability 0.466 → 0.203" in out.getvalue()


def test_seconds_as_a_person_reads_them():
    assert [format_duration(seconds) for seconds in (0, 59.6, 61, 3661)] == ["0:00", "1:00", "1:01", "1:01:01"]


def test_without_a_terminal_a_line_says_every_few_seconds_how_far_work_is_though_no_step_is_finished():
    text = io.StringIO()
    with PipedProgress(Terminal(file=text, width=40), seconds=0.01) as progress:
        task = progress.add_task("playing chess", total=2_000)
        lines = until(text, 1)
        progress.update(task, completed=1_200, description="playing a game with a name that is longer than a line")
        lines = until(text, len(lines) + 2)
    assert lines[0] == "playing chess: 0 of 2,000 (0:00 elapsed)"
    assert lines[-1] == "playing a game with a name that is longer than a line: 1,200 of 2,000 (0:00 elapsed)"
    assert until(text, 0) == until(text, 0)  # nothing more once it is over


def until(text, count):
    """Return the lines of a text, once there are this many."""
    for _ in range(60_000):
        if text.getvalue().count("\n") >= count:
            break
        time.sleep(0.001)
    return text.getvalue().splitlines()


def test_what_takes_long_before_the_first_iteration_shows_that_it_goes_on(monkeypatch):
    monkeypatch.setattr(live_view, "SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr(live_view, "Ticker", lambda beat: Ticker(beat, 0.01))
    text = io.StringIO()
    with LiveView(["kuhn_poker"], 5, console=Terminal(file=text)) as view:
        view.set_activity("cold start: learning what legal replies look like")
        lines = until(text, 2)
        view.update(1, {})
        more = until(text, len(lines) + 3)
    assert lines[:2] == [
        "cold start: learning what legal replies look like ...",
        "still cold start: learning what legal replies look like (0:00 elapsed)",
    ]
    assert any(line.startswith("still training, iteration 2 of 5 (0:00 elapsed") for line in more)
