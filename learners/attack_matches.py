"""Matches of a player in training against a frozen one, on many PettingZoo tables side by side.

Each round asks the frozen player's engine once for all tables where it is to act. A match draws from seeds of its
own index, so the same exploiter meets the same matches whatever the number of tables.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from arena.records import Refusal, Reply, ReplyRequest, Sampler
from arena.samplers.network import Reference, by_id, seat_numbers
from arena.streams import Stream
from games.pettingzoo import raw_env
from games.seeds import derive_seed
from games.spec import Game, GameSpec
from games.tensors import tensor_of
from roles.conduct import refusal_reason, settle_forfeit
from roles.replies import parse_reply
from roles.role import OnIllegal, Role


class FrozenPlayer(Protocol):
    """Whom the exploiter plays against; ``league.players.Player`` is one."""

    @property
    def spec(self) -> GameSpec:
        """The game."""
        ...

    @property
    def engine(self) -> Sampler:
        """What answers for it."""
        ...

    @property
    def roles(self) -> tuple[Role, ...]:
        """Its roles by seat."""  # [seats]
        ...

    def draw(self, seat: int, rng: random.Random) -> str:
        """Return the id of the player that takes a seat for one match."""
        ...


class Decision(NamedTuple):
    """One turn of the exploiter."""

    observation: NDArray[np.float32]  # numbers, mask, reference, then what every seat sees  # [F + 2A + H]
    action: int  # an action id
    policy: NDArray[np.float32]  # the probabilities that it was drawn from  # [A]


@dataclass(slots=True)
class AttackMatch:
    """A match in progress or over; ``rewards`` are by decision, in the game's units."""

    table: raw_env
    seat: int  # the exploiter's
    players: tuple[str, ...]  # the exploiter's seat has a name too, which is not asked  # [seats]
    rng: Stream
    decisions: list[Decision] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    refusals: tuple[Refusal, ...] = ()
    total: float = 0.0  # the exploiter's return so far
    over: bool = False

    def request(self, player: str, role: Role) -> ReplyRequest:
        """Return what is asked of the seat to act."""
        game = self.table.game
        seat = game.to_act()
        assert seat is not None
        return ReplyRequest(player, role, game, game.observe(seat), game.legal_actions(), self.refusals, self.rng)

    def decide(self, decision: Decision) -> None:
        """Play the exploiter's action."""
        self.decisions.append(decision)
        self.rewards.append(0.0)
        self._step(decision.action)

    def answer(self, request: ReplyRequest, reply: Reply) -> None:
        """Play the frozen player's reply, or do what its role's conduct says of an illegal one."""
        action = parse_reply(request.role, reply.text, request.legal)
        conduct = request.role.conduct
        if action is not None:
            self.refusals = ()
            self._step(request.game.legal_ids()[request.legal.index(action)])
        elif conduct.on_illegal is OnIllegal.RETRY and len(self.refusals) < conduct.retries:
            reason = refusal_reason(request.role, request.observation, reply.text, request.legal)
            self.refusals = (*self.refusals, Refusal(reply.text, reason))
        else:
            game = request.game
            settled = settle_forfeit(game.spec, game.returns(), request.role.seat, conduct)
            self._pay(settled[self.seat] - game.returns()[self.seat])
            self.over = True

    def _step(self, action: int) -> None:
        self.table.step(action)
        self._pay(self.table.rewards[self.table.possible_agents[self.seat]])
        self.over = self.table.game.to_act() is None

    def _pay(self, amount: float) -> None:
        """Book a payment on the latest decision; before the first, nothing that was decided has earned it."""
        self.total += amount
        if self.rewards:
            self.rewards[-1] += amount


Act = Callable[[NDArray[np.float32]], tuple[NDArray[np.int64], NDArray[np.float32]]]  # [N, F + 2A + H] -> [N], [N, A]


class AttackTables:
    """Where the exploiter meets the frozen player, its seats taking turns from match to match."""

    def __init__(
        self, target: FrozenPlayer, seats: Sequence[int], reference: Reference | None, seed: int, tables: int
    ) -> None:
        """Lay ``tables`` tables; what the exploiter observes has the reference's policy if there is one."""
        self._target, self._seats, self._reference, self._seed = target, tuple(seats), reference, seed
        self._idle = [raw_env(target.spec.name) for _ in range(tables)]
        self._begun = 0

    def play(self, decisions: int, act: Act) -> list[AttackMatch]:
        """Play whole matches until the exploiter has decided at least so often."""
        flying: list[AttackMatch] = []
        finished: list[AttackMatch] = []
        decided = 0
        while flying or decided < decisions:
            if decided < decisions:
                flying += [self._begin(self._idle.pop()) for _ in range(len(self._idle))]
            decided += self._advance(flying, act)
            over = [match for match in flying if match.over]
            flying = [match for match in flying if not match.over]
            finished += over
            self._idle += [match.table for match in over]
        return finished

    def _begin(self, table: raw_env) -> AttackMatch:
        index, self._begun = self._begun, self._begun + 1
        rng = random.Random(derive_seed(self._seed, "members", index))
        players = tuple(self._target.draw(seat, rng) for seat in range(self._target.spec.seats))
        table.reset(seed=derive_seed(self._seed, "deal", index))
        seat = self._seats[index % len(self._seats)]
        match = AttackMatch(table, seat, players, Stream(derive_seed(self._seed, "sample", index)))
        match.over = table.game.to_act() is None
        return match

    def _advance(self, flying: Sequence[AttackMatch], act: Act) -> int:
        """Let every match make one move; return how many of them were the exploiter's."""
        to_act = [match.table.game.to_act() for match in flying]
        mine = [match for match, seat in zip(flying, to_act, strict=True) if seat == match.seat]
        theirs = [(m, seat) for m, seat in zip(flying, to_act, strict=True) if seat not in (m.seat, None)]
        if theirs:
            roles = self._target.roles
            asked = [match.request(match.players[seat], roles[seat]) for match, seat in theirs if seat is not None]
            for (match, _), request, reply in zip(theirs, asked, self._target.engine.sample(asked), strict=True):
                match.answer(request, reply)
        if mine:
            observations = self._observe(mine)
            for match, *decision in zip(mine, observations, *act(observations), strict=True):
                match.decide(Decision(*decision))
        return len(mine)

    def _observe(self, matches: Sequence[AttackMatch]) -> NDArray[np.float32]:
        """Return the exploiter's observations.  # [N, F + 2A + H]"""
        seen = [match.table.observe(match.table.agent_selection) for match in matches]
        references = [np.zeros(len(one["action_mask"]), dtype=np.float32) for one in seen]
        if self._reference is not None:
            asked = [match.request("", self._target.roles[match.seat]) for match in matches]
            answers = self._reference.distributions(asked, [match.seat for match in matches])
            references = [by_id(match.table.game, row) for match, row in zip(matches, answers, strict=True)]
        seats = self._target.spec.seats
        numbers = [
            seat_numbers(one["observation"], match.seat, seats) for one, match in zip(seen, matches, strict=True)
        ]
        masks = [one["action_mask"].astype(np.float32) for one in seen]
        everyone = [_everyone(match.table.game) for match in matches]
        return np.stack([np.concatenate(parts) for parts in zip(numbers, masks, references, everyone, strict=True)])


def _everyone(game: Game) -> NDArray[np.float32]:
    """Return what every seat sees [H]: for the critic, which is not there when the exploiter plays."""
    tensor = tensor_of(game)
    assert tensor is not None, "features_of refuses a game without one"
    return np.concatenate([tensor.values(seat).ravel() for seat in range(game.spec.seats)])
