"""The cost of asking a player behind a server: requests, tokens, and money if its settings have prices."""

from __future__ import annotations

import random
from typing import NamedTuple

from arena.contexts import request_in
from arena.remote.chat_completions import estimate_tokens, to_body
from arena.remote.settings import RemoteSettings
from arena.remote.usage import Metered, Usage, with_cost
from games.registry import make_game
from games.spec import Game, labels
from league.population.players.player import Player
from league.population.players.tabulating import REPLIES_PER_STATE
from league.theory.exact.exploitability import information_positions
from roles.role import OnIllegal

ENDPOINT_REPLIES = 64  # at each state of a player whose requests may have a price
SAMPLE_MATCHES = 64  # of random play, by which the turns of a match are counted


class AskingCost(NamedTuple):
    """The most that asking a player takes: answers already kept are not asked for again."""

    player: str
    requests: int
    input_tokens: int  # estimated from the prompts' bytes
    output_tokens: int  # if every reply were as long as it may be
    money: float | None  # in the currency of the prices; None: there are none

    def sentence(self, what: str) -> str:
        """Return the cost as a sentence; ``what`` is asked for."""
        text = f"{what} takes at most {self.requests:,} requests of {self.player}, about {self.input_tokens:,} tokens "
        text += f"read and at most {self.output_tokens:,} written"
        text += "" if self.money is None else f", for at most {self.money:,.2f}"
        return (
            f"{text}. Answers already kept are not asked for again, and with log-probs a few requests a state are "
            "enough."
        )

    def plus(self, other: AskingCost) -> AskingCost:
        """Return both costs of one player together."""
        money = None if self.money is None or other.money is None else self.money + other.money
        return AskingCost(
            self.player,
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            money,
        )


def endpoint_settings(player: Player) -> RemoteSettings | None:
    """Return the settings of a player behind a server; None for any other."""
    return player.engine.settings if isinstance(player.engine, Metered) else None  # type: ignore[attr-defined]


def replies_for(player: Player, wanted: int | None = None) -> int:
    """Return how many replies are sampled at a state: ``wanted``, or as many as suit the player."""
    if wanted is not None:
        return wanted
    return REPLIES_PER_STATE if endpoint_settings(player) is None else ENDPOINT_REPLIES


def table_cost(player: Player, replies: int | None = None) -> AskingCost | None:
    """Return what a player's table takes; None for one that is not behind a server.

    With log-probs it takes a few requests a state, and the rest is not asked for. Raises NotEnumerable.
    """
    settings = endpoint_settings(player)
    if settings is None:
        return None
    number = replies_for(player, replies)
    positions = information_positions(player.spec.name)
    tokens = sum(_prompt_tokens(settings, player, seat, game) for (seat, _), game in positions.items())
    return _cost(player, settings, number * len(positions), number * tokens)


def match_cost(player: Player, seatings: float) -> AskingCost | None:
    """Return what matches take, in which a player has ``seatings`` seats altogether; None as ``table_cost``."""
    settings = endpoint_settings(player)
    if settings is None:
        return None
    turns, tokens = 0, 0
    rng = random.Random(player.spec.name)
    for _ in range(SAMPLE_MATCHES):
        game = make_game(player.spec.name)
        game.reset(rng.getrandbits(32))
        while (seat := game.to_act()) is not None:
            conduct = player.roles[seat].conduct
            tries = 1 + conduct.retries * (conduct.on_illegal is OnIllegal.RETRY)
            turns, tokens = turns + tries, tokens + tries * _prompt_tokens(settings, player, seat, game)
            game.apply(rng.choice(labels(game)))
    share = seatings / (SAMPLE_MATCHES * player.spec.seats)
    return _cost(player, settings, round(turns * share), round(tokens * share))


def _prompt_tokens(settings: RemoteSettings, player: Player, seat: int, game: Game) -> int:
    request = request_in(player.label, player.roles[seat], game, random.Random(0))
    return estimate_tokens(to_body(settings, request, 0) | {"max_completion_tokens": 0})


def _cost(player: Player, settings: RemoteSettings, requests: int, tokens: int) -> AskingCost:
    written = requests * settings.max_reply_tokens
    usage = with_cost(Usage(input_tokens=tokens, output_tokens=written), settings.input_price, settings.output_price)
    return AskingCost(player.label, requests, tokens, written, usage.cost)
