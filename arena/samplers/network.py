"""Plain policy networks over a game's tensor: trained exploiters, played without the library that trained them.

An exploiter may have a budget (Liu et al., 2023, "Rethinking Adversarial Policies: A Generalized Attack
Formulation and Provable Defense in RL", arXiv:2305.17342): it controls a share c of its seat's turns, and
its reference, a frozen player, plays the others. Its policy is then, at every information state,

    π = (1 − c) ρ + c ν,  so that  TV(π, ρ) = c TV(ν, ρ) ≤ c,

with ρ the reference and ν the attack. A second bound d holds the attack itself within TV(ν, ρ) ≤ d: beyond
it, ν is moved straight towards ρ until it stands on the bound. Control alone gives the mixtures; they are a part
of the ball of radius c, because a mixture keeps at least 1 − c of each probability of ρ, while a policy in
the ball may take c from a single one. Distance alone reaches every policy of the ball.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save
from torch import Tensor, nn

from arena.records import Reply, ReplyRequest, Tabular
from games.errors import UsageError
from games.files import atomic_write
from games.registry import make_game
from games.spec import Game
from games.tensors import tensor_of
from roles.replies import worded
from roles.role import Role

FACTS_FILE = "exploiter.json"
WEIGHTS_FILE = "network.safetensors"
_MASKED = -1e9  # logit of an illegal action: finite, so that 0 * _MASKED is 0 and not NaN
_LEAST = 1e-12  # distance below which two policies are one


class Budget(NamedTuple):
    """How far an exploiter may go: both bounds in [0, 1], 1 for no bound."""

    control: float = 1.0  # share of its seat's turns that it controls
    distance: float = 1.0  # most total variation from the reference on those turns

    @property
    def limited(self) -> bool:
        """Whether a reference is needed."""
        return self.control < 1.0 or self.distance < 1.0


UNLIMITED = Budget()


class Reference(NamedTuple):
    """The frozen player that an exploiter with a budget is measured by."""

    engine: Tabular
    players: tuple[str, ...]  # [seats]
    roles: tuple[Role, ...]  # [seats]

    def distributions(self, requests: Sequence[ReplyRequest], seats: Sequence[int]) -> list[tuple[float, ...]]:
        """Return what it would do in place of each request's seat [N], over ``request.legal``."""
        return self.engine.distributions(
            [
                request._replace(player=self.players[seat], role=self.roles[seat], refusals=())
                for request, seat in zip(requests, seats, strict=True)
            ]
        )


class Inputs(NamedTuple):
    """What a network is told of N positions."""

    numbers: Tensor  # [N, F] the game's tensor, then a one for the seat
    mask: Tensor  # [N, A] one for each legal action id
    reference: Tensor  # [N, A] the reference's probabilities; zeros where there is no budget


