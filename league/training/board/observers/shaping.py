"""How far thoughts and actions agree, and how often stated predictions come true (``[shaping]``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from arena.records import Episode, flatten_episodes
from league.config.context import RunContext
from league.training.board.observer import Observer
from league.training.evidence.shaping import agreement
from league.training.evidence.stated import stated_predictions
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


def prediction_metrics(context: RunContext, episodes: Sequence[Episode]) -> Metrics:
    """Return what came true of the predictions that trained seats' cards had written.

    ``GAME/predictions/ROLE/right`` is the share that came true of those whose outcome the seat was shown, ``/base`` the
    share of the most frequent act among these outcomes, which is what always naming it would be right in.
    """
    outcomes: dict[str, list[tuple[str, float]]] = {}
    for episode in flatten_episodes(episodes):
        for role in context.roles.get(episode.request.game, ()):
            if role.slots and episode.request.trained[role.seat]:
                found = [(one.act, one.right) for one in stated_predictions(role, episode)]
                known = [(act, right) for act, right in found if act is not None and right is not None]
                outcomes.setdefault(f"{episode.request.game}/predictions/{role.name}", []).extend(known)
    metrics: Metrics = {}
    for name, known in outcomes.items():
        if known:
            metrics[f"{name}/right"] = fmean([right for _, right in known])
            metrics[f"{name}/base"] = Counter(act for act, _ in known).most_common(1)[0][1] / len(known)
    return metrics


PREDICTIONS = Observer(
    lambda record: prediction_metrics(record.context, record.episodes),
    description="how often the predictions of cards with such a slot came true",
)
