"""Policy networks over a game's tensor: trained exploiters that play without the library that trained them.

An exploiter may have a budget (Liu et al., 2023, "Rethinking Adversarial Policies: A Generalized Attack
Formulation and Provable Defense in RL", arXiv:2305.17342): it controls a share c of its seat's turns, and
its reference, a frozen player, plays the other turns. Its policy is then, at every information state,

    π = (1 − c) ρ + c ν,  so that  TV(π, ρ) = c TV(ν, ρ) ≤ c,

with ρ the reference and ν the attack. A second bound d holds the attack itself within TV(ν, ρ) ≤ d: beyond
it, ν is moved straight towards ρ up to the bound. Control alone gives the mixtures, which are a part of the ball of
radius c: a mixture keeps at least 1 − c of each probability of ρ, while a policy in the ball may take c from a single
one. Distance alone reaches every policy of the ball.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from arena.lm.tensors import aligned
from arena.records import Reply, ReplyRequest, Tabular
from games.common.errors import UsageError
from games.common.files import atomic_write, read_json
from games.registry import make_game
from games.spec import Game, choice_game
from games.tensors import seat_tensor
from roles.replies import format_reply
from roles.role import Role

FACTS_FILE = "exploiter.json"
WEIGHTS_FILE = "network.safetensors"
_MASKED = -1e9  # logit of an illegal action: finite, so that 0 * _MASKED is 0 and not NaN
_MIN_DISTANCE = 1e-12  # avoids a division by zero for equal policies


class Budget(NamedTuple):
    """The bounds of an exploiter, both in [0, 1]; 1 is no bound."""

    control: float = 1.0  # share of its seat's turns that the exploiter controls
    distance: float = 1.0  # largest total variation from the reference on those turns

    @property
    def limited(self) -> bool:
        """Whether there is a bound, so that a reference is needed."""
        return self.control < 1.0 or self.distance < 1.0


UNLIMITED = Budget()


class Reference(NamedTuple):
    """The frozen player from which an exploiter with a budget may deviate."""

    engine: Tabular
    players: tuple[str, ...]  # [seats]
    roles: tuple[Role, ...]  # [seats]

    def distributions(self, requests: Sequence[ReplyRequest], seats: Sequence[int]) -> list[tuple[float, ...]]:
        """Return its probabilities of each request's ``legal`` actions, in the given seats [N]."""
        return self.engine.distributions(
            [
                request._replace(player=self.players[seat], role=self.roles[seat], refusals=())
                for request, seat in zip(requests, seats, strict=True)
            ]
        )


class Inputs(NamedTuple):
    """A network's inputs of N positions."""

    numbers: Tensor  # [N, F] the game's tensor, then the seat one-hot
    mask: Tensor  # [N, A] 1 for each legal action id, otherwise 0
    reference: Tensor  # [N, A] the reference's probabilities; zeros without a budget


class PolicyNet(nn.Module):
    """A perceptron with two tanh layers from ``Inputs.numbers`` to logits."""

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
    """Return the policy [N, A] of logits [N, A] under the mask and the budget."""
    masked = logits.masked_fill(inputs.mask == 0, _MASKED)
    attack = nn.functional.one_hot(masked.argmax(-1), masked.shape[-1]).float() if greedy else masked.softmax(-1)
    return within_budget(attack, inputs.reference, budget) if budget.limited else attack


def within_budget(attack: Tensor, reference: Tensor, budget: Budget) -> Tensor:
    """Return the policy [N, A] of an attack [N, A] under the budget; see the module's docstring.

    What an attack beyond the distance is shortened by counts as a constant in the gradient. Through it none would be
    left along the way to the reference, and an attack on the wrong side of that could not come back.
    """
    distance = 0.5 * (attack - reference).abs().sum(-1, keepdim=True)
    allowed = (budget.distance / distance.clamp(min=_MIN_DISTANCE)).clamp(max=1.0).detach()
    return reference + budget.control * allowed * (attack - reference)


def num_features(game: Game) -> int:
    """Return the length of ``seat_numbers``. Raises UsageError for a game without a tensor or a list of actions."""
    choice_game(game, "An exploiter's network")
    tensor = seat_tensor(game)
    if tensor is None:
        raise UsageError(
            f"{game.spec.name} has no observation tensor, which exploiters' networks read. They play "
            "OpenSpiel games that have one, and small games that give chance as data; use a language model here."
        )
    return int(np.prod(tensor.shape)) + game.spec.seats


def seat_numbers(tensor: NDArray[np.float32], seat: int, seats: int) -> NDArray[np.float32]:
    """Return a seat's tensor, flat, and the seat one-hot.  # [F]"""
    one_hot = np.zeros(seats, dtype=np.float32)
    one_hot[seat] = 1.0
    return np.concatenate([tensor.ravel(), one_hot])


def scatter_legal(game: Game, values: Sequence[float]) -> NDArray[np.float32]:
    """Scatter values of the legal actions to action ids, with zero elsewhere.  # [A]"""
    row = np.zeros(game.spec.num_actions, dtype=np.float32)
    row[list(choice_game(game, "A network's output").legal_ids())] = values
    return row


