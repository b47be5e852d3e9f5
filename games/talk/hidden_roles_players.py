"""The scripted players of ``hidden_roles``: what they say, whom they vote for and whom they take. Pure, but for chance.

A ``bayes`` villager claims its clue and votes for the likeliest wolf; a ``bayes`` wolf claims a villager, drawn, votes
as a villager would whose clue that were, and takes any villager. So ``games.talk.suspicion`` is right about them. A
``good`` villager is a ``bayes`` one; a good wolf says what draws least suspicion on wolves, votes for the villager who
is most suspected, and takes the one without whom wolves are least suspected. A ``poor`` player suspects nobody and
votes for nobody.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from games.abilities import Answers
from games.talk.conversation import BIDS
from games.talk.suspicion import NOBODY, SUSPECT, TAKE, VOTE


class Scene(StrEnum):
    """What a match is at; its value is what seats read."""

    WHISPER = "the wolves whisper"
    NIGHT = "the wolves take a villager"
    TALK = "all talk"
    POLL = "all vote"


class View(NamedTuple):
    """What a scripted player goes by. Places are names' indices."""

    names: tuple[str, ...]  # by place
    legal: tuple[str, ...]
    place: int
    alive: tuple[int, ...]
    pack: tuple[int, ...]  # the wolves, for a wolf; () for a villager
    aloud: bool  # whether what it says is for all
    clue: int | None  # of a villager, if there are clues
    claims: Mapping[int, int | None]  # whom each has claimed; None: it has spoken, and named nobody
    known: Mapping[int, bool]  # of those who are out, whether they were wolves
    believe: Callable[[Mapping[int, int | None], Mapping[int, bool]], tuple[float, ...]]  # of claims, of who is known

    @property
    def prey(self) -> list[int]:
        """The living villagers, for a wolf."""
        return [place for place in self.alive if place not in self.pack]


def posterior(view: View) -> tuple[float, ...]:
    """Return each place's probability of being a wolf's; to a wolf, as if its claim were a villager's clue."""
    mine = {} if view.clue is None else {view.place: view.clue}
    return view.believe({**view.claims, **mine}, {**view.known, view.place: False})


WOLF = "wolf"  # the question "Who is a wolf?"


def suspects(probe: str, names: Sequence[str], pack: Sequence[int]) -> Answers:
    """Return the answers to ``WOLF``, every name, and the right ones; nothing to another question."""
    return Answers(tuple(names), tuple([names[place] for place in sorted(pack)])) if probe == WOLF else Answers()


def belief(script: str, probe: str, view: View) -> dict[str, float] | None:
    """Return with what probability a wolf drawn at random is each one, as a script believes; None if it believes
    nothing.

    ``good`` and ``bayes`` villagers have the posterior, their wolves know; ``poor`` players, and ``random`` ones, think
    everyone as likely.
    """
    if probe != WOLF:
        return None
    weights: Sequence[float] = ()
    if script in ("good", "bayes"):
        weights = [float(place in view.pack) for place in range(len(view.names))] if view.pack else posterior(view)
    if not (total := sum(weights)):  # no belief, or a Bayesian who has heard what cannot be
        weights, total = (1.0,) * len(view.names), float(len(view.names))
    return {name: weight / total for name, weight in zip(view.names, weights, strict=True)}


def bayes(view: View, rng: random.Random) -> str:
    """Return the action of a Bayesian, or of a wolf as it takes wolves to be."""
    return _play(view, rng, lambda: rng.choice(view.prey), lambda: posterior(view), lambda _: 0.0)


def good(view: View, rng: random.Random) -> str:
    """Return the action of a Bayesian, or of a wolf that knows what a Bayesian makes of its words."""
    if not view.pack:
        return bayes(view, rng)

    def suspicion(claims: Mapping[int, int | None], out: Mapping[int, bool]) -> float:
        heard = view.believe({**view.claims, **claims}, {**view.known, **out})
        return round(sum(heard[mate] for mate in view.pack if mate in view.alive), 9)

    def lie() -> int | None:
        by_claim = {claim: suspicion({view.place: claim}, {}) for claim in (None, *view.prey)}
        return rng.choice([claim for claim, value in by_claim.items() if value == min(by_claim.values())])

    def weights() -> list[float]:
        heard = view.believe(view.claims, view.known)
        return [heard[place] if place in view.prey else -1.0 for place in range(len(view.names))]

    return _play(view, rng, lie, weights, lambda place: -suspicion({}, {place: False}))


def poor(view: View, _rng: random.Random) -> str:
    """Return the action of a player that suspects nobody; a wolf takes the first villager."""
    idle = (BIDS.labels[1], f"{SUSPECT}{NOBODY}", f"{VOTE}{NOBODY}")
    return next((action for action in view.legal if action in idle), view.legal[0])


def _play(
    view: View,
    rng: random.Random,
    lie: Callable[[], int | None],
    weights: Callable[[], Sequence[float]],
    danger: Callable[[int], float],
) -> str:
    """Return the action of a player with this lie, these weights of whom to vote for, and this one of whom to take."""
    if view.legal == BIDS.labels:
        return BIDS.labels[0]
    if view.legal[0].startswith(TAKE):
        most = max(map(danger, view.prey))
        return f"{TAKE}{view.names[rng.choice([place for place in view.prey if danger(place) == most])]}"
    if view.legal[0].startswith(VOTE):
        return f"{VOTE}{view.names[rng.choice(_likeliest(view, weights()))]}"
    claim = view.clue if (said := view.claims.get(view.place)) is None else said
    if claim is None and view.aloud and view.pack:
        claim = lie()
    if claim is None or claim not in view.alive or not view.aloud:
        return f"{SUSPECT}{NOBODY}"
    return f"{SUSPECT}{view.names[claim]}"


def _likeliest(view: View, weights: Sequence[float]) -> list[int]:
    """Return the living others of most weight."""
    others = [place for place in view.alive if place != view.place]
    most = max(weights[place] for place in others)
    return [place for place in others if weights[place] > most - 1e-9]
