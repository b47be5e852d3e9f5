"""PPO and magnetic mirror descent with small networks, in games whose matches are drawn from arrays.

A match is drawn from its exact distribution over the game's endings (``benchmarks.simulations.settling_table``), which
is what playing it move by move comes to. All decisions of a minibatch that are made in one information state share its
row: the network reads it once, and their advantages are summed by action, those above zero apart from those below, as
the clip tells them apart. The loss and its gradient are those of decision by decision, so ten million decisions take
seconds.

Both seats share one network, OpenSpiel's ``PPOAgent`` (an actor and a critic of two layers of 64), which reads
OpenSpiel's tensor of the information state and the seat. Advantages are GAE over a seat's own decisions.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from benchmarks.simulations.settling_table import Floats, Table
from games.common.errors import UsageError
from games.openspiel.game import decision_points
from league.theory.exact.states import Key

GAE_LAMBDA, VALUE_WEIGHT, MOST_NORM = 0.95, 0.5, 0.5
UPDATES = 250  # in which a budget of decisions is spent
NO_LOGIT = -1e9  # of an action that is not legal
MOST_STATES, MOST_POSITIONS = 50_000, 1_000_000
Integers = NDArray[np.int64]


class Learner(NamedTuple):
    """A method and its constants; its learning rate falls to zero over the budget."""

    method: str  # "ppo" (Schulman et al. 2017) or "mmd" (Sokota et al. 2023)
    entropy: float  # alpha at first, in returns of which the largest is 1, or in normalised advantages
    entropy_end: float  # it falls to this by equal factors
    normalised: bool  # advantages are, over a minibatch
    learning_rate: float = 2e-3
    epochs: int = 2
    minibatches: int = 4
    clip: float = 0.2  # of PPO
    kl: float = 1.0  # of MMD: 1 / eta, the weight of KL(new, old)

    def at(self, progress: float) -> Learner:
        """Return the learner with the constants of a time between 0 and 1."""
        return self._replace(
            entropy=self.entropy * (self.entropy_end / self.entropy) ** progress,
            learning_rate=self.learning_rate * (1.0 - progress),
        )


class Arrays(Table):
    """A game's sequences and endings with what a network reads: I states, A actions, Z endings, T decisions a seat."""

    def __init__(self, game: str) -> None:
        super().__init__(game, MOST_POSITIONS)
        self.tensors = _tensors(game, self.form.keys)  # [I, D]
        self.action = np.full(self.size, -1)  # OpenSpiel's number of a sequence's last action  # [Q]
        for first, ids in zip(self.form.first, self.form.legal, strict=True):
            self.action[first : first + len(ids)] = ids
        self.legal = torch.zeros(len(self.form.keys), self.action.max() + 1, dtype=torch.bool)  # [I, A]
        self.legal[self.state[self.seats :], self.action[self.seats :]] = True
        steps, passed = [], self.form.last
        while (passed >= self.seats).any():
            steps.append(np.where(passed >= self.seats, passed, -1))
            passed = np.where(passed >= self.seats, self.parent[passed], -1)
        self.path = np.stack(steps, axis=2)  # a seat's sequences, the last one first; -1 beyond its first  # [Z, S, T]
        self.decisions = (self.path >= 0).sum(axis=(1, 2))  # [Z]

    def flat(self, logprobs: torch.Tensor) -> Floats:
        """Return log-probs by sequence [Q] of those by state and action [I, A]; 0 for empty sequences."""
        rows = logprobs.detach().double().numpy()
        return np.concatenate([np.zeros(self.seats), rows[self.state[self.seats :], self.action[self.seats :]]])

    def drawn(self, logprobs: Floats, matches: int, rng: np.random.Generator) -> Integers:
        """Return the endings of matches that are played by a policy [Q], in the order in which they are drawn."""
        sums = np.cumsum(self.reach(logprobs))
        return np.asarray(np.searchsorted(sums, rng.random(matches) * sums[-1], side="right"))

    def length(self, logprobs: Floats) -> float:
        """Return the decisions that a match is expected to take."""
        return float(self.reach(logprobs) @ self.decisions)

    def uniform(self) -> Floats:
        """Return the log-probs [Q] of the policy that plays every legal action with equal probability."""
        return self.normalised(np.zeros(self.size))


