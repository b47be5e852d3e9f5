"""An update's forward and backward passes, this process's share of them."""

from __future__ import annotations

import torch

from arena.lm import LanguageModel
from learners.batch_loss import BatchLoss
from learners.objective import Sums
from learners.policy import Policy
from learners.team import Team


class Passes:
    """The passes over one batch. Each method gives what all processes of the team found together."""

    def __init__(self, policy: Policy, team: Team, losses: BatchLoss) -> None:
        self._policy, self._team, self._losses = policy, team, losses

    @torch.no_grad()
    def fix_old(self) -> Sums:
        """Fix what the batch began with; return the sums over the whole of it."""
        sums, idle = Sums(), self._idle(self._losses.chunks())
        self._losses.fix_old(sums)
        for _ in range(idle):
            for lm in (*self._losses.held, self._policy.lm):
                _read_nothing(lm)
        return self._team.sum(sums)

    def backward(self, step: int, *, first: bool) -> Sums:
        """Leave an inner step's gradient in the parameters; return the sums over its rows.

        ``first``: nothing is fixed yet, so these passes fix what their rows began with.
        """
        self._policy.optimizer.zero_grad(set_to_none=True)
        sums, idle = Sums(), self._idle(self._losses.chunks(step))
        for loss in self._losses.losses(step, sums):
            loss.backward()
            sums.add("loss", loss)
        for _ in range(idle):
            with torch.no_grad():
                for lm in self._losses.held if first else ():
                    _read_nothing(lm)
            (0.0 * _read_nothing(self._policy.lm)).backward()
        if not self._policy.sharded or self._policy.lm.adapters is not None:  # shards are summed as they come
            self._team.sum_gradients(list(self._policy.parameters.values()))
        return self._team.sum(sums)

    def _idle(self, chunks: int) -> int:
        """Return how many passes more than this process another makes: this one passes over nothing then.

        Asked before the first pass: putting shards together is a message too, and all send theirs in one order.
        """
        return self._team.most(chunks) - chunks if self._policy.sharded else 0


def _read_nothing(lm: LanguageModel) -> torch.Tensor:
    """Run a pass over a token, and return a number that all weights have a part in."""
    token = torch.zeros(1, 1, dtype=torch.long, device=lm.device)
    number: torch.Tensor = lm.forward(input_ids=token, use_cache=False).logits.float().sum()
    return number
