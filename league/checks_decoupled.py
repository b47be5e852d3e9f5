"""What does not go together with learning in processes of its own."""

from __future__ import annotations

from collections import Counter

from games.errors import UsageError, unknown_name
from league.config import RunConfig


def check_decoupled(config: RunConfig, bound: set[str]) -> None:
    """Raise UsageError, with what to set instead, for learner processes that could not train ``bound`` policies."""
    settings = config.decoupled
    if settings.learners == "none":
        if settings.max_staleness:
            raise UsageError(
                f"decoupled.max_staleness = {settings.max_staleness} lets play run ahead of learners, but "
                "decoupled.learners = 'none': there are none. Set it to 'each', or max_staleness to 0."
            )
        return
    if config.exploiter_kinds:
        raise UsageError(
            f"Exploiters ({', '.join(sorted(config.exploiter_kinds))}) begin anew by what their matches come to, which "
            "a learner process cannot know. Leave them out, or set decoupled.learners = 'none'."
        )
    if config.matchmaking.response_from != "newest":
        raise UsageError(
            f"matchmaking.response_from = {config.matchmaking.response_from!r} takes policies back to older weights by "
            "what their matches come to, which a learner process cannot know. Set it to 'newest', or "
            "decoupled.learners to 'none'."
        )
    if settings.max_staleness and config.objective.truncate is None:
        raise UsageError(
            f"decoupled.max_staleness = {settings.max_staleness} trains on replies that older weights drew, so they "
            "need importance weights: set objective.truncate (2 is usual), and learner.max_gap to what the log-probs "
            "may move in that time (1 nat, say)."
        )
    if isinstance(settings.learners, dict):
        _check_names(settings.learners, {name for name in bound if not config.policy(name).frozen})


def _check_names(learners: dict[str, tuple[str, ...]], trained: set[str]) -> None:
    """Refuse learners that do not share the trained policies among them."""
    for learner, policies in learners.items():
        if not learner.isidentifier():
            raise UsageError(
                f"A learner process cannot be named {learner!r}: its folder has that name. Use letters, digits and '_'."
            )
        for name in policies:
            if name not in trained:
                hint = f"decoupled.learners.{learner} takes policies that roles bind to and that are trained."
                raise unknown_name("trained policy", name, trained, hint)
    times = Counter(name for policies in learners.values() for name in policies)
    wrong = sorted(name for name in trained if times[name] != 1)
    if wrong:
        raise UsageError(
            f"decoupled.learners names {wrong[0]} {times[wrong[0]]} times. Every trained policy learns in one process: "
            f"name each of {', '.join(sorted(trained))} once."
        )
    empty = sorted(learner for learner, policies in learners.items() if not policies)
    if empty:
        raise UsageError(f"decoupled.learners.{empty[0]} has no policy to train. Leave it out, or name one.")
