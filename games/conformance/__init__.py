"""Does a game keep what ``games.spec.Game`` promises? Checked by playing it, for games of whatever origin.

    from games.conformance import check_game, faults
    assert faults(lambda: make_game("pettingzoo:my_envs.auction")) == []

Each of ``CHECKS`` is one promise, with a name and a sentence; what breaks it is a ``Fault``, which says after which
actions and what was seen. Matches are played at random, so a pass is no proof. ``league check GAME`` prints all of it.
May import all of games.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterable

from pettingzoo.test import api_test, seed_test

from games.common.errors import UsageError
from games.conformance.knowing import hidden, quotes, tree
from games.conformance.playing import bounds, eligible, ends, facts, labels, refusals, rewards, scripts, utility
from games.conformance.repeating import copies, seeds, steady, stored
from games.conformance.trial import CheckResult, Fault, Make, Promise, Trial, Unchecked, raised, random_action
from games.pettingzoo import env

__all__ = ["CHECKS", "FIRST", "CheckResult", "Fault", "Promise", "check_game", "faults", "raised", "random_action"]


def _pettingzoos_tests(trial: Trial) -> None:
    spec = trial.make().spec
    if spec.submatch_games:
        opened = ", ".join(spec.submatch_games)
        raise Unchecked(f"its matches open others ({opened}), whose players league.pettingzoo_env takes")
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")  # it would rather have plain arrays than a Dict
        api_test(env(spec.name), num_cycles=10)
        if not spec.free_text:
            seed_test(lambda: env(spec.name), num_cycles=10)


FIRST = ("facts", "ends")  # without which the others say nothing
CHECKS = (
    Promise("facts", "its spec is possible: seats, turns, actions, bounds, teams", facts),
    Promise("ends", "matches of legal actions raise nothing, and end within max_turns", ends),
    Promise("labels", "the labels of a turn can be told apart in a reply, and have ids of their own", labels),
    Promise("steady", "looking at a position changes nothing", steady),
    Promise("seeds", "the same seed and actions give the same match, whatever else draws random numbers", seeds),
    Promise("copies", "a copy has the position of its match, and playing one does not change the other", copies),
    Promise("stored", "a match survives pickle and deepcopy, as other processes need it to", stored),
    Promise("bounds", "returns lie between min_return and max_return", bounds),
    Promise("rewards", "rewards add up to returns, and named rewards are the ones that the spec names", rewards),
    Promise("utility", "the seats' returns fit the utility that the spec states", utility),
    Promise("refusals", "an action that is not legal raises ValueError and changes nothing", refusals),
    Promise(
        "hidden",
        "a seat reads what its information state says and nothing else; hidden information stays hidden",
        hidden,
    ),
    Promise("quotes", "what a seat says cannot pass for a line of the game", quotes),
    Promise("eligible", "a game that marks the moves that affected the outcome marks every move", eligible),
    Promise("scripts", "its scripted players play legal actions", scripts),
    Promise("tree", "its chance sums to 1, and a seat never forgets: exact values can be computed", tree),
    Promise("pettingzoo", "it passes PettingZoo's own tests as an environment", _pettingzoos_tests),
)


def check_game(
    make: Make, seeds: Iterable[int] = range(3), *, outward: bool = True, each: Callable[[str], None] = lambda _: None
) -> list[CheckResult]:
    """Return the result of every check, in the order of ``CHECKS``; ``each`` is called with a name before its check.

    ``outward``: PettingZoo's tests too, which need the game by its name. What the game itself raises is a fault.
    Where a game does not play at all, what follows is not checked.
    """
    trial, results = Trial(make, [*seeds]), list[CheckResult]()
    for check in CHECKS if outward else CHECKS[:-1]:
        if any(result.state == "fail" and result.name in FIRST for result in results):
            results.append(
                CheckResult(check.name, check.promise, "skip", "not checked: the game must be playable first")
            )
            continue
        each(check.name)
        trial.forget()
        results.append(_result_of(check, trial))
    return results


def faults(make: Make, seeds: Iterable[int] = range(3), *, outward: bool = True) -> list[str]:
    """Return what is wrong with a game, a sentence for each check that fails; [] for one that passes."""
    return [result.sentence for result in check_game(make, seeds, outward=outward) if result.state == "fail"]


def _result_of(check: Promise, trial: Trial) -> CheckResult:
    try:
        remark = check.run(trial)
    except Unchecked as reason:
        return CheckResult(check.name, check.promise, "skip", str(reason))
    except (Fault, UsageError) as error:
        return CheckResult(check.name, check.promise, "fail", str(error))
    except Exception as error:  # noqa: BLE001  # of code from outside, whatever it is
        return CheckResult(check.name, check.promise, "fail", f"{trial.where}{raised(error)}")
    return CheckResult(check.name, check.promise, "pass", remark or "")
