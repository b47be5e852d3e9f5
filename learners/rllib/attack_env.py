"""Matches of a player in training against a frozen one, in many PettingZoo environments at once.

Each round calls the frozen player's engine once for all environments where it is to act. A match's seeds derive from
its index, so the same exploiter plays the same matches whatever the number of environments.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from arena.contexts import request_in
from arena.match_rng import MatchRng
from arena.records import Refusal, Reply, ReplyRequest, Sampler
from arena.samplers.policy_net import Reference, scatter_legal, seat_numbers
from games.common.seeds import derive_seed
from games.pettingzoo import raw_env
from games.spec import Game, GameSpec, choice_game
from games.tensors import seat_tensor
from roles.conduct import retry_message, settle_forfeit
from roles.replies import parse_reply
from roles.role import OnIllegal, Role


class FrozenPlayer(Protocol):
    """The player that the exploiter trains against; ``league.population.players.player.Player`` is one."""

    @property
    def spec(self) -> GameSpec:
        """The game."""
        ...

    @property
    def engine(self) -> Sampler:
        """The engine that samples its replies."""
        ...

    @property
    def roles(self) -> tuple[Role, ...]:
        """The roles by seat."""  # [seats]
        ...

    def draw(self, seat: int, rng: random.Random) -> str:
        """Return the id of the player that takes a seat for one match."""
        ...


class Decision(NamedTuple):
    """One turn of the exploiter."""

    observation: NDArray[np.float32]  # features, mask, reference, then what every seat sees  # [F + 2A + H]
    action: int  # an action id
    policy: NDArray[np.float32]  # the probabilities from which it was sampled  # [A]


@dataclass(slots=True)
class AttackMatch:
    """A match in progress or over; ``rewards`` are by decision, in the game's units."""

    env: raw_env
    seat: int  # the exploiter's
    players: tuple[str, ...]  # ids by seat; the exploiter's seat's is not used  # [seats]
    rng: MatchRng
    decisions: list[Decision] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    refusals: tuple[Refusal, ...] = ()
    total: float = 0.0  # the exploiter's return so far
    over: bool = False

    def request(self, player: str, role: Role) -> ReplyRequest:
        """Return the reply request of the seat to act."""
        game = choice_game(self.env.game)
        seat = game.to_act()
        assert seat is not None
        return request_in(player, role, game, self.rng)._replace(refusals=self.refusals)

    def apply_action(self, decision: Decision) -> None:
        """Play the exploiter's action."""
        self.decisions.append(decision)
        self.rewards.append(0.0)
        self._step(decision.action)

    def apply_reply(self, request: ReplyRequest, reply: Reply) -> None:
        """Play the frozen player's reply, or treat an illegal one by its role's conduct: retry or forfeit."""
        action = parse_reply(request.role, reply.text, request.legal)
        conduct = request.role.conduct
        if action is not None:
            self.refusals = ()
            self._step(choice_game(request.game).legal_ids()[request.legal.index(action)])
        elif conduct.on_illegal is OnIllegal.RETRY and len(self.refusals) < conduct.retries:
            reason = retry_message(request.role, request.observation, reply.text, request.legal)
            self.refusals = (*self.refusals, Refusal(reply.text, reason))
        else:
            game = request.game
            settled = settle_forfeit(game, request.role.seat, conduct)
            self._add_reward(settled[self.seat] - game.returns()[self.seat])
            self.over = True

    def _step(self, action: int) -> None:
        self.env.step(action)
        self._add_reward(self.env.rewards[self.env.possible_agents[self.seat]])
        self.over = self.env.game.to_act() is None

    def _add_reward(self, amount: float) -> None:
        """Add to the reward of the latest decision; rewards before the first decision count only in the total."""
        self.total += amount
        if self.rewards:
            self.rewards[-1] += amount


Act = Callable[[NDArray[np.float32]], tuple[NDArray[np.int64], NDArray[np.float32]]]  # [N, F + 2A + H] -> [N], [N, A]


