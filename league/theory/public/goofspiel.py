"""Goofspiel with hidden bids, as OpenSpiel plays it: what is public is who won each prize, and bids stay hidden.

A hand is not dealt here: it is the sequence of a seat's own bids, and it grows. So after k rounds a seat's policy is an
array over public outcomes [3^k] and own bids [n! / (n - k)!], and a round is one product over the next card. Which
outcomes two sequences of bids lead to is known of all pairs of them, so values need no walk over histories.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from math import perm, prod
from typing import NamedTuple

import numpy as np

from games.openspiel.game import OpenSpielGame, load_pyspiel
from games.spec import ChoiceGame
from league.theory.exact.states import is_native
from league.theory.public.tree import Floats, Integers

MOST_CARDS = 7  # pairs of all sequences of bids are counted out: 25 million
BATCH = 8192  # information states that are asked at once
ROWS = 256  # of sequences whose pairs are held at a time
Policy = list[Floats]  # of one seat, by round: [3^k, n! / (n - k)!, n - k], chances of the cards left, ascending
Position = tuple[int, ChoiceGame]  # (seat, a position in which it is that seat's turn)


class Goofspiel(NamedTuple):
    """The game with ``cards`` cards a seat; the last card plays itself."""

    cards: int
    prizes: tuple[int, ...]  # in the order in which they are bid for

    @property
    def name(self) -> str:
        """OpenSpiel's name."""
        order = "descending" if self.prizes[0] > self.prizes[-1] else "ascending"
        return f"goofspiel(imp_info=True,num_cards={self.cards},points_order={order})"

    @property
    def rounds(self) -> int:
        """Rounds in which a seat has a choice."""
        return self.cards - 1

    @property
    def information_states(self) -> int:
        """The number of information states of both seats."""
        return 2 * sum(int(np.count_nonzero(self.partners(k) >= 0)) for k in range(self.rounds))

    def bids(self, rounds: int) -> Integers:
        """Return all sequences of this many bids, in order.  # [n! / (n - rounds)!, rounds]"""
        found = list(itertools.permutations(range(1, self.cards + 1), rounds))
        return np.array(found, dtype=np.intp).reshape(len(found), rounds)

    def uniform(self) -> Policy:
        """Return the policy that bids every card left with equal probability."""
        shapes = ((3**k, perm(self.cards, k), self.cards - k) for k in range(self.rounds))
        return [np.full(shape, 1.0 / shape[2]) for shape in shapes]

    def cut(self, flat: Floats) -> Policy:
        """Return views into a policy whose rounds are stored one after another."""
        shapes = [(3**k, perm(self.cards, k), self.cards - k) for k in range(self.rounds)]
        ends = itertools.accumulate(prod(shape) for shape in shapes)
        return [flat[end - prod(shape) : end].reshape(shape) for shape, end in zip(shapes, ends, strict=True)]

    def partners(self, rounds: int) -> Integers:
        """Return the last sequence of the other seat's that leads to an outcome with one's own; -1: none.

        Outcomes are numbered by base 3, the first round first: 0 this seat won, 1 a tie, 2 it lost.
        # [3^k, n! / (n - k)!]
        """
        own = self.bids(rounds)
        found = np.full((3**rounds, len(own)), -1, np.intp)
        for first, outcomes in _outcomes(own):
            rows = np.arange(first, first + len(outcomes))[:, None]
            found[outcomes, rows] = np.arange(len(own))[None]
        return found


def goofspiel_of(game: str) -> Goofspiel | None:
    """Return a game that this module knows; None for any other."""
    if is_native(game):
        return None
    loaded = load_pyspiel(game)
    given = loaded.get_parameters()
    given = given.get("game", given)
    if given.get("name", loaded.get_type().short_name) != "goofspiel" or loaded.num_players() != 2:
        return None
    cards, order = int(given.get("num_cards", 13)), given.get("points_order", "random")
    plain = given.get("returns_type", "win_loss") == "win_loss" and not given.get("egocentric", False)
    if not (given.get("imp_info", False) and plain and given.get("num_turns", -1) in (-1, cards)):
        return None
    if order not in ("ascending", "descending") or not 2 <= cards <= MOST_CARDS:
        return None
    prizes = range(1, cards + 1)
    return Goofspiel(cards, tuple(prizes if order == "ascending" else reversed(prizes)))


def reach(policy: Policy) -> list[Floats]:
    """Return how likely a seat's own bids are, after each round, given the outcomes.  # [3^k, n! / (n - k)!] by k"""
    found = [np.ones((1, 1))]
    for chances in policy:
        bid = (found[-1][:, :, None] * chances).reshape(len(chances), -1)
        found.append(np.repeat(bid, 3, axis=0))
    return found


def value(game: Goofspiel, other: Policy, own: Policy | None = None) -> float:
    """Return what a seat earns against another seat's policy: by its own policy, or with None by a best response.

    Both seats number outcomes as their own. The game is the same from either seat.
    """
    worth = _at_the_end(game, reach(other)[-1])
    for k in reversed(range(game.rounds)):
        below = worth.reshape(3**k, 3, perm(game.cards, k), game.cards - k).sum(axis=1)
        worth = below.max(axis=2) if own is None else (below * own[k]).sum(axis=2)
    return float(worth[0, 0])


