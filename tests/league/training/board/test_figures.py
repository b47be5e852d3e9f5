"""What is written in figures can be read: nothing lies on anything else, leaves the picture, or is too small."""

from functools import partial
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg

from league.training.board.figures.alarms import Ringing, draw_alarms
from league.training.board.figures.canvas import DPI, cut, label_ends, new_figure
from league.training.board.figures.charts import ByTurn, Curve, draw_actions, draw_by_turn, draw_curves, draw_shares
from league.training.board.figures.payoffs import draw_payoffs, draw_wins
from league.training.board.figures.population import Descendant, Rated, draw_mixture, draw_ratings, draw_tree
from league.training.board.figures.strategy import ActionLine, StatePanel, draw_beliefs, draw_strategy

STEPS = range(0, 200, 10)
SHOWN = DPI / 2 / 72  # pixels of a point in a card, which shows every second pixel
PLAYERS = [f"main-{step:06d}" for step in range(0, 2000, 100)]


def line(label, *, last):
    return ActionLine(label, STEPS, [0.3] * (len(STEPS) - 1) + [last], None, None)


def state(card):
    """Return a state as in tiny Hanabi: three actions, of which two are played as often at the end."""
    lines = [line(f"a{number}", last=last) for number, last in enumerate((0.0, 0.01, 0.99))]
    return StatePanel(f"responder: Your card: {card}; partner moved: a1", lines)


def rated():
    """Return three policies whose ratings end alike, with an anchor as high."""
    policies = [
        Rated(f"{name}-{s}", name, s, 25.0 + s / 100, 2.0) for name in ("main", "probe", "rover") for s in STEPS
    ]
    return [Rated("random", "random", None, 26.9, 0.0), *policies]


def tree():
    kinds = ("trained", "reset", "response", "exploiter", "distilled", "merged", "crossed")
    return [
        Descendant("main-0", "main", 0, None, "start", False),
        *[
            Descendant(f"p-{n}", "a_policy_of_a_long_name", n + 1, "main-0", kind, False)
            for n, kind in enumerate(kinds)
        ],
    ]


ANTISYMMETRIC = np.subtract.outer(np.arange(7.0), np.arange(7.0)) / 7
LONG = "kuhn_poker/first, since iteration 20: 94 % of the groups of this role have equal returns, so that " * 3
ROLES = ("first debater", "second debater", "the judge of both")
DRAWINGS = {
    "alarms": partial(
        draw_alarms, "Is it breaking?", [Ringing(f"alarm_{n}", [3, 4], [LONG] if n < 3 else []) for n in range(9)], 20
    ),
    "curves": partial(
        draw_curves,
        "Is it learning?",
        {
            f"a_game_of_a_long_name_{n}": [
                Curve(f"a measure of it {m}", STEPS, [0.1 * m] * 19 + [0.5 + m / 1e4]) for m in range(4)
            ]
            for n in range(4)
        },
    ),
    "many games": partial(
        draw_curves, "Is it learning?", {f"game_{n}": [Curve("exploitability", [0, 1], [1.0, 0.5])] for n in range(40)}
    ),
    "strategy": partial(draw_strategy, "tiny_hanabi: what does it do?", [state(f"d{n}") for n in range(6)], False),
    "two states": partial(draw_strategy, "game: what does it do?", [state("d0"), state("d1")], False),
    "beliefs": partial(
        draw_beliefs,
        "debate: what do they believe?",
        {r: [{0: 0.5, 1: 0.7}, {0: 0.5, 1: 0.6}] for r in ROLES},
        {1: 0.2},
    ),
    "actions": partial(
        draw_actions,
        "tic_tac_toe: what does it play?",
        {
            role: {f"turn {t}": {f"a move to the square {s}": 1 / 9 for s in range(9)} for t in range(1, 6)}
            for role in ("crosses", "noughts")
        },
    ),
    "credit": partial(
        draw_by_turn,
        "debate: is a role starved of signal?",
        {name: [ByTurn(role, [0.5] * 5, [0.2] * 5) for role in ROLES] for name in ("advantage by turn", "entropy")},
    ),
    "time": partial(
        draw_shares,
        "Where does the time go?",
        STEPS,
        {f"phase {n}": [0.125] * 20 for n in range(8)},
        {f"phase {n}": 0.125 for n in range(8)},
        "legend: of the whole run; memory 1,234 MiB; logging 1.0% of the time",
    ),
    "payoffs": partial(draw_payoffs, "kuhn_poker: who beats whom?", PLAYERS[:7], ANTISYMMETRIC, None, 1.0),
    "payoffs with intervals": partial(
        draw_payoffs, "game: who beats whom?", PLAYERS[:7], ANTISYMMETRIC, np.abs(ANTISYMMETRIC), 1.0
    ),
    "wins": partial(draw_wins, "game: does it cycle?", PLAYERS[:7], ANTISYMMETRIC > 0, [], "No cycle was found. " * 12),
    "population": partial(draw_tree, "Who descends from whom, and how?", tree()),
    "mixture": partial(
        draw_mixture, "game: meta-strategy", STEPS, [dict.fromkeys(PLAYERS[: n + 1], 1 / (n + 1)) for n in range(20)]
    ),
    "ratings": partial(draw_ratings, "game: ratings", rated()),
}


