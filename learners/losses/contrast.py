"""``contrast``: InfoNCE (van den Oord et al., arXiv 1807.03748) on hidden states: turns with one partner are pairs.

Compared are the policy's last hidden states at prompts' last tokens, by cosine, within a role; negatives have another
partner. As in CLAM (Ma et al., arXiv 2401.00132) only the seat's own observations are read.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from arena.lm.chunks import Tokens
from games.common.errors import UsageError
from games.common.limits import LARGEST_COUNT, LEAST_TEMPERATURE
from learners.batching import FreeRow
from learners.losses.term import LossContext, LossTerm, OwnChunk, Row, Term, UpdateFacts, WeightedTerm
from learners.trajectories import Trajectory

if TYPE_CHECKING:
    from torch import Tensor

    from learners.metric_sums import MetricSums

SUMS = ("contrast", "contrast_chance", "contrasted_turns")


class ContrastConfig(WeightedTerm):
    """A contrastive loss on the policy's hidden states: the same partner or another."""

    temperature: float = Field(0.1, ge=LEAST_TEMPERATURE, description="divides the cosines")
    turns: int = Field(64, ge=2, le=LARGEST_COUNT, description="turns of each role drawn for an update, read together")


class Contrast(NamedTuple):
    """Turns of one role that are contrasted with each other. Equal prompts are computed once."""

    game: str
    role: str
    weight: float  # of each turn's loss
    prompts: tuple[Tokens, ...]  # that differ  # [P]
    prompt_of: tuple[int, ...]  # the index of each turn's prompt  # [M]
    partners: tuple[int, ...]  # a number for each turn's partner  # [M]


class ContrastRows(NamedTuple):
    """The rows of ``contrast``: at most one contrast of each role."""

    temperature: float
    contrasts: tuple[Contrast, ...]


def contrast_losses(states: Tensor, partners: Sequence[int], temperature: float) -> tuple[Tensor, Tensor]:
    """Return the loss of each turn that has a positive pair and a negative one, and what it is by chance, in nats.

    Turn i has the loss

        L_i = (1 / |P_i|) sum_{p in P_i} -log(e^(s_ip / t) / (e^(s_ip / t) + sum_{n in N_i} e^(s_in / t)))

    with s the cosine of two states [M, H], t the temperature, P_i the other turns with i's partner, of its own match or
    another, and N_i those with other partners. Of M turns, A have some of each, in their order. If all states are alike
    L_i is ln(1 + |N_i|); without negatives it would be 0. CLAM's pairs are two views of one match.  # [A] each
    """
    import torch
    from torch.nn.functional import normalize, softplus

    partner = torch.tensor(partners, device=states.device)
    same = partner[:, None] == partner[None]  # [M, M]
    positive = same & ~torch.eye(len(partners), dtype=torch.bool, device=states.device)
    anchors = (positive.any(1) & ~same.all(1)).nonzero()[:, 0]  # [A]
    same, positive = same[anchors], positive[anchors].to(states.dtype)  # [A, M]
    units = normalize(states, dim=1)
    similarity = units[anchors] @ units.T / temperature  # [A, M]
    negatives = similarity.masked_fill(same, -torch.inf).logsumexp(1)  # [A]
    pairs = softplus(negatives[:, None] - similarity)  # minus the log-probability of a pair among its negatives
    return (pairs * positive).sum(1) / positive.sum(1), (~same).sum(1).to(states.dtype).log1p()


def contrast_rows(facts: UpdateFacts, settings: ContrastConfig) -> ContrastRows | None:
    """Return the turns that an update contrasts; None at weight 0, and where no turn has both kinds of pairs.

    Trajectories of weight 0 are left out, and roles of factor 0.
    """
    turns = _turns_by_role(facts, settings) if settings.weight else {}
    drawn = {key: _draw(by_role, settings.turns, facts.seed_of(f"contrast {key}")) for key, by_role in turns.items()}
    total = sum(_anchors([partner for _, partner in own]) for own in drawn.values())
    contrasts = []
    for (game, role), own in drawn.items():
        numbers = {partner: number for number, partner in enumerate(dict.fromkeys(partner for _, partner in own))}
        prompts = {prompt: index for index, prompt in enumerate(dict.fromkeys(prompt for prompt, _ in own))}
        if _anchors([partner for _, partner in own]):
            contrasts.append(
                Contrast(
                    game,
                    role,
                    settings.weight * settings.factor(game, role) / total,
                    tuple(prompts),
                    tuple([prompts[prompt] for prompt, _ in own]),
                    tuple([numbers[partner] for _, partner in own]),
                )
            )
    return ContrastRows(settings.temperature, tuple(contrasts)) if contrasts else None