def exploitability(game: Goofspiel, policies: tuple[Policy, Policy]) -> float:
    """Return the mean over seats of what a best response gains, in the game's units a match."""
    return (value(game, policies[1]) + value(game, policies[0])) / 2.0


def mixture(game: Goofspiel, members: Sequence[tuple[Policy, float]]) -> Policy:
    """Return the behaviour of a seat that draws one of several policies for each match (Kuhn's theorem)."""
    if len(members) == 1:
        return members[0][0]
    reached = [(reach(policy), policy, weight) for policy, weight in members]
    mixed = []
    for k in range(game.rounds):
        shares = np.stack([weight * chances[k] for chances, _, weight in reached])  # [M, 3^k, H]
        shares = np.where(shares.sum(axis=0) > 0.0, shares, np.array([w for _, _, w in reached])[:, None, None])
        shares = shares / shares.sum(axis=0)
        weighed = [share[:, :, None] * policy[k] for share, (_, policy, _) in zip(shares, reached, strict=True)]
        mixed.append(np.sum(weighed, axis=0))
    return mixed


def positions(game: Goofspiel, seat: int) -> Iterator[tuple[tuple[int, int, int], Position]]:
    """Yield each information state of a seat, (round, outcome, own bids), and a match that has come there."""
    loaded = load_pyspiel(game.name)
    for k in range(game.rounds):
        own, partners = game.bids(k), game.partners(k)
        for outcome, bids in zip(*(places.tolist() for places in np.nonzero(partners >= 0)), strict=True):
            mine, theirs = own[bids].tolist(), own[partners[outcome, bids]].tolist()
            state = loaded.new_initial_state()
            for pair in zip(mine, theirs, strict=True):
                for bid in pair if seat == 0 else reversed(pair):
                    state.apply_action(bid - 1)
            if seat == 1:  # turn by turn: the first seat has bid, and this one does not see what
                state.apply_action(state.legal_actions()[0])
            yield (k, outcome, bids), (seat, OpenSpielGame.from_state(game.name, state))


def read_policy(
    game: Goofspiel,
    seat: int,
    distributions: Callable[[Sequence[Position]], Sequence[Sequence[float]]],
    tell: Callable[[int], object] = lambda asked: None,
    begun: tuple[Policy, int] | None = None,
) -> Policy:
    """Return a player's policy in a seat; arguments are as of ``reading.read_policy``."""
    policy, asked = begun or (game.uniform(), 0)
    waiting = itertools.islice(positions(game, seat), asked, None)
    while part := list(itertools.islice(waiting, BATCH)):
        answers = distributions([position for _, position in part])
        for ((k, outcome, bids), _), answer in zip(part, answers, strict=True):
            policy[k][outcome, bids] = answer  # legal ids are the cards left, ascending
        asked += len(part)
        tell(asked)
    return policy


def _at_the_end(game: Goofspiel, others: Floats) -> Floats:
    """Return what a seat earns after its last choice, by outcomes and its bids, times the other's reach."""
    own = game.bids(game.rounds)
    total = game.cards * (game.cards + 1) // 2
    last = total - own.sum(axis=1)  # the card that plays itself
    swapped = _swapped(game.rounds)
    margins = _margins(game)
    worth = np.zeros((3**game.rounds, len(own)))
    for first, outcomes in _outcomes(own):
        mine = slice(first, first + len(outcomes))
        sign = np.sign(last[mine, None] - last[None])
        won = np.sign(margins[outcomes] + sign * game.prizes[-1])
        earned = won * others[swapped[outcomes], np.arange(len(own))[None]]
        cells = outcomes * len(outcomes) + np.arange(len(outcomes))[:, None]
        size = len(worth) * len(outcomes)
        worth[:, mine] = np.bincount(cells.ravel(), earned.ravel(), size).reshape(len(worth), len(outcomes))
    return worth


def _outcomes(own: Integers) -> Iterator[tuple[int, Integers]]:
    """Yield (first row, outcomes of some of one's own sequences beside all of the other's).  # [rows, H]"""
    for first in range(0, len(own), ROWS):
        outcomes = np.zeros((len(own[first : first + ROWS]), len(own)), np.intp)
        for k in range(own.shape[1]):
            outcomes = 3 * outcomes + 1 - np.sign(own[first : first + ROWS, None, k] - own[None, :, k])
        yield first, outcomes


def _swapped(rounds: int) -> Integers:
    """Return the number that the other seat gives each outcome: what one won the other lost.  # [3^k]"""
    return np.arange(3**rounds, dtype=np.intp)[::-1]


def _margins(game: Goofspiel) -> Integers:
    """Return by how much this seat leads before the last card, by outcome.  # [3^k]"""
    margins: Integers = np.zeros(1, np.intp)
    for prize in game.prizes[:-1]:
        margins = (margins[:, None] + prize * np.array([1, 0, -1])[None]).ravel()
    return margins