class Line(NamedTuple):
    """A line of text as it was drawn: its sides in pixels from the top left, and the size of its letters in points."""

    text: str
    left: float
    right: float
    top: float
    bottom: float
    size: float


def written(figure, monkeypatch):
    """Return the lines of text that are drawn."""
    lines, canvas = [], FigureCanvasAgg(figure)
    draw_text = RendererAgg.draw_text

    def noted(renderer, gc, x, y, text, font, angle, **more):
        width, height, descent = renderer.get_text_width_height_descent(text, font, False)
        if angle:
            width, height, descent, x = height, width, 0.0, x - height
        lines.append(Line(text, x, x + width, y - height + descent, y + descent, font.get_size_in_points()))
        draw_text(renderer, gc, x, y, text, font, angle, **more)

    monkeypatch.setattr(RendererAgg, "draw_text", noted)
    canvas.draw()
    return [line for line in lines if line.text.strip()]


@pytest.mark.parametrize("name", DRAWINGS)
def test_nothing_collides_leaves_the_picture_or_is_too_small_for_a_card(name, monkeypatch):
    figure = DRAWINGS[name]()
    lines = written(figure, monkeypatch)
    assert len(lines) > 5
    width, height = figure.canvas.get_width_height()
    for line in lines:
        assert min(line.left, line.top) > -2, line
        assert line.right < width + 2, line
        assert line.bottom < height + 2, line
        assert line.size * SHOWN > 7.5, line
    for a, b in combinations(lines, 2):
        across, down = min(a.right, b.right) - max(a.left, b.left), min(a.bottom, b.bottom) - max(a.top, b.top)
        assert across < 4 or down < 0.35 * min(a.bottom - a.top, b.bottom - b.top), (a, b)


def test_a_mixture_shows_who_is_heaviest_now_the_newest_first_and_the_rest_together():
    uniform = [dict.fromkeys(PLAYERS[: n + 1], 1 / (n + 1)) for n in range(20)]
    drawn = [text.get_text() for text in draw_mixture("m", STEPS, uniform).legends[0].get_texts()]
    assert drawn == ["55% 11 others", *(f"5% main-{step}" for step in range(1900, 1000, -100))]
    heavy = [*uniform[:-1], {PLAYERS[0]: 0.9, PLAYERS[19]: 0.1}]
    drawn = [text.get_text() for text in draw_mixture("m", STEPS, heavy).legends[0].get_texts()]
    assert "90% main-0" in drawn
    assert "10% main-1900" in drawn


def test_what_is_too_long_loses_its_middle():
    assert cut("exploitability", 9.9) == "exploitability"
    assert cut("first debater who opens", 1.0) == "first…opens"
    assert len(cut("x" * 100, 1.0)) <= 13


def test_labels_at_the_same_height_are_moved_apart_in_their_order():
    axes = new_figure("t").add_axes((0.1, 0.1, 0.5, 0.8))
    label_ends(axes, [(0.0, "low", "k"), (1.0, "high", "k"), (0.99, "below high", "k"), (0.001, "above low", "k")])
    places = {text.get_text(): text.xy[1] for text in axes.texts}
    assert places["low"] < places["above low"] < places["below high"] < places["high"] <= 1.0
    heights = sorted(places.values())
    assert min(b - a for a, b in pairwise(heights)) > 0.06