_Turn = tuple[Tokens, tuple[str, ...]]  # a turn's prompt and its seat's partner


def _turns_by_role(facts: UpdateFacts, settings: ContrastConfig) -> dict[tuple[str, str], list[_Turn]]:
    """Return the turns of an update by game and role."""
    turns: dict[tuple[str, str], list[_Turn]] = {}
    for trajectory, weight in zip(facts.trajectories, facts.weights, strict=True):
        if weight and settings.factor(trajectory.game, trajectory.role):
            partner, own = partner_of(trajectory), turns.setdefault((trajectory.game, trajectory.role), [])
            own += [(turn.trace.prompt_ids, partner) for turn in trajectory.turns if turn.trace is not None]
    return turns


def partner_of(trajectory: Trajectory) -> tuple[str, ...]:
    """Return the players of a match's other seats, by name: who is met, wherever it sits."""
    return tuple(sorted(player for seat, player in enumerate(trajectory.players) if seat != trajectory.seat))


def _draw(turns: Sequence[_Turn], number: int, seed: int) -> list[_Turn]:
    """Return at most ``number`` of the turns, each at most once. The same seed draws the same turns."""
    return list(turns) if len(turns) <= number else random.Random(seed).sample(turns, number)


def _anchors(partners: Sequence[tuple[str, ...]]) -> int:
    """Return how many turns have another with the same partner and one with another partner."""
    counts = Counter(partners)
    return sum(count for count in counts.values() if count > 1) if len(counts) > 1 else 0


class ContrastTerm(Term):
    """The contrasts of one batch. A contrast is never divided: not over minibatches, nor over processes."""

    def own_rows(self) -> Sequence[Sequence[Row]]:
        """Return a row for each contrast, of the size of all its prompts; ``cut`` knows it by its role."""
        rows = []
        for each in self.context.rows.contrasts:
            tokens = tuple(chain.from_iterable(each.prompts))
            rows.append(FreeRow(each.game, each.game, tokens, (), 1.0, 1.0, each.weight, 0.0, 0.0, role=each.role))
        return (rows,)

    def cut(self, rows: Sequence[Row], temperature: float) -> Iterable[OwnChunk]:
        """See ``Term``. Raises UsageError where the weights, and so the hidden states, are elsewhere."""
        if self.context.models.waist is not None:
            raise UsageError(
                "contrast.weight reads hidden states, but a remote trainer returns only the log-probs of the sampled "
                "tokens. Set contrast.weight = 0, or trainer.kind = 'torch'."
            )
        contrasts = {(each.game, each.role): each for each in self.context.rows.contrasts}
        return [ContrastChunk(self.context, contrasts[row.game, row.role]) for row in rows]


class ContrastChunk(OwnChunk):
    """The pass of one contrast."""

    def __init__(self, context: LossContext, contrast: Contrast) -> None:
        self._context, self._contrast = context, contrast

    def loss(self, sums: MetricSums) -> Tensor:
        """See ``OwnChunk``."""
        from arena.lm.scoring import checkpointed

        (models, *_), contrast = self._context, self._contrast
        with checkpointed(models.lm.model):
            states = models.lm.prompt_states(contrast.prompts, self._context.max_tokens)  # [P, H]
        losses, chance = contrast_losses(
            states[list(contrast.prompt_of)].float(), contrast.partners, self._context.rows.temperature
        )
        for name, values in zip(SUMS, (losses, chance, chance.new_ones(len(chance))), strict=True):
            sums.add(name, values)
        scaled: Tensor = contrast.weight * losses.sum()
        return scaled


def _metrics(sums: MetricSums) -> Mapping[str, float]:
    """Return the mean loss of a turn before the update, and what it would be by chance, in nats."""
    loss, chance, turns = SUMS
    if turns not in sums.totals:
        return {}
    return {"contrast/loss": sums.mean(loss, turns), "contrast/chance": sums.mean(chance, turns)}


CONTRAST = LossTerm(
    ContrastTerm,
    ContrastConfig,
    description="InfoNCE on the last hidden states: turns with the same partner or with another",
    rows=contrast_rows,
    metrics=_metrics,
)
