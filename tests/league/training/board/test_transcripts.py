"""Matches as text: all that happened is told, and whatever was said stays data."""

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugin_util import markdown_to_safe_html

from arena.records import Belief, EndReason, Episode, MatchRequest, Turn
from league.training.board.metrics_log import MetricsLog, verbatim
from league.training.board.transcripts import tell_match, tell_utterances
from roles.probes import Probe

HOSTILE = "<script>alert(1)</script>\n# Heading\n```\n[link](javascript:alert(1))\n\n\u202eback\x1b[31m\n![x](http://evil/x.png)"


def episode(reply, children=()):
    request = MatchRequest(7, "kuhn_poker", 3, 4, ("main", "random"), (True, False), "self_play")
    turns = (Turn(0, "first", "main", "Your card: J", ("pass", "bet"), reply, None, -1.0, None),)
    return Episode(request, turns, (-1.0, 1.0), EndReason.FORFEIT, 0, children)


def test_a_match_is_told_with_all_that_happened():
    told = tell_match(episode("I fold"), [[-0.75]])
    for part in ("kuhn_poker, match 7", "seat 0 main", "Your card: J", "'I fold'", "ILLEGAL", "reward -1", "-0.750"):
        assert part in told


def test_a_submatch_is_told_behind_its_match_with_its_own_advantages():
    told = tell_match(episode("I fold", (episode("I fold too"),)), [[-0.75], [0.5]]).splitlines()
    behind = told.index("kuhn_poker, submatch, deal 3, drawn by self_play")
    assert "I fold too" in "".join(told[behind:])
    assert [line.rpartition(" ")[2] for line in told if "advantage" in line] == ["-0.750", "+0.500"]


@pytest.mark.parametrize("text", [HOSTILE, HOSTILE.replace("\n", "\r"), HOSTILE.replace("\n", "\u2028")])
def test_what_was_said_is_shown_letter_by_letter(text):
    """TensorBoard renders Markdown: there is nothing in it but one block of code."""
    html = markdown_to_safe_html(verbatim(text))
    assert html.startswith("<pre><code>")
    assert html.count("<") == html.count("<pre>") * 2 + html.count("<code>") * 2
    assert "alert(1)" in html
    assert "\u202e" not in html
    assert "\x1b" not in html


def test_the_board_holds_the_transcript(tmp_path):
    with MetricsLog(tmp_path) as log:
        log.text("transcripts/kuhn_poker/worst", tell_match(episode(HOSTILE)), 10)
    events = EventAccumulator(str(tmp_path / "tb"))
    events.Reload()
    (event,) = events.Tensors("transcripts/kuhn_poker/worst")
    assert all(line.startswith("    ") for line in event.tensor_proto.string_val[0].decode().split("\n"))


def talk(index, *said, beliefs):
    """Return a match in which seat 0 says things to seats 1 and 2; ``beliefs`` are theirs in the truth by position."""
    request = MatchRequest(index, "hidden_roles", 3, 4, ("main", "main", "silent", "silent"), (True,) * 4, "self_play")
    turns = tuple(
        [Turn(0, "wolf", "main", "You are Ann.", (), words, words, 0.0, None, form="words") for words in said]
    )
    asked = [
        Belief("wolf", seat, after, "", ("Ann", "Bob"), ("Ann",), (p, 1.0 - p))
        for seat, series in enumerate(beliefs, 1)
        for after, p in enumerate(series)
    ]
    silent = Belief("wolf", 3, 0, "", ("Ann", "Bob"), ("Ann",), ())
    return Episode(request, turns, (0.0,) * 4, EndReason.FINISHED, beliefs=(*asked, silent))


WOLF = Probe(name="wolf", question="Who?")


def test_the_most_convincing_and_the_most_misleading_utterance_are_told_with_what_they_did():
    matches = [
        talk(5, "it is me", "it is Bob", beliefs=((0.25, 0.5, 0.5), (0.25, 1.0, 0.4))),
        talk(6, "hello", beliefs=((0.25, 0.3), (0.25, 0.25))),
    ]
    told = tell_utterances(matches, [WOLF]).splitlines()
    assert told == [
        "the most convincing utterance: wolf (seat 0, main), match 5, turn 1",
        "  said: 'it is me'",
        "  the truth: 'Ann'; the others' belief in it: +0.500",
        "    seat 1 0.250 → 0.500, +1.00 bits",
        "    seat 2 0.250 → 1.000, +2.00 bits",
        "",
        "the most misleading utterance: wolf (seat 0, main), match 5, turn 2",
        "  said: 'it is Bob'",
        "  the truth: 'Ann'; the others' belief in it: -0.300",
        "    seat 1 0.500 → 0.500, +0.00 bits",
        "    seat 2 1.000 → 0.400, -1.32 bits",
    ]
    assert tell_utterances([talk(7, "hello", beliefs=((0.25, 0.25),))], [WOLF]) == ""
    assert tell_utterances([], []) == ""


def test_a_match_is_told_with_the_beliefs_that_each_turn_moved_and_who_was_not_asked():
    told = tell_match(talk(5, "it is me", "yes", beliefs=((0.25, 0.5, 0.5), (0.25, 0.25, 0.25)))).splitlines()
    assert [line for line in told if "belief" in line] == ["  belief in the truth: seat 1 0.250 → 0.500"]
    assert "not asked: seat 3, which cannot be" in told
