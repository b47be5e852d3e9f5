"""The log-probs that a teacher, a language model, gives to the tokens of a student's free replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from games.common.errors import UsageError
from roles.prompts import messages
from roles.replies import speaking

if TYPE_CHECKING:
    from arena.lm.language_model import LanguageModel
    from arena.records import Reply, ReplyRequest, Turn
    from games.spec import Game
    from league.population.players.player import Player
    from learners.update.policy import Policy
    from roles.role import Role

MAX_TOKENS = 8192  # padded tokens in one forward pass


class Asked(NamedTuple):
    """A turn that a teacher is asked about, or, with neither ``legal`` nor ``tokens``, is not."""

    position: Game  # where the seat was to act; a new match for a teacher that is a model
    observation: str
    legal: tuple[str, ...]  # of a choice
    tokens: tuple[int, ...]  # of a free reply
    taken: int  # of a choice, the index of the student's reply
    turn: Turn
    key: object  # equal for choices to which a teacher says the same


@runtime_checkable
class HasModels(Protocol):
    """An engine whose players are language models in this process."""

    def model_of(self, player: str) -> LanguageModel:
        """Return a player's model."""
        ...


class InTraining:
    """The policies in training as an engine: what they would reply with their present weights, without gradient."""

    def __init__(self, policies: Mapping[str, Policy]) -> None:
        self._policies = policies

    def model_of(self, player: str) -> LanguageModel:
        """Return a policy's model."""
        return self._policies[player].lm

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Refuse: in matches policies play by the run's own engine."""
        raise NotImplementedError("policies in training are asked for distributions only")

    def distributions(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...]]:
        """Return the probabilities of each request's legal replies."""
        from league.training.evidence.counterfactuals import PromptKey, reply_probabilities

        found: list[tuple[float, ...]] = []
        for player in dict.fromkeys(request.player for request in requests):
            lm, own = self.model_of(player), [request for request in requests if request.player == player]
            keys = [
                PromptKey(lm.encode_prompt(messages(r.role, r.observation, r.legal)), r.legal, r.role.temperature)
                for r in own
            ]
            known = reply_probabilities(lm, keys)
            found += [known[key] for key in keys]
        return found


def check_tokens(teacher: Player, role: Role, policies: Mapping[str, Policy]) -> None:
    """Raise UsageError for a teacher with another tokenizer than one of the students, whose free replies it scores."""
    for name, _ in teacher.members[role.seat]:
        engine = teacher.engine_of(name)
        assert isinstance(engine, HasModels), "check_teacher refuses others"
        known = engine.model_of(name).tokenizer.get_vocab()
        for student, policy in policies.items():
            if known != policy.lm.tokenizer.get_vocab():
                raise UsageError(
                    f"{name} cannot teach {role.game}/{role.name}, where {student} answers in free text: it has "
                    "another tokenizer, so its tokens are others. Name a teacher of the same base, or set roles.reply "
                    "= 'choice'."
                )


def free_logprobs(lm: LanguageModel, role: Role, asked: Sequence[Asked]) -> list[tuple[float, ...]]:
    """Return the log-probs (nats) of each reply's tokens [T] after the teacher's own prompt, at its temperature."""
    if not asked:
        return []
    import torch  # slow to import

    from arena.lm.logprobs import ScoreOptions
    from arena.lm.scoring import plan_passes

    prompts = [_prompt(lm, role, turn) for turn in asked]
    found: list[tuple[float, ...]] = [()] * len(asked)
    with torch.inference_mode():
        for each in plan_passes(lm, prompts, [turn.tokens for turn in asked], MAX_TOKENS):
            scores = each.scores(lm, ScoreOptions(role.temperature, entropy_gradient=False)).logprobs.tolist()
            for item, row in zip(each.items, scores, strict=True):
                found[item] = tuple(row[: len(asked[item].tokens)])
    return found


def _prompt(lm: LanguageModel, role: Role, asked: Asked) -> tuple[int, ...]:
    """Return the tokens of the request as the teacher's card words it."""
    turn = asked.turn
    card = speaking(role) if turn.form else role
    return lm.encode_prompt(messages(card, asked.observation, turn.legal, (), turn.form))
