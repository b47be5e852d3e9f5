"""A teacher's log-probs of the tokens of a student's free replies; the teacher is a language model."""

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
    """A turn that a teacher is asked about; with neither ``legal`` nor ``tokens``, it is not asked."""

    position: Game  # where the seat was to act; a new match for a teacher that is a model
    observation: str
    legal: tuple[str, ...]  # of a choice
    tokens: tuple[int, ...]  # of a free reply
    taken: int  # of a choice, the index of the student's reply
    turn: Turn
    key: object  # equal for choices that a teacher scores equally


@runtime_checkable
class HasModels(Protocol):
    """An engine whose players are language models in this process."""

    def model_of(self, player: str) -> LanguageModel:
        """Return a player's model."""
        ...


class InTraining:
    """The policies in training as an engine: their reply probabilities under the current weights, without gradient."""

    def __init__(self, policies: Mapping[str, Policy]) -> None:
        self._policies = policies

    def model_of(self, player: str) -> LanguageModel:
        """Return a policy's model."""
        return self._policies[player].lm

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Refuse: in matches, policies play through the run's own engine."""
        raise NotImplementedError("policies in training are asked only for distributions")

    def distributions(self, requests: Sequence[ReplyRequest]) -> list[tuple[float, ...]]:
        """Return the probabilities of each request's legal replies."""
        from league.training.evidence.counterfactuals import PromptKey, reply_probabilities

        probabilities: list[tuple[float, ...]] = []
        for player in dict.fromkeys(request.player for request in requests):
            lm, player_requests = self.model_of(player), [request for request in requests if request.player == player]
            keys = [
                PromptKey(lm.encode_prompt(messages(r.role, r.observation, r.legal)), r.legal, r.role.temperature)
                for r in player_requests
            ]
            by_key = reply_probabilities(lm, keys)
            probabilities += [by_key[key] for key in keys]
        return probabilities


def check_tokens(teacher: Player, role: Role, policies: Mapping[str, Policy]) -> None:
    """Raise UsageError for a teacher with another tokenizer than one of the students, whose free replies it scores."""
    for name, _ in teacher.members[role.seat]:
        engine = teacher.engine_of(name)
        assert isinstance(engine, HasModels), "check_teacher refuses others"
        vocabulary = engine.model_of(name).tokenizer.get_vocab()
        for student, policy in policies.items():
            if vocabulary != policy.lm.tokenizer.get_vocab():
                raise UsageError(
                    f"{name} cannot teach {role.game}/{role.name}, where {student} answers in free text: it has "
                    "another tokenizer, so its tokens differ. Name a teacher with the same base, or set roles.reply "
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
    logprobs_N: list[tuple[float, ...]] = [()] * len(asked)
    with torch.inference_mode():
        for replies_pass in plan_passes(lm, prompts, [turn.tokens for turn in asked], MAX_TOKENS):
            scores = replies_pass.scores(lm, ScoreOptions(role.temperature, entropy_gradient=False)).logprobs.tolist()
            for item, row in zip(replies_pass.items, scores, strict=True):
                logprobs_N[item] = tuple(row[: len(asked[item].tokens)])
    return logprobs_N


def _prompt(lm: LanguageModel, role: Role, asked: Asked) -> tuple[int, ...]:
    """Return the tokens of the request as the teacher's card words it."""
    turn = asked.turn
    card = speaking(role) if turn.form else role
    return lm.encode_prompt(messages(card, asked.observation, turn.legal, (), turn.form))
