"""What a match offers, does and pays, beside what its game's spec says."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from games.abilities import MarksEligible, PaysNamedRewards
from games.conformance.trial import MOST_TURNS, TOLERANCE, Fault, Trial, Unchecked, difference, position_of
from games.spec import GAME_METHODS, Choices, Game, HasScripts, OpensSubmatches, Utility, choice_game

LISTS = ("legal_actions", "legal_ids")
NONSENSE = "\x00 no action of any game \x00"


def facts(trial: Trial) -> None:
    """Check the spec alone."""
    game = trial.make()
    spec = game.spec
    missing = [name for name in GAME_METHODS if not callable(getattr(game, name, None))]
    trial.expect(not missing, f"it lacks the methods {', '.join(missing)} of games.spec.Game")
    missing = [name for name in LISTS if not spec.free_text and not callable(getattr(game, name, None))]
    lists = "of games.spec.ChoiceGame, which a game without free text has"
    trial.expect(not missing, f"it lacks the methods {', '.join(missing)} {lists}")
    trial.expect(spec.seats >= 1, f"seats = {spec.seats}; a game has at least one")
    trial.expect(spec.max_turns >= 1, f"max_turns = {spec.max_turns}; a match has at least one")
    finite = math.isfinite(spec.min_return) and math.isfinite(spec.max_return)
    bounds = f"min_return = {spec.min_return:g} and max_return = {spec.max_return:g}"
    trial.expect(finite and spec.min_return < spec.max_return, f"{bounds}: returns need a range, smaller number first")
    trial.expect(spec.free_text or spec.num_actions >= 1, f"num_actions = {spec.num_actions}, and it has no free text")
    zero = spec.utility is not Utility.ZERO_SUM or spec.min_return <= 0.0 <= spec.max_return
    trial.expect(zero, f"{bounds}, and it is zero-sum: 0 lies outside")
    in_teams = [seat for team in spec.teams for seat in team]
    teams = not in_teams or sorted(in_teams) == list(range(spec.seats))
    trial.expect(teams, f"teams = {spec.teams}; each of the {spec.seats} seats should be in one of them")
    trial.expect(
        not spec.reward_names or isinstance(game, PaysNamedRewards),
        f"its spec names the rewards {spec.reward_names}, and it has no named_rewards()",
    )
    opens = not spec.submatch_games or isinstance(game, OpensSubmatches)
    trial.expect(opens, f"its spec names games of submatches {spec.submatch_games}, and it cannot open any")


def ends(trial: Trial) -> str:
    """Play matches to their ends."""
    most, game = 0, trial.make()
    for seed in trial.seeds:
        for match in trial.positions(game, seed):
            seat, turns, spec = match.to_act(), len(trial.played), match.spec
            trial.expect(seat is None or seat in range(spec.seats), f"seat {seat} is to act, of {spec.seats}")
            trial.expect(turns <= spec.max_turns, f"a match takes more than max_turns = {spec.max_turns} turns")
            endless = (
                f"a match is not over after {turns} turns, and max_turns = {spec.max_turns} promises no earlier end"
            )
            trial.expect(turns <= MOST_TURNS, endless)
            most = max(most, turns)
        left = game.actions()
        over = isinstance(left, Choices) and not left.labels
        trial.expect(over, "the match is over, but actions() still offers something")
    return f"the longest had {most} turns"


def labels(trial: Trial) -> str:
    """Check what each turn offers, as it is read out of a reply."""
    game, remark = trial.make(), ""
    for seed in trial.few:
        for match in trial.positions(game, seed):
            actions = match.actions()
            if not isinstance(actions, Choices):
                trial.expect(match.spec.free_text, "it asks for free text, and its spec does not say so")
                continue
            if match.to_act() is None:
                continue
            trial.expect(bool(actions.labels), "a seat is to act and has no legal action")
            folded = {" ".join(label.split()).casefold() for label in actions.labels}
            for label in actions.labels:
                readable = bool(label.strip()) and label == label.strip()
                trial.expect(readable, f"the label {label!r} is empty, or has space around it, which replies lose")
            distinct = len(set(actions.labels)) == len(actions.labels)
            trial.expect(distinct, f"labels are not distinct: {_listed(actions.labels)}")
            if len(folded) < len(actions.labels):
                remark = f"some differ only in case or spaces, which free replies must copy: {_listed(actions.labels)}"
            if not match.spec.free_text:
                own = choice_game(match).legal_actions(), choice_game(match).legal_ids()
                same = own == (actions.labels, actions.ids)
                trial.expect(same, f"legal_actions() and legal_ids() are {own}, and actions() are {tuple(actions)}")
            known = match.spec.free_text or set(actions.ids) <= set(range(match.spec.num_actions))
            distinct = len(set(actions.ids)) == len(actions.ids) == len(actions.labels)
            right = (
                f"ids are wrong: {actions.ids} for {_listed(actions.labels)}, num_actions = {match.spec.num_actions}"
            )
            trial.expect(known and distinct, right)
    return remark


def _listed(labels: Sequence[str]) -> str:
    return f"({', '.join(labels[:12])}{', …' if len(labels) > 12 else ''})"


def bounds(trial: Trial) -> str:
    """Compare what matches pay with what the spec says."""
    game, least, most = trial.make(), math.inf, -math.inf
    for seed in trial.seeds:
        spec, returns = game.spec, _final(trial, game, seed)
        low, high = min(returns), max(returns)
        within = spec.min_return - TOLERANCE <= low and high <= spec.max_return + TOLERANCE
        trial.expect(
            within and all(map(math.isfinite, returns)),
            f"a match paid {low:g} to {high:g}, and not min_return = {spec.min_return:g} to max_return = "
            f"{spec.max_return:g}",
        )
        least, most = min(least, low), max(most, high)
    return f"random matches paid {least:g} to {most:g}, of {game.spec.min_return:g} to {game.spec.max_return:g}"


def _final(trial: Trial, game: Game, seed: int) -> tuple[float, ...]:
    """Play a match at random; return what it pays."""
    for _ in trial.positions(game, seed):
        pass
    returns = game.returns()
    trial.expect(len(returns) == game.spec.seats, f"returns() gives {len(returns)} numbers to {game.spec.seats} seats")
    return returns


def rewards(trial: Trial) -> None:
    """Check that rewards add up to returns, and that named ones are named."""
    game = trial.make()
    for seed in trial.few:
        sums = np.zeros(game.spec.seats)
        for match in trial.positions(game, seed):
            if not trial.played:
                continue
            rewards, returns = match.rewards(), match.returns()
            seats = match.spec.seats
            trial.expect(len(rewards) == seats, f"rewards() gives {len(rewards)} numbers to {seats} seats")
            sums = sums + np.array(rewards)
            fault = f"rewards sum to {sums.tolist()}, and returns are {list(returns)}"
            trial.expect(bool(np.allclose(sums, returns)), fault)
            if match.spec.reward_names:
                _named_rewards(trial, match)


def _named_rewards(trial: Trial, game: Game) -> None:
    """Check the rewards that the last action paid besides its return."""
    for name, paid in cast(PaysNamedRewards, game).named_rewards().items():
        trial.expect(name in game.spec.reward_names, f"it pays the reward {name!r}, which its spec does not name")
        trial.expect(len(paid) == game.spec.seats, f"the reward {name!r} is paid to {len(paid)} seats")


def utility(trial: Trial) -> str:
    """Check that seats' returns relate as the spec says."""
    game, totals = trial.make(), list[float]()
    utility = game.spec.utility
    for seed in trial.seeds:
        returns = _final(trial, game, seed)
        totals.append(sum(returns))
        zero = utility is not Utility.ZERO_SUM or abs(totals[-1]) < TOLERANCE
        trial.expect(zero, f"returns are not zero-sum, as the spec says: {list(returns)} sum to {totals[-1]:g}")
        fixed = utility is not Utility.CONSTANT_SUM or abs(totals[-1] - totals[0]) < TOLERANCE
        fault = f"returns are not constant-sum, as the spec says: {list(returns)} sum to {totals[-1]:g}, others to"
        trial.expect(fixed, f"{fault} {totals[0]:g}")
        alike = utility is not Utility.IDENTICAL or max(returns) - min(returns) < TOLERANCE
        trial.expect(alike, f"seats are not paid alike, as the spec says: {list(returns)}")
    return str(utility).replace("_", "-")


