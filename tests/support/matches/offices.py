"""A game for tests whose matches open submatches: offices of three levels, each with a secret of its own."""

import copy
import random

from arena.records import Cast, MatchRequest
from arena.samplers.scripted import Random
from arena.scheduler import play
from games.common.seeds import derive_seed
from games.spec import Choices, GameSpec, Submatch, Utility
from roles.cards import load_roles, with_overrides

TOP = "office(2)"


class Office:
    """One seat acts three times; each action opens a number of matches of the level below, drawn by the deal.

    ``most`` is the largest number of matches opened at once. An office's outcome is "did" and its path; its secret is
    in its observations and in its first legal action.
    """

    def __init__(self, level, most=2):
        self.level, self.most = level, most
        below = (f"office({level - 1})",) if level else ()
        self.spec = GameSpec(
            f"office({level})", 1, 2, 3, -5.0, 100.0, Utility.GENERAL_SUM, False, has_chance=True, submatch_games=below
        )

    def reset(self, seed):
        self.seed, self.path, self.moves, self.seen, self.number = seed, "", [], [], 0

    def start_submatch(self, task):
        self.path = task

    def outcome(self):
        return f"did {self.path}"

    def to_act(self):
        return 0 if len(self.moves) < 3 else None

    def secret(self):
        return f"secret<{self.level}:{self.path}>"

    def actions(self):
        return Choices(self.legal_actions(), ())

    def legal_actions(self):
        return (f"tell {self.secret()}", "keep")

    def observe(self, seat):
        return f"{self.secret()} saw {self.seen} opened {self.number}"

    def apply(self, action):
        self.moves.append(action)

    def rewards(self):
        return (0.0,) if self.path or self.to_act() is not None else (1.0,)

    def returns(self):
        return self.rewards()

    def submatches(self):
        if not self.level:
            return ()
        count = random.Random(f"{self.seed}/{self.path}/{len(self.moves)}").randint(0, self.most)
        paths = [f"{self.path}.{self.number + i}" for i in range(count)]
        self.number += count
        return tuple(Submatch(self.spec.submatch_games[0], path) for path in paths)

    def record_outcomes(self, outcomes):
        self.seen = [*self.seen, *outcomes]

    def submatch_returns(self):
        return tuple((float(i + 1),) for i in range(self.number))

    def copy(self):
        return copy.deepcopy(self)


def make_office(name, most=2):
    return Office(int(name[len("office(")]), most)


def office_request(index, seed=0, player="r", **changes):
    cast = tuple(Cast(f"office({level})", (player,), (True,)) for level in (1, 0))
    seeds = derive_seed(seed, index, "deal"), derive_seed(seed, index, "sample")
    return MatchRequest(index, TOP, *seeds, (player,), (True,), cast=cast)._replace(**changes)


def play_offices(requests, in_flight=64, most=2, engine=None, on_episode=None, **changes):
    engine = engine or Random()
    return play(
        requests,
        roles_of=lambda name: tuple(with_overrides(role, **changes) for role in load_roles(make_office(name).spec)),
        engine_of=lambda player: engine,
        make_game=lambda name: make_office(name, most),
        in_flight=in_flight,
        on_episode=on_episode,
    )
