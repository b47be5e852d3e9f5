"""The game between clusters: a seat's action is a cluster of utterances, and chance picks the utterance from it.

Within a cluster, utterances keep the player's own shares. So the latent game's strategies are the strategies of the
whole game that keep these shares, and its value at the player's own masses is the player's return. A best response
never gains more in it than in the whole game, if all possible utterances are members. An information state is the
seat's observation and the clusters that it has said itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyspiel

from games.common.errors import NotEnumerable, UsageError
from games.common.seeds import derive_seed
from games.openspiel.game import OpenSpielGame
from games.openspiel.undealt import UndealtGame
from games.registry import make_game
from games.spec import Enumerable
from league.lab.latent.space import LatentSpace
from league.lab.latent.utterances import Utterance, utterances
from league.population.players.player import Player
from league.theory.exact.game_value import solved
from league.theory.exact.sequence_form import Behaviour, SequenceForm, enumerated

Shown = tuple[int, str]  # (seat, what it is shown where it is to act)
MOST_TURNS = 100_000  # positions in which a seat is to act
LEAST = 1e-12  # share of an utterance that is never said


class Situation(NamedTuple):
    """The possible utterances of a seat at one observation."""

    match: Any  # one such position
    said: tuple[Utterance, ...]
    clusters: tuple[int, ...]  # of each utterance
    spoken: Mapping[int, tuple[tuple[str, float], ...]]  # by cluster, in order: actions that stand for it, and shares

    def mass(self, cluster: int) -> float:
        """Return how likely the player is to say something from a cluster."""
        return math.fsum(
            u.share for u, member_cluster in zip(self.said, self.clusters, strict=True) if member_cluster == cluster
        )


class Listening(NamedTuple):
    """How many utterances are sampled and kept."""

    samples: int  # free replies in each situation
    members: int  # how many of a cluster's actions, the likeliest, stand for it in a situation
    seed: int


def hear(
    player: Player, space: LatentSpace, how: Listening, earlier: Mapping[Shown, Situation]
) -> dict[Shown, Situation]:
    """Return the player's utterances wherever its clusters may lead, by a seat's observation.

    An utterance that was said ``earlier`` in a situation stays possible there, with share 0 if it is no longer said.
    Raises UsageError for a game whose chance is not data, or one with more positions than can be solved.
    """
    situations: dict[Shown, Situation] = {}
    frontier, met, turn = list(_after_chance(_root(player.spec.name))), 0, 0
    while frontier:
        met += len(frontier)
        if met > MOST_TURNS:
            raise UsageError(
                f"The game between clusters in {player.spec.name} has more than {MOST_TURNS:,} positions, too many to "
                "solve. Set latent.clusters or latent.members lower, or take a smaller game."
            )
        new = {shown: match for match in frontier if (shown := _shown(match)) not in situations}
        positions = [(seat, match) for (seat, _), match in new.items()]
        spoken_now = utterances(player, positions, how.samples, derive_seed(how.seed, "hear", turn))
        for (shown, match), now in zip(new.items(), spoken_now, strict=True):
            before = earlier[shown].said if shown in earlier else ()
            role = player.roles[shown[0]].name
            situations[shown] = _clustered(match, [*now, *_silent(before, now)], space, role, how.members)
        frontier = [
            after
            for match in frontier
            for actions in situations[_shown(match)].spoken.values()
            for action, _ in actions
            for after in _after_chance(_applied(match, action))
        ]
        turn += 1
    return situations


def _root(game: str) -> Any:
    match = make_game(game)
    if isinstance(match, OpenSpielGame):
        return UndealtGame(match)
    if not isinstance(match, Enumerable):
        raise NotEnumerable(f"{game} does not give its chance as data, so the game between clusters cannot be solved.")
    return match.undealt()


def _after_chance(match: Any) -> Iterator[Any]:
    """Yield the positions after chance's moves in which a seat is to act."""
    if outcomes := match.chance_outcomes():
        for outcome, probability in outcomes:
            if probability > 0.0:
                after = match.copy()
                after.apply_chance(outcome)
                yield from _after_chance(after)
    elif match.to_act() is not None:
        yield match


def _applied(match: Any, action: str) -> Any:
    after = match.copy()
    after.apply(action)
    return after


def _shown(match: Any) -> Shown:
    seat = match.to_act()
    return seat, match.observe(seat)


def _silent(before: Sequence[Utterance], now: Sequence[Utterance]) -> list[Utterance]:
    """Return the utterances that were said before and are not now, with share 0."""
    replies = {utterance.reply for utterance in now}
    return [utterance._replace(share=0.0) for utterance in before if utterance.reply not in replies]


