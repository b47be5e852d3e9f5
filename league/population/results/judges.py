"""Judges: how often a judge's verdicts agree with the truth, and how far it favours the side that is shown first.

Both are read off finished matches, replayed from their records: equal seeds and actions give equal matches. A
match that ended by forfeit has no verdict. The bias is measured where a judge was asked twice, the second time with the
sides in the other order (Zheng et al. 2023, arXiv 2306.05685, on judges that are language models).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from arena.records import EndReason, Episode
from arena.submatches import play_again
from games.registry import make_game
from games.spec import HasJudge

Metrics = dict[str, float]


class Verdict(NamedTuple):
    """A judge's record in a finished match."""

    match: int  # index among the episodes
    seat: int  # the judge's
    agreement: float  # share of its verdicts that agree with the truth
    position_bias: float | None  # −1 to 1; None: asked in one order only


def verdicts(game: str, episodes: Sequence[Episode]) -> list[Verdict]:
    """Return the verdicts of a game's finished matches; none where no seat judges or the truth is not known."""
    match, judged = make_game(game), list[Verdict]()
    seat = match.judge() if isinstance(match, HasJudge) else None
    if not isinstance(match, HasJudge) or seat is None:
        return judged
    for index, episode in enumerate(episodes):
        if episode.end is EndReason.FINISHED:
            play_again(match, episode)
            judged.append(Verdict(index, seat, match.agreement(), match.position_bias()))
    return judged


def judge_metrics(game: str, episodes: Sequence[Episode]) -> Metrics:
    """Return the means over matches as ``GAME/judge/agreement`` and ``/position_bias``; unmeasured ones are absent."""
    judged = verdicts(game, episodes)
    metrics = {f"{game}/judge/agreement": fmean([verdict.agreement for verdict in judged])} if judged else {}
    biases = known_biases(judged)
    return metrics | ({f"{game}/judge/position_bias": fmean(biases)} if biases else {})


def known_biases(judged: Iterable[Verdict]) -> list[float]:
    """Return the biases of the judges that were asked in both orders."""
    return [verdict.position_bias for verdict in judged if verdict.position_bias is not None]