def refusals(trial: Trial) -> None:
    """Play what no game has for an action."""
    for seed in trial.seeds:
        for match in trial.positions(trial.make(), seed):
            if match.to_act() is None or len(trial.played) > 2:
                break
            here = position_of(match)
            try:
                match.apply(NONSENSE)
            except ValueError:
                seen = position_of(match)
                trial.expect(seen == here, f"an action that is refused changes the match: {difference(here, seen)}")
            except Exception as error:  # noqa: BLE001  # of code from outside
                name = type(error).__name__
                raise Fault(
                    f"{trial.where}an action that is not legal raises {name}; apply raises ValueError"
                ) from None
            else:
                raise Fault(f"{trial.where}an action that is not legal, {NONSENSE!r}, is not refused with ValueError")


def eligible(trial: Trial) -> str:
    """Check that a game which marks its moves marks each of them, and changes nothing by it."""
    game, marked, counted = trial.make(), 0, 0
    if not isinstance(game, MarksEligible):
        raise Unchecked("it does not say which moves bear on what came about (games.abilities.MarksEligible)")
    for seed in trial.seeds:
        for match in trial.positions(game, seed):
            here = position_of(match)
            marks = cast(MarksEligible, match).eligible()
            fault = f"eligible() marks {len(marks)} moves of {len(trial.played)}"
            trial.expect(len(marks) in (0, len(trial.played)), fault)
            trial.expect(
                all(isinstance(mark, bool) for mark in marks), f"eligible() returns {marks!r}, and not booleans"
            )
            trial.expect(position_of(match) == here, "eligible() changes the match")
        marked, counted = marked + len(marks), counted + sum(marks)
    return f"{counted} of {marked} moves of random matches count"


def scripts(trial: Trial) -> str:
    """Let each scripted player of the game play all seats of some matches."""
    game = trial.make()
    if not isinstance(game, HasScripts) or not game.scripts():
        raise Unchecked("it has no scripted players")
    names = sorted(game.scripts())
    for name in names:
        for seed in trial.seeds[:5]:
            rng, calls = random.Random(seed), 0
            game.reset(seed)
            trial.forget()
            while game.to_act() is not None and calls <= min(game.spec.max_turns, MOST_TURNS):
                actions, said = game.actions(), game.scripts()[name](rng)
                legal = actions.labels if isinstance(actions, Choices) else None
                calls_tool = "(" in said and callable(getattr(game, "legal_calls", None))
                if calls_tool:
                    break  # a call of a tool, which the referee makes
                fits = said in legal if legal is not None else cast(Any, actions).read(said) is not None
                trial.expect(fits, f"its script {name!r} says {said!r}, which is not legal; seed {seed}, turn {calls}")
                game.apply(said if legal is not None else cast(Any, actions).read(said))
                trial.answer(game)
                calls += 1
    return ", ".join(names)
