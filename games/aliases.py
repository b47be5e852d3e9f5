"""Short names for games with long ones: shown wherever a game is named, and accepted wherever one is expected."""

from __future__ import annotations

_NAMES = {  # the games' own, by alias
    "ipd": "repeated_game(stage_game=matrix_pd(),num_repetitions=8)",
    "small_sheriff": "sheriff(item_penalty=1.0,item_value=5.0,max_bribe=2,max_items=10,num_rounds=2"
    ",sheriff_penalty=1.0)",
    "small_hanabi": "hanabi(players=2,colors=1,ranks=3,hand_size=2,max_information_tokens=2,max_life_tokens=1)",
}
ALIASES = {name: alias for alias, name in _NAMES.items()}  # by the game's own name


def short_name(name: str) -> str:
    """Return the alias of a game, or its name if it has none."""
    return ALIASES.get(name, name)


def full_name(name: str) -> str:
    """Return the name of the game that a person calls by its name or its alias."""
    return _NAMES.get(name, name)


def short_metric(name: str) -> str:
    """Return a metric's name, such as GAME/return/ROLE, with the game's alias."""
    game = next((game for game in ALIASES if name.startswith(f"{game}/")), None)
    return name if game is None else ALIASES[game] + name.removeprefix(game)
