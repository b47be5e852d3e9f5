"""Returns after a forfeit, and the message to a seat that may retry. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from games.secured_returns import least_returns, secured_returns
from games.spec import FreeText, Game, Utility
from roles.prompts import ask_text, legal_list
from roles.replies import free_text_reason, illegal_reason
from roles.role import DEFAULT_RETRY, Conduct, Role


def settle_forfeit(game: Game, offender: int, conduct: Conduct) -> tuple[float, ...]:  # [seats], in the game's units
    """Return the returns of a match that ``offender`` forfeits in this position.

    The offender's return is the game's ``min_return``, or ``-price``. The other seats:

    - identical: get the same as the offender, as in every match of such a game;
    - zero sum: share what the offender lost, so that the match stays zero-sum. Where they are several, each first gets
      the least that it could have ended with from here (``games.secured_returns``), and they share the rest;
    - constant sum with two seats and no price: gets ``max_return``, as the bounds of such a game add up to its
      constant;
    - otherwise: keep their returns so far, and get at least that least. They did nothing wrong, and the game defines no
      sum to preserve.

    So without a price no legal course pays the offender less, and no other seat gets less than every legal course pays
    it. A price below ``-min_return`` is a choice: it may cost less than playing on does, and in a zero-sum game the
    others share no more than it.
    """
    spec = game.spec
    if not 0 <= offender < spec.seats:
        raise ValueError(f"{spec.name} has {spec.seats} seats; got seat {offender} as the offender.")
    loss = spec.min_return if conduct.price is None else -conduct.price
    if spec.utility is Utility.IDENTICAL:
        return (loss,) * spec.seats
    if spec.utility is Utility.ZERO_SUM and spec.seats > 1:
        sure = least_returns(game) if spec.seats > 2 else (0.0, 0.0)
        rest = -loss - sum(paid for seat, paid in enumerate(sure) if seat != offender)
        settled = [paid + rest / (spec.seats - 1) for paid in sure]
    elif spec.utility is Utility.CONSTANT_SUM and spec.seats == 2 and conduct.price is None:
        settled = [spec.max_return] * 2
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
