"""What seats believe as a match goes on, and how much each speech tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from league.training.board.figures.canvas import (
    COLOURS,
    INK,
    PALE,
    SMALL,
    Pixels,
    grid,
    new_figure,
    pixels,
    plain,
    tidy,
)

Series = Mapping[int, float]  # by the number of speeches so far


def draw_beliefs(title: str, belief: Mapping[str, Sequence[Series]], bits: Series) -> Pixels:
    """Return belief in the truth by role and speeches, and bits by speech.

    ``belief`` has for each role the series of the newest iteration and, if there is another, that of the first before
    it, which is drawn dotted. ``bits`` are those that the N-th speech told each hearer.
    """
    figure = new_figure(title)
    above, below = grid(figure, 2, 1)
    for index, (role, series) in enumerate(belief.items()):
        colour = COLOURS[index % len(COLOURS)]
        for number, one in enumerate(series):
            style = {"ls": ":", "lw": 0.9} if number else {"lw": 1.5, "label": plain(role)}
            above.plot(list(one), list(one.values()), color=colour, **style)
    above.set_ylim(0, 1)
    above.legend(fontsize=SMALL - 1, frameon=False, loc="upper left", ncols=4, handlelength=0, labelcolor="linecolor")
    tidy(above, "belief in the truth after N speeches (dotted: at first)")
    below.bar(list(bits), list(bits.values()), 0.6, color=[COLOURS[0] if one >= 0 else PALE for one in bits.values()])
    below.axhline(0.0, color=INK, lw=0.6)
    tidy(below, "bits that the N-th speech told each hearer")
    for axes in (above, below):
        axes.locator_params(axis="x", integer=True)  # speeches are counted
    return pixels(figure)