class ExploiterFacts(NamedTuple):
    """Facts about a saved exploiter; ``FACTS_FILE`` holds them as JSON."""

    game: str
    target: str
    seats: tuple[int, ...]  # the seats that it was trained for
    hidden: int
    greedy: bool  # plays its most likely action, because that did better than sampling
    control: float
    distance: float
    reference: str  # a player's name, also if the budget has no bound
    seed: int
    steps: int  # the exploiter's decisions in training
    bound: Mapping[str, Any]  # the result of its evaluation, as in `league lab exploit --json`
    sha256: str = ""  # of the weights' file; empty: not known
    plugins: Sequence[str] = ()  # that its game and its players need

    @property
    def budget(self) -> Budget:
        """The bounds of its policy."""
        return Budget(self.control, self.distance)


def save_exploiter(folder: Path, network: PolicyNet, facts: ExploiterFacts) -> None:
    """Write the weights, then the facts with the weights' hash, so that a folder with facts is complete."""
    weights = save({name: weight.detach().contiguous() for name, weight in network.state_dict().items()})
    facts = facts._replace(sha256=hashlib.sha256(weights).hexdigest())
    atomic_write(folder / WEIGHTS_FILE, weights)
    atomic_write(folder / FACTS_FILE, json.dumps(facts._asdict(), indent=2) + "\n")


def load_facts(folder: Path) -> ExploiterFacts:
    """Return a saved exploiter's facts. Raises UsageError for a folder without one."""
    try:
        facts = ExploiterFacts(**read_json(folder / FACTS_FILE))
        return facts._replace(seats=tuple(facts.seats))
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(
            f"best_response:{folder}: no exploiter can be read from it ({error}). "
            "`league lab exploit PLAYER --game G --out DIR` makes one, and best_response:DIR plays it."
        ) from error


def load_network(folder: Path, facts: ExploiterFacts) -> PolicyNet:
    """Return a saved exploiter's network. Raises UsageError for weights that are damaged or do not fit the game."""
    game, path = make_game(facts.game), folder / WEIGHTS_FILE
    network = PolicyNet(num_features(game), facts.hidden, game.spec.num_actions)
    try:
        content = path.read_bytes()
        weights = load(content)
    except (OSError, SafetensorError) as error:
        raise _broken(path, f"it cannot be read ({error})") from error
    if facts.sha256 and hashlib.sha256(content).hexdigest() != facts.sha256:
        raise _broken(path, f"its SHA-256 is not the one in {FACTS_FILE}, so it has changed since it was written")
    shapes, expected = ({name: tuple(w.shape) for name, w in one.items()} for one in (weights, network.state_dict()))
    if shapes != expected:
        raise _broken(
            path, f"its tensors are {shapes}, and {facts.game} with {facts.hidden} hidden units has {expected}"
        )
    if wrong := [name for name, weight in weights.items() if not weight.isfinite().all()]:
        raise _broken(path, f"{wrong[0]} is not finite (NaN or infinite)")
    network.load_state_dict(weights)
    return network


def _broken(path: Path, reason: str) -> UsageError:
    return UsageError(
        f"{path} holds no network that can play: {reason}. Restore the folder from a copy, or train the exploiter "
        "again."
    )


class PolicyNetEngine:
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
        """Play ``seats`` with a network that was trained in them; a limited budget needs a reference."""
        self._network, self._game, self._seats = network, game, tuple(seats)
        self._budget, self._reference, self._greedy = budget, reference, greedy

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request. Raises UsageError for another game or an untrained seat."""
        return [
            Reply(format_reply(request.role, request.rng.choices(request.legal, cum_weights=list(accumulate(row)))[0]))
            for request, row in zip(requests, self.distributions(requests), strict=True)
        ]

    @torch.inference_mode()
    def distributions(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...]]:
        """Return the policy over each request's legal actions. Raises UsageError as ``sample`` does."""
        inputs = self._inputs(requests)
        rows = attack_policy(self._network(inputs.numbers), inputs, self._budget, self._greedy).double().numpy()
        return [
            tuple(row[list(choice_game(request.game).legal_ids())].tolist())
            for request, row in zip(requests, rows, strict=True)
        ]

    def _inputs(self, requests: Sequence[ReplyRequest]) -> Inputs:
        seats = [self._seat(request) for request in requests]
        games = [request.game for request in requests]
        numbers = [
            seat_numbers(tensor.values(seat), seat, game.spec.seats)
            for game, seat in zip(games, seats, strict=True)
            if (tensor := seat_tensor(game)) is not None
        ]
        masks = [scatter_legal(game, (1.0,) * len(choice_game(game).legal_ids())) for game in games]
        references = [np.zeros_like(mask) for mask in masks]
        if self._reference is not None:
            distributions = self._reference.distributions(requests, seats)
            references = [scatter_legal(game, row) for game, row in zip(games, distributions, strict=True)]
        return Inputs(*(aligned(torch.from_numpy(np.stack(rows))) for rows in (numbers, masks, references)))

    def _seat(self, request: ReplyRequest) -> int:
        """Return the seat to act. Raises UsageError if the network was not trained for it."""
        seat = request.game.to_act()
        if request.game.spec.name != self._game or seat not in self._seats:
            raise UsageError(
                f"{request.player} was trained for {self._game}, seat {' and '.join(map(str, self._seats))}; it "
                f"cannot play seat {seat} of {request.game.spec.name}. Train another exploiter for that."
            )
        return seat
