"""Hidden states of a frozen model when a seat is about to act, for a linear probe to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from arena.records import Episode
from league.lab.opponents.questions import Seen
from league.population.players.player import Player
from league.theory.exact.exploitability import information_positions
from league.theory.exact.states import Key
from roles.prompts import position_messages

Floats = NDArray[np.float64]
Tokens = tuple[int, ...]


@runtime_checkable
class HoldsModels(Protocol):
    """An engine whose language models are in this process (``arena.samplers.torch_lm.TorchLM``)."""

    def model_of(self, player: str) -> Any:
        """Return a player's ``LanguageModel``."""
        ...


def readable(player: Player) -> HoldsModels | None:
    """Return the engine of a player whose hidden states can be read; None for a script, a server or another process."""
    first, *others = {id(engine): engine for engine in player.engines().values()}.values()
    return first if isinstance(first, HoldsModels) and not others else None


def prompts_in(episode: Episode, seat: int) -> dict[Seen, Tokens]:
    """Return the tokens that a language model in a seat had read when it acted, by what it was shown."""
    return {
        (seat, turn.observation): turn.trace.prompt_ids
        for turn in episode.turns
        if turn.seat == seat and turn.trace and turn.action is not None and not turn.tool
    }


def prompts_everywhere(player: Player, engine: HoldsModels) -> dict[Key, Tokens]:
    """Return the tokens that a language model reads at every information state of a small game.

    Raises UsageError for a game that cannot be enumerated.
    """
    prompts = {}
    for (seat, state), position in information_positions(player.spec.name).items():
        lm = engine.model_of(player.members[seat][0][0])
        prompts[seat, state] = lm.encode_prompt(position_messages(player.roles[seat], position))
    return prompts


def hidden_states(
    player: Player, engine: HoldsModels, prompts: Mapping[tuple[int, str], Tokens]
) -> dict[tuple[int, str], Floats]:
    """Return the last hidden state [H] at the last token of each prompt, by its key, whose first part is the seat."""
    import torch

    from arena.samplers.torch_lm import MAX_BATCH_TOKENS

    states_by_key: dict[tuple[int, str], Floats] = {}
    for seat in range(player.spec.seats):
        keys = [key for key in prompts if key[0] == seat]
        if keys:
            lm = engine.model_of(player.members[seat][0][0])
            with torch.inference_mode():
                states = lm.prompt_states([prompts[key] for key in keys], MAX_BATCH_TOKENS).double().cpu().numpy()
            states_by_key.update(zip(keys, states, strict=True))
    return states_by_key
