"""When starts are drawn: what a rule may know beside them."""

from __future__ import annotations

from typing import NamedTuple

from league.config.matchmaking import StartsConfig


class Moment(NamedTuple):
    """An iteration of a run, and its configuration of starts."""

    iteration: int  # from 1
    iterations: int  # of the whole run
    config: StartsConfig
