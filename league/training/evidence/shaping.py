"""Shaping rewards, added between play and credit and recorded with the match: for beliefs, for being preferred by a
judge, and for agreement of thoughts and actions.

Preferred (SPO, Swamy et al. 2024, arXiv 2401.04056): a seat's last turn is paid the share of the other matches of its
start that a judge ranks below its match. Agreement: a free reply is paid 1 where the last sentence of intent in its
thoughts names the action that it then plays, -1 where it names another legal action, and 0 where it names none or
several (``reasoning.intended``). Each is multiplied by its weight and by the role's factor. Both change which play is
best; their weights should fall over a run.
"""

from __future__ import annotations

from collections.abc import Sequence

from arena.records import Episode, Turn
from league.config import RunConfig
from league.config.context import RunContext
from league.config.schedules import term_weight_at
from league.training.evidence.beliefs import probes_of
from league.training.monitors.reasoning import intended, thoughts
from learners.shaping import Shaping, shaping_rewards
from roles.probes import Probe
from roles.role import ReplyForm, Role

Metrics = dict[str, float]


def with_shaping(context: RunContext, iteration: int, episodes: list[Episode]) -> list[Episode]:
    """Return an iteration's matches with each turn's shaping reward; the same matches where nothing is paid."""
    payers = {game: _Payer(context.config, game, seats, iteration) for game, seats in context.roles.items()}
    return [_shaped(episode, payers) for episode in episodes]


def _shaped(episode: Episode, payers: dict[str, _Payer]) -> Episode:
    rewards = payers[episode.request.game].rewards(episode)
    children = tuple([_shaped(child, payers) for child in episode.children])
    return episode._replace(shaping=rewards, children=children) if rewards or children else episode


class _Payer:
    """The shaping rewards of one game's turns in one iteration."""

    def __init__(self, config: RunConfig, game: str, roles: Sequence[Role], iteration: int) -> None:
        terms = config.beliefs.terms | config.shaping.terms
        weights = {name: term_weight_at(config, term, iteration) for name, term in terms.items()}
        by_seat = [{name: weights[name] * terms[name].factor(game, role.name) for name in terms} for role in roles]
        potentials = config.beliefs.speaking.potential, config.beliefs.gain.potential
        self._beliefs = [Shaping(seat["speaking"], seat["gain"], *potentials) for seat in by_seat]
        self._preferred = [seat["preferred"] for seat in by_seat]
        self._agreement = [seat["agreement"] for seat in by_seat]
        self._roles, self._probes = roles, list[Probe](probes_of(roles))

    def rewards(self, episode: Episode) -> tuple[float, ...]:
        """Return each turn's shaping reward; () where no seat is paid for anything.  # [K]"""
        of_beliefs = shaping_rewards(episode, self._beliefs, self._probes)
        if not any((*self._preferred, *self._agreement)):
            return of_beliefs
        rewards_K = list(of_beliefs or [0.0] * len(episode.turns))
        for seat, share in enumerate(episode.preferred):
            seat_turns = [index for index, turn in enumerate(episode.turns) if turn.seat == seat]
            if seat_turns and share is not None:
                rewards_K[seat_turns[-1]] += self._preferred[seat] * share
        for index, turn in enumerate(episode.turns):
            if self._agreement[turn.seat]:
                rewards_K[index] += self._agreement[turn.seat] * agreement(self._roles[turn.seat], turn)
        return tuple(rewards_K)


def agreement(role: Role, turn: Turn) -> float:
    """Return 1 where a free reply's thoughts end on the action that it plays, -1 where they end on another; else 0.

    Replies to requests for free text, tool calls, illegal replies and choices have no thoughts to agree with.
    """
    if role.reply is not ReplyForm.FREE or turn.form or turn.tool or turn.action is None:
        return 0.0
    intention = intended(thoughts(role, turn.reply), turn.legal)
    return 0.0 if intention is None else 1.0 if intention == turn.action else -1.0
