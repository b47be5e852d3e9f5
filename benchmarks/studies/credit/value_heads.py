"""What a run's value heads say of the turns of batches, after learning from other matches of the same policy."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from arena.lm.language_model import LanguageModel
from arena.lm.pocket import PocketShape, build_pocket
from games.common.seeds import derive_seed
from league.config.credit import CriticConfig
from league.lab.credit.matches import PlayedBatch
from league.training.evidence.sighted import Known, critic_prompts
from learners.trajectories import Evidence
from learners.update.critic import Critic
from roles.chat_text import plain_text
from roles.prompts import messages
from roles.role import Role

SETTINGS = CriticConfig(steps=1000)
WIDTH = 64  # of the model whose hidden states the heads read


def learned_values(
    game: str,
    roles: tuple[Role, ...],
    to_learn: Sequence[PlayedBatch],
    batches: Sequence[PlayedBatch],
    sees: Sequence[str],
    seed: int,
) -> list[list[Evidence]]:
    """Return the values of the turns of ``batches`` by heads that are fitted to what came after those of ``to_learn``.

    ``sees`` is what they read beside a turn's prompt, as ``critic.sees`` names it.
    """
    lm = _pocket(roles, to_learn, seed)
    names = [f"{game}/{role.name}" for role in roles]
    critic = Critic(lm.model.config.hidden_size, names, SETTINGS, derive_seed(seed, "heads"))
    known: Known = {}

    def read(batch: PlayedBatch) -> list[Evidence]:
        episodes = {episode.request.index: episode for episode in batch.episodes}
        return [
            Evidence(critic_prompts=critic_prompts(lm, roles[one.seat], episodes[one.match], one, sees, known))
            for one in batch.trajectories
        ]

    learned = [one for batch in to_learn for one in batch.trajectories]
    targets = [[fsum(one.rewards[k:]) for k in range(len(one.turns))] for one in learned]
    critic.fit(lm, learned, targets, [evidence for batch in to_learn for evidence in read(batch)])
    values = [critic.values(lm, batch.trajectories, read(batch)) for batch in batches]
    return [[Evidence(values=values_K) for values_K in values_NK] for values_NK in values]


def _pocket(roles: tuple[Role, ...], batches: Sequence[PlayedBatch], seed: int) -> LanguageModel:
    """Return an untrained pocket model whose tokenizer fits the prompts of the turns of batches."""
    turns = {(t.seat, turn.observation, turn.legal) for b in batches for t in b.trajectories for turn in t.turns}
    texts = [plain_text(messages(roles[seat], observation, legal)) for seat, observation, legal in turns]
    return build_pocket(texts, PocketShape(hidden_size=WIDTH, intermediate_size=2 * WIDTH), derive_seed(seed, "model"))
