"""Returns after a forfeit, and the message to a seat that may retry. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from games.secured_returns import secured_returns
from games.spec import FreeText, Game, Utility
from roles.prompts import ask_text, legal_list
from roles.replies import free_text_reason, illegal_reason
from roles.role import DEFAULT_RETRY, Conduct, Role


def settle_forfeit(game: Game, offender: int, conduct: Conduct) -> tuple[float, ...]:  # [seats], in the game's units
    """Return the returns of a match that ``offender`` forfeits in this position.

    The offender's return is ``-price``, or the game's ``min_return`` without a price: no legal course pays it less. The
    other seats:

    - zero sum: share what the offender lost, so that the match stays zero-sum;
    - identical: get the same as the offender, as in every match of such a game;
    - constant sum with two seats: gets ``max_return`` without a price, as the bounds of such a game
      add up to its constant; with a price it keeps its return so far;
    - otherwise: keep their returns so far, and get at least the least that they could have ended with from here
      (``games.secured_returns``). They did nothing wrong, and the game defines no sum to preserve.
    """
    spec = game.spec
    if not 0 <= offender < spec.seats:
        raise ValueError(f"{spec.name} has {spec.seats} seats; got seat {offender} as the offender.")
    loss = spec.min_return if conduct.price is None else -conduct.price
    if spec.utility is Utility.IDENTICAL:
        return (loss,) * spec.seats
    if spec.utility is Utility.ZERO_SUM and spec.seats > 1:
        settled = [-loss / (spec.seats - 1)] * spec.seats
    elif spec.utility is Utility.CONSTANT_SUM and spec.seats == 2:
        settled = [float(paid) for paid in game.returns()] if conduct.price is not None else [spec.max_return] * 2
    else:
        settled = [float(paid) for paid in secured_returns(game)]
    settled[offender] = loss
    return tuple(settled)


def retry_message(role: Role, observation: str, reply: str, legal: Sequence[str], asked: FreeText | None = None) -> str:
    """Return the message to a seat after its illegal reply: the role's retry template, filled in.

    A request that ends with the form of its replies is followed by the same end.
    """
    if role.ask and role.retry == DEFAULT_RETRY and asked is None:
        return f"{illegal_reason(role, reply)}\n{ask_text(role, legal)}"
    return role.retry.format(
        reason=illegal_reason(role, reply) if asked is None else free_text_reason(asked, reply),
        reply=reply,
        observation=observation,
        legal=legal_list(legal) if asked is None else asked.form,
    )