def _clustered(match: Any, said: Sequence[Utterance], space: LatentSpace, role: str, members: int) -> Situation:
    clusters = tuple(space.clusters(role, [utterance.text for utterance in said]))
    spoken = {}
    for cluster in sorted(set(clusters)):
        shares: dict[str, float] = {}
        for utterance, member_cluster in zip(said, clusters, strict=True):
            if member_cluster == cluster:
                shares[utterance.action] = shares.get(utterance.action, 0.0) + max(utterance.share, LEAST)
        likeliest = sorted(shares.items(), key=lambda item: -round(item[1], 12))[:members]
        total = math.fsum(share for _, share in likeliest)
        spoken[cluster] = tuple([(action, share / total) for action, share in likeliest])
    return Situation(match, tuple(said), clusters, spoken)


@dataclass(frozen=True, slots=True)
class _State:
    """A position of the latent game, with the methods of ``pyspiel.State`` that ``enumerated`` uses."""

    match: Any
    heard: Mapping[Shown, Situation]
    own: tuple[tuple[int, ...], ...]  # clusters that each seat has said  # [seats]
    cluster: int | None = None  # chosen, while a member of it is not yet said

    def num_players(self) -> int:
        return len(self.own)

    def is_terminal(self) -> bool:
        return not self.is_chance_node() and self.match.to_act() is None

    def is_chance_node(self) -> bool:
        return self.cluster is not None or bool(self.match.chance_outcomes())

    def current_player(self) -> int:
        return int(pyspiel.PlayerId.CHANCE) if self.is_chance_node() else int(self.match.to_act())

    def legal_actions(self) -> list[int]:
        return list(self.heard[_shown(self.match)].spoken)

    def chance_outcomes(self) -> list[tuple[int, float]]:
        if self.cluster is None:
            return [(number, share) for number, (_, share) in enumerate(self.match.chance_outcomes())]
        return [(number, share) for number, (_, share) in enumerate(self._members())]

    def child(self, action: int) -> _State:
        if self.cluster is not None:
            return _State(_applied(self.match, self._members()[action][0]), self.heard, self.own)
        if outcomes := self.match.chance_outcomes():
            after = self.match.copy()
            after.apply_chance(outcomes[action][0])
            return _State(after, self.heard, self.own)
        seat = self.match.to_act()
        own = (*self.own[:seat], (*self.own[seat], action), *self.own[seat + 1 :])
        return _State(self.match, self.heard, own, action)

    def returns(self) -> list[float]:
        return list(self.match.returns())

    def key(self, seat: int) -> str:
        clusters = " ".join(map(str, self.own[seat]))
        return f"{self.match.observe(seat)}\n[{clusters}]"

    def _members(self) -> tuple[tuple[str, float], ...]:
        assert self.cluster is not None, "a cluster is chosen"
        return self.heard[_shown(self.match)].spoken[self.cluster]


@dataclass(frozen=True, slots=True)
class LatentGame:
    """A player's latent game, in sequence form."""

    form: SequenceForm
    heard: Mapping[Shown, Situation]
    said: tuple[Situation, ...]  # in each information state  # [I]
    masses: Behaviour  # of the clusters, as the player says them  # [I][clusters]

    def exploitability(self, behaviour: Behaviour) -> float:
        """Return NashConv / seats of a behaviour [I][clusters]: a best response's mean gain, in the game's units."""
        best, values = self.form.best_responses(behaviour), self.form.values(behaviour)
        return math.fsum(b - v for b, v in zip(best, values, strict=True)) / self.form.seats

    def equilibrium(self) -> tuple[float, Behaviour]:
        """Return the value to the first of two seats of a zero-sum game, and an equilibrium [I][clusters]."""
        return solved(self.form)


def latent_game(
    player: Player, space: LatentSpace, how: Listening, earlier: Mapping[Shown, Situation] | None = None
) -> LatentGame:
    """Return the latent game of what a player says. Raises UsageError as ``hear``, and without perfect recall.

    ``earlier`` holds the utterances heard before, as in ``hear``.
    """
    heard = hear(player, space, how, earlier or {})
    root = _State(_root(player.spec.name), heard, ((),) * player.spec.seats)
    form = enumerated(player.spec.name, root, _State.key, limit=100 * MOST_TURNS)  # ``hear`` has counted
    said = tuple([heard[seat, key.rpartition("\n")[0]] for seat, key in form.keys])
    masses = [_masses(members, ids) for members, ids in zip(said, form.legal, strict=True)]
    return LatentGame(form, heard, said, masses)


def _masses(heard: Situation, clusters: Sequence[int]) -> tuple[float, ...]:
    masses = [heard.mass(cluster) for cluster in clusters]
    return tuple([mass / math.fsum(masses) for mass in masses])