class PolicyNet(nn.Module):
    """A perceptron of two tanh layers from a seat's numbers to logits."""

    def __init__(self, features: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.layers = nn.Sequential(
            nn.Linear(features, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, outputs)
        )

    def forward(self, numbers: Tensor) -> Tensor:
        """Map [N, features] to [N, outputs]."""
        outputs: Tensor = self.layers(numbers)
        return outputs


def attack_policy(logits: Tensor, inputs: Inputs, budget: Budget, greedy: bool = False) -> Tensor:
    """Return the probabilities [N, A] that logits [N, A] come to under the mask and the budget."""
    masked = logits.masked_fill(inputs.mask == 0, _MASKED)
    attack = nn.functional.one_hot(masked.argmax(-1), masked.shape[-1]).float() if greedy else masked.softmax(-1)
    return within_budget(attack, inputs.reference, budget) if budget.limited else attack


def within_budget(attack: Tensor, reference: Tensor, budget: Budget) -> Tensor:
    """Return the policy [N, A] that an attack [N, A] comes to; see the head of this file."""
    apart = 0.5 * (attack - reference).abs().sum(-1, keepdim=True)
    allowed = (budget.distance / apart.clamp(min=_LEAST)).clamp(max=1.0)
    return reference + budget.control * allowed * (attack - reference)


def features_of(game: Game) -> int:
    """Return how many numbers ``seat_numbers`` gives. Raises UsageError for a game without a tensor."""
    tensor = tensor_of(game)
    if tensor is None:
        raise UsageError(
            f"{game.spec.name} has no tensor of what a seat sees, which an exploiter's network reads. Exploiters play "
            "OpenSpiel's games that have one; use a language model as the exploiter here."
        )
    return int(np.prod(tensor.shape)) + game.spec.seats


def seat_numbers(tensor: NDArray[np.float32], seat: int, seats: int) -> NDArray[np.float32]:
    """Return a seat's tensor, flat, and a one in its own place among the seats.  # [F]"""
    place = np.zeros(seats, dtype=np.float32)
    place[seat] = 1.0
    return np.concatenate([tensor.ravel(), place])


def by_id(game: Game, values: Sequence[float]) -> NDArray[np.float32]:
    """Return values given over ``game.legal_ids()`` by action id, zero elsewhere.  # [A]"""
    row = np.zeros(game.spec.num_actions, dtype=np.float32)
    row[list(game.legal_ids())] = values
    return row


class Facts(NamedTuple):
    """What is known of a saved exploiter; ``FACTS_FILE`` holds it as JSON."""

    game: str
    target: str
    seats: tuple[int, ...]  # that it was trained for
    hidden: int
    greedy: bool  # plays its most likely action, which did better than drawing when it was saved
    control: float
    distance: float
    reference: str  # a player; told even where the budget has no bound
    seed: int
    steps: int  # decisions of its own in training
    bound: Mapping[str, Any]  # what its evaluation showed, as `league exploit --json` tells it

    @property
    def budget(self) -> Budget:
        """How far it may go."""
        return Budget(self.control, self.distance)


def save_exploiter(folder: Path, network: PolicyNet, facts: Facts) -> None:
    """Write the weights, then the facts, so that a folder with facts is whole."""
    weights = {name: weight.detach().contiguous() for name, weight in network.state_dict().items()}
    atomic_write(folder / WEIGHTS_FILE, save(weights))
    atomic_write(folder / FACTS_FILE, json.dumps(facts._asdict(), indent=2) + "\n")


def load_facts(folder: Path) -> Facts:
    """Return a saved exploiter's facts. Raises UsageError for a folder without one."""
    try:
        facts = Facts(**json.loads((folder / FACTS_FILE).read_text(encoding="utf-8")))
        return facts._replace(seats=tuple(facts.seats))
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(
            f"exploiter:{folder}: no exploiter can be read from there ({error}). `league exploit PLAYER --game G --out "
            "DIR` makes one, and exploiter:DIR plays it."
        ) from error


def load_network(folder: Path, facts: Facts) -> PolicyNet:
    """Return a saved exploiter's network. Raises UsageError if the weights do not fit the game."""
    game = make_game(facts.game)
    network = PolicyNet(features_of(game), facts.hidden, game.spec.num_actions)
    try:
        network.load_state_dict(load_file(folder / WEIGHTS_FILE))
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"{folder / WEIGHTS_FILE} does not fit {facts.game}: {error}. Train it again.") from error
    return network


class Network:
    """The engine of one network in one game."""

    def __init__(
        self,
        network: PolicyNet,
        game: str,
        *,
        seats: Sequence[int],
        budget: Budget,
        reference: Reference | None,
        greedy: bool,
    ) -> None:
        """Play ``seats`` with a network that was trained in them; a bounded budget needs a reference."""
        self._network, self._game, self._seats = network, game, tuple(seats)
        self._budget, self._reference, self._greedy = budget, reference, greedy

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request. Raises UsageError for another game or an untrained seat."""
        return [
            Reply(worded(request.role, request.rng.choices(request.legal, cum_weights=list(accumulate(row)))[0]))
            for request, row in zip(requests, self.distributions(requests), strict=True)
        ]

    @torch.inference_mode()
    def distributions(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...]]:
        """Return the policy over each request's legal actions. Raises UsageError as ``sample`` does."""
        inputs = self._inputs(requests)
        rows = attack_policy(self._network(inputs.numbers), inputs, self._budget, self._greedy).double().numpy()
        return [
            tuple(row[list(request.game.legal_ids())].tolist()) for request, row in zip(requests, rows, strict=True)
        ]

    def _inputs(self, requests: Sequence[ReplyRequest]) -> Inputs:
        seats = [self._seat(request) for request in requests]
        games = [request.game for request in requests]
        numbers = [
            seat_numbers(tensor.values(seat), seat, game.spec.seats)
            for game, seat in zip(games, seats, strict=True)
            if (tensor := tensor_of(game)) is not None
        ]
        masks = [by_id(game, (1.0,) * len(game.legal_ids())) for game in games]
        references = [np.zeros_like(mask) for mask in masks]
        if self._reference is not None:
            answers = self._reference.distributions(requests, seats)
            references = [by_id(game, answer) for game, answer in zip(games, answers, strict=True)]
        return Inputs(*(torch.from_numpy(np.stack(rows)) for rows in (numbers, masks, references)))

    def _seat(self, request: ReplyRequest) -> int:
        """Return the seat that is asked. Raises UsageError if the network was not trained for it."""
        seat = request.game.to_act()
        if request.game.spec.name != self._game or seat not in self._seats:
            raise UsageError(
                f"{request.player} was trained for {self._game}, seat {' and '.join(map(str, self._seats))}; it is "
                f"asked to play seat {seat} of {request.game.spec.name}. Train another one for that."
            )
        return seat