class AttackEnvs:
    """Environments in which the exploiter plays the frozen player; its seat rotates from match to match."""

    def __init__(
        self, target: FrozenPlayer, seats: Sequence[int], reference: Reference | None, seed: int, envs: int
    ) -> None:
        """Create ``envs`` environments; observations contain the reference's policy if there is one."""
        self._target, self._seats, self._reference, self._seed = target, tuple(seats), reference, seed
        self._idle = [raw_env(target.spec.name) for _ in range(envs)]
        self._started = 0

    def play(self, decisions: int, act: Act) -> list[AttackMatch]:
        """Play whole matches until the exploiter has made at least ``decisions`` decisions."""
        running: list[AttackMatch] = []
        finished: list[AttackMatch] = []
        decided = 0
        while running or decided < decisions:
            if decided < decisions:
                running += [self._start(self._idle.pop()) for _ in range(len(self._idle))]
            decided += self._advance(running, act)
            ended = [match for match in running if match.over]
            running = [match for match in running if not match.over]
            finished += ended
            self._idle += [match.env for match in ended]
        return finished

    def _start(self, env: raw_env) -> AttackMatch:
        index, self._started = self._started, self._started + 1
        rng = random.Random(derive_seed(self._seed, "members", index))
        players = tuple(self._target.draw(seat, rng) for seat in range(self._target.spec.seats))
        env.reset(seed=derive_seed(self._seed, "deal", index))
        seat = self._seats[index % len(self._seats)]
        match = AttackMatch(env, seat, players, MatchRng(derive_seed(self._seed, "sample", index)))
        match.over = env.game.to_act() is None
        return match

    def _advance(self, running: Sequence[AttackMatch], act: Act) -> int:
        """Play one move in every match; return how many of them were the exploiter's."""
        to_act = [match.env.game.to_act() for match in running]
        exploiter_matches = [match for match, seat in zip(running, to_act, strict=True) if seat == match.seat]
        target_turns = [(m, seat) for m, seat in zip(running, to_act, strict=True) if seat not in (m.seat, None)]
        if target_turns:
            roles = self._target.roles
            requests = [
                match.request(match.players[seat], roles[seat]) for match, seat in target_turns if seat is not None
            ]
            for (match, _), request, reply in zip(
                target_turns, requests, self._target.engine.sample(requests), strict=True
            ):
                match.apply_reply(request, reply)
        if exploiter_matches:
            observations = self._observe(exploiter_matches)
            for match, *decision in zip(exploiter_matches, observations, *act(observations), strict=True):
                match.apply_action(Decision(*decision))
        return len(exploiter_matches)

    def _observe(self, matches: Sequence[AttackMatch]) -> NDArray[np.float32]:
        """Return the exploiter's observations.  # [N, F + 2A + H]"""
        seen_by_match = [match.env.observe(match.env.agent_selection) for match in matches]
        references = [np.zeros(len(observation["action_mask"]), dtype=np.float32) for observation in seen_by_match]
        if self._reference is not None:
            requests = [match.request("", self._target.roles[match.seat]) for match in matches]
            policies = self._reference.distributions(requests, [match.seat for match in matches])
            references = [scatter_legal(match.env.game, row) for match, row in zip(matches, policies, strict=True)]
        seats = self._target.spec.seats
        features = [
            seat_numbers(observation["observation"], match.seat, seats)
            for observation, match in zip(seen_by_match, matches, strict=True)
        ]
        masks = [observation["action_mask"].astype(np.float32) for observation in seen_by_match]
        all_seats = [_all_seats(match.env.game) for match in matches]
        return np.stack([np.concatenate(parts) for parts in zip(features, masks, references, all_seats, strict=True)])


def _all_seats(game: Game) -> NDArray[np.float32]:
    """Return what every seat sees [H], for the critic, which is used in training only."""
    tensor = seat_tensor(game)
    assert tensor is not None, "features_of refuses a game without one"
    return np.concatenate([tensor.values(seat).ravel() for seat in range(game.spec.seats)])
