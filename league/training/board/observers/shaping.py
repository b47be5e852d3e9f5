"""How far thoughts and actions agree, where agreement is rewarded (``shaping.agreement``)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from arena.records import Episode, flatten_episodes
from league.config.context import RunContext
from league.training.board.observer import Observer
from league.training.evidence.shaping import agreement
from roles.role import ReplyForm

Metrics = dict[str, float]


def agreement_metrics(context: RunContext, episodes: Sequence[Episode]) -> Metrics:
    """Return ``GAME/agreement/ROLE``, the mean agreement of thoughts and actions per reply, where it is rewarded."""
    agreements: dict[str, list[float]] = {}
    for episode in flatten_episodes(episodes) if context.config.shaping.agreement.on else ():
        seats = context.roles.get(episode.request.game, ())
        for turn in episode.turns:
            if seats and seats[turn.seat].reply is ReplyForm.FREE and not turn.form:
                number = agreement(seats[turn.seat], turn)
                agreements.setdefault(f"{episode.request.game}/agreement/{turn.role}", []).append(number)
    return {name: fmean(numbers) for name, numbers in agreements.items()}


AGREEMENT = Observer(
    lambda record: agreement_metrics(record.context, record.episodes),
    description="how far thoughts and actions agree, where that is rewarded",
)