def _tensors(game: str, keys: Sequence[Key]) -> torch.Tensor:
    """Return OpenSpiel's tensor of each information state, and the seat.

    Dark hex tells how many moves were made in an information state's text and not in its tensor, so where two states
    share a row the number of moves stands beside it. Raises UsageError if they still do.
    """
    points = decision_points(game, MOST_STATES)
    states = [points[key].pyspiel_state() for key in keys]
    rows = [(*state.information_state_tensor(seat), seat) for state, (seat, _) in zip(states, keys, strict=True)]
    if len(set(rows)) < len(rows):
        rows = [(*row, len(state.history())) for row, state in zip(rows, states, strict=True)]
    if len(set(rows)) < len(rows):
        raise UsageError(f"{game} has information states that share a tensor, so a network cannot tell them apart.")
    return torch.tensor(rows, dtype=torch.float32)


class Minibatch(NamedTuple):
    """The decisions of some matches, summed by information state: U rows."""

    states: Integers  # [U]
    counts: torch.Tensor  # decisions  # [U]
    gains: torch.Tensor  # sums of the advantages above zero  # [U, A]
    losses: torch.Tensor  # of those below  # [U, A]
    targets: torch.Tensor  # means of what the value should be  # [U]


def advantages(arrays: Arrays, endings: Integers, values: Floats) -> tuple[Integers, Floats, Floats]:
    """Return each decision's sequence, its GAE and the target of its value, over matches with these endings [M].

    ``values`` [I] are of the seat that moves there. Only a match's end pays, so a decision is worth what the seat's
    next one is valued at, or the return.
    """
    path = arrays.path[endings]  # [M, S, T]
    value = values[arrays.state[path]]
    after, running, found = arrays.returns[endings], 0.0, np.empty_like(value)
    for step in range(path.shape[2]):
        running = after - value[..., step] + GAE_LAMBDA * running
        found[..., step] = running
        after = value[..., step]
    real = path >= 0
    return path[real], found[real], (found + value)[real]


def minibatch(arrays: Arrays, endings: Integers, values: Floats, normalised: bool) -> Minibatch:
    """Return what a minibatch of matches with these endings [M] comes to."""
    sequences, advantage, target = advantages(arrays, endings, values)
    if normalised:
        advantage = (advantage - advantage.mean()) / (advantage.std(ddof=1) + 1e-8)
    of_states = arrays.state[sequences]
    counts = np.bincount(of_states, minlength=len(arrays.legal))
    states = np.flatnonzero(counts)
    shape = (len(states), arrays.legal.shape[1])
    row = np.searchsorted(states, of_states) * shape[1] + arrays.action[sequences]

    def summed(values: Floats) -> torch.Tensor:
        return torch.from_numpy(np.bincount(row, values, shape[0] * shape[1]).reshape(shape)).float()

    targets = np.bincount(of_states, target, len(counts))[states] / counts[states]
    return Minibatch(
        states,
        torch.from_numpy(counts[states]).float(),
        summed(np.maximum(advantage, 0.0)),
        summed(np.minimum(advantage, 0.0)),
        torch.from_numpy(targets).float(),
    )


