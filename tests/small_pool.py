"""Workers and engines of a pool that play by rules, so their processes start in a second and need no torch."""

import os
import time
from pathlib import Path

import ray

from arena.cluster import Died
from arena.errors import EngineError
from arena.pool import Played
from arena.questions import to_answers, to_requests
from arena.ray_pool import RemoteEngine
from arena.records import MatchRequest
from arena.samplers.scripted import Random
from arena.scheduler import play
from games.registry import make_game
from games.seeds import derive_seed
from roles.cards import load_roles


def matches(number, game="kuhn_poker"):
    """Return matches between random players."""
    seeds = [(derive_seed(i, "deal"), derive_seed(i, "sample")) for i in range(number)]
    return [MatchRequest(i, game, *both, ("random", "random"), (True, True)) for i, both in enumerate(seeds)]


def played_here(requests, engine=None):
    """Return the episodes of one process."""
    return play(
        requests,
        roles_of=lambda name: load_roles(make_game(name).spec),
        engine_of=lambda player: engine or Random(),
        make_game=make_game,
        in_flight=64,
    )


class Plays:
    """A worker."""

    def play(self, requests, weights, engine, guests):
        try:
            return Played(played_here(requests, RemoteEngine(engine) if engine else None), 0)
        except EngineError as error:
            if isinstance(error.__cause__, Died):
                raise error.__cause__ from error
            raise


class PlaysSlowly(Plays):
    """A worker whose first instance needs so many seconds for a piece."""

    def __init__(self, folder, seconds):
        self._seconds = seconds if first(folder, "slow") else 0.0

    def play(self, *given):
        time.sleep(self._seconds)
        return super().play(*given)


class Dies(Plays):
    """A worker that ends in the middle of the piece that match 40 is in, the first ``times`` times."""

    def __init__(self, folder, times):
        self._folder, self._times = folder, times

    def play(self, requests, *given):
        if any(one.index == 40 for one in requests):
            for number in range(self._times):
                if first(self._folder, f"death {number}"):
                    os._exit(1)
        return super().play(requests, *given)


class Refuses(Plays):
    """A worker to whom a match is wrong, or whose engine fails."""

    def __init__(self, kind):
        self._kind = kind

    def play(self, requests, *given):
        if any(one.index == 40 for one in requests):
            raise self._kind("Match 40 is wrong. Leave it out.")
        return super().play(requests, *given)


class Answers:
    """An engine."""

    def __init__(self, folder=None, seconds=0.0, deaths=0):
        self._folder, self._deaths = folder, deaths
        self._seconds = seconds if folder and first(folder, "slow") else 0.0

    def answer(self, questions):
        time.sleep(self._seconds)
        for number in range(self._deaths):
            if first(self._folder, f"death {number}"):
                os._exit(1)
        requests = to_requests(questions)
        return to_answers(questions, Random().sample(requests))


class Breaks(Answers):
    """An engine that fails."""

    def answer(self, questions):
        raise EngineError("Its memory is full.")


def first(folder, name):
    """Return whether nobody did this before."""
    try:
        (Path(folder) / name).mkdir()
    except FileExistsError:
        return False
    return True


class Sees:
    """A member that tells where it is and which GPUs it may use."""

    def node(self):
        return ray.get_runtime_context().get_node_id()

    def gpus(self):
        return os.environ["CUDA_VISIBLE_DEVICES"].split(",")


class Unborn:
    """A worker that dies as soon as it is made."""

    def __init__(self):
        os._exit(1)
