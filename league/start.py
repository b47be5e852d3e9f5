"""How a run begins: the base model of each policy, and what it learns before its first match."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from arena.lm import LanguageModel
from arena.records import MatchRequest
from arena.samplers.scripted import Random
from arena.scheduler import play
from games.registry import make_game
from games.seeds import derive_seed
from league.config import RunConfig
from learners.cold_start import Example, cold_start
from learners.pocket import PocketShape, build_pocket
from learners.policy import Policy
from roles.prompts import Message, messages, plain_text
from roles.role import Role

Roles = Mapping[str, tuple[Role, ...]]  # by game, then seat


class _Shown(NamedTuple):
    """A prompt and the reply that random legal play gave to it."""

    chat: list[Message]
    reply: str


def start_policies(config: RunConfig, roles: Roles) -> dict[str, Policy]:
    """Return the policies that the roles bind to, by name; a pocket model has had its cold start.

    Policies start from equal weights.
    """
    shown = _random_play(config, roles)
    names = dict.fromkeys(role.policy for seated in roles.values() for role in seated)
    policies = {}
    for name in names:
        lm = base_model(config, shown)
        if config.cold_start.steps and config.model.source == "pocket":
            _imitate(config, lm, shown)
        policies[name] = new_policy(config, name, lm)
    return policies


def new_policy(config: RunConfig, name: str, lm: LanguageModel) -> Policy:
    """Return a policy as the configuration wants it trained."""
    return Policy(name, lm, weight_decay=config.learner.weight_decay, magnet=config.objective.magnet > 0.0)


def base_model(config: RunConfig, shown: list[_Shown]) -> LanguageModel:
    """Return the configured base model: pocket, built from ``shown``, or a checkpoint."""
    model = config.model
    if model.source != "pocket":
        return LanguageModel.load(model.source, device=model.device, dtype=model.dtype)
    shape = PocketShape(
        model.hidden_size, model.layers, model.heads, model.kv_heads, model.intermediate_size, model.vocabulary
    )
    texts = [plain_text(one.chat) + one.reply for one in shown]
    lm = build_pocket(texts, shape, derive_seed(config.seed, "weights"))
    lm.model.to(model.device)
    return lm


def _random_play(config: RunConfig, roles: Roles) -> list[_Shown]:
    """Return every turn of random matches of all games."""
    requests: list[MatchRequest] = []
    for game, seated in roles.items():
        for number in range(config.cold_start.matches):
            deal, sample = (derive_seed(config.seed, "cold start", part, game, number) for part in ("deal", "sample"))
            seats = len(seated)
            requests.append(MatchRequest(len(requests), game, deal, sample, ("random",) * seats, (False,) * seats))
    engine = Random()
    episodes = play(
        requests,
        roles_of=roles.__getitem__,
        engine_of=lambda _: engine,
        make_game=make_game,
        in_flight=config.in_flight,
    )
    return [
        _Shown(messages(role, turn.observation, turn.legal), turn.reply)
        for episode in episodes
        for turn in episode.turns
        for role in [roles[episode.request.game][turn.seat]]
    ]


def _imitate(config: RunConfig, lm: LanguageModel, shown: list[_Shown]) -> None:
    """Teach the model what legal replies look like."""
    settings = config.cold_start
    cold_start(
        lm,
        [Example(lm.encode_prompt(one.chat), lm.encode_reply(one.reply)) for one in shown],
        steps=settings.steps,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        seed=derive_seed(config.seed, "imitation"),
    )