def policy_loss(learner: Learner, new: torch.Tensor, old: torch.Tensor, batch: Minibatch) -> torch.Tensor:
    """Return the loss of log-probs ``new`` against those that played, both [U, A], as a mean over decisions.

    PPO: -min(r A, clip(r, 1 - c, 1 + c) A) - alpha H(new), r = new / old.
    MMD: -r A - alpha H(new) + KL(new, old) / eta: a step of mirror descent towards a uniform magnet. Where advantages
    are exact its minimum is log (old exp(A / kl))^(kl / (kl + alpha)), normalised.
    """
    ratio = torch.exp(new - old)
    if learner.method == "ppo":
        gains, losses = ratio.clamp(max=1.0 + learner.clip), ratio.clamp(min=1.0 - learner.clip)
        gained = batch.gains * gains + batch.losses * losses
    else:
        gained = (batch.gains + batch.losses) * ratio
    chances = new.exp()
    cost = learner.entropy * (chances * new.clamp(min=NO_LOGIT)).sum(1)
    if learner.method == "mmd":
        cost = cost + learner.kl * (chances * (new - old)).sum(1)
    return ((batch.counts * cost).sum() - gained.sum()) / batch.counts.sum()


def log_probs(network: Any, tensors: torch.Tensor, legal: torch.Tensor) -> torch.Tensor:
    """Return the log-probs of the actions [B, A] in states [B, D]."""
    return torch.log_softmax(torch.where(legal, network.actor(tensors), NO_LOGIT), dim=-1)


def step(learner: Learner, arrays: Arrays, network: Any, old: torch.Tensor, batch: Minibatch) -> torch.Tensor:
    """Return the loss of a minibatch; ``old`` [I, A]: the log-probs that played."""
    tensors = arrays.tensors[batch.states]
    new = log_probs(network, tensors, arrays.legal[batch.states])
    errors = (network.critic(tensors).squeeze(1) - batch.targets).square()
    value_loss = 0.5 * (batch.counts * errors).sum() / batch.counts.sum()
    loss: torch.Tensor = policy_loss(learner, new, old[batch.states], batch) + VALUE_WEIGHT * value_loss
    return loss


def new_network(arrays: Arrays, seed: int) -> Any:
    """Return OpenSpiel's actor and critic with weights drawn by a seed."""
    from open_spiel.python.pytorch.ppo import PPOAgent

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return PPOAgent(arrays.legal.shape[1], (arrays.tensors.shape[1],), "cpu")


def update(learner: Learner, arrays: Arrays, network: Any, optimizer: Any, endings: Integers) -> None:
    """Learn from matches with these endings, which the network has played."""
    with torch.no_grad():
        old = log_probs(network, arrays.tensors, arrays.legal)
        values = network.critic(arrays.tensors).squeeze(1).double().numpy()
    batches = [
        minibatch(arrays, part, values, learner.normalised) for part in np.array_split(endings, learner.minibatches)
    ]
    for _ in range(learner.epochs):
        for batch in batches:
            optimizer.zero_grad()
            step(learner, arrays, network, old, batch).backward()
            nn.utils.clip_grad_norm_(network.parameters(), MOST_NORM)
            optimizer.step()


def learn(arrays: Arrays, learner: Learner, budget: int, seed: int, marks: Sequence[float]) -> dict[str, Any]:
    """Return the course of self-play over ``budget`` decisions: exploitability once each of ``marks`` is passed."""
    begun, rng, network = time.process_time(), np.random.default_rng(seed), new_network(arrays, seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=learner.learning_rate, eps=1e-5)
    matches = max(learner.minibatches, round(budget / UPDATES / arrays.length(arrays.uniform())))
    done, decisions, exploitability = 0, list[int](), list[float]()
    waiting = sorted(mark for mark in marks if mark < budget)
    while True:
        with torch.no_grad():
            played = arrays.flat(log_probs(network, arrays.tensors, arrays.legal))
        if done >= budget or (waiting and done >= waiting[0]):
            waiting = [mark for mark in waiting if mark > done]
            decisions.append(done)
            exploitability.append(arrays.exploitability(played))
        if done >= budget:
            seconds = time.process_time() - begun
            return {"decisions": decisions, "exploitability": exploitability, "seconds": seconds}
        endings = arrays.drawn(played, matches, rng)
        now = learner.at(done / budget)
        optimizer.param_groups[0]["lr"] = now.learning_rate
        update(now, arrays, network, optimizer, endings)
        done += int(arrays.decisions[endings].sum())
