"""Workers and engines of a pool that play by rules, so their processes start in a second and need no torch."""

import os
import signal
import time
from pathlib import Path

import ray

from arena.cluster.interface import WorkerDied
from arena.cluster.match_pool import PlayedChunk
from arena.cluster.messages import to_remote_replies, to_requests
from arena.cluster.ray_cluster import RemoteEngine
from arena.errors import EngineError
from arena.records import MatchRequest
from arena.samplers.scripted import Random
from arena.scheduler import play
from games.common.seeds import derive_seed
from games.registry import make_game
from roles.cards import load_roles


def matches(number, game="kuhn_poker"):
    """Return matches between random players."""
    seeds = [(derive_seed(i, "deal"), derive_seed(i, "sample")) for i in range(number)]
    return [MatchRequest(i, game, *both, ("random", "random"), (True, True)) for i, both in enumerate(seeds)]


def play_locally(requests, engine=None):
    """Return the episodes of one process."""
    return play(
        requests,
        roles_of=lambda name: load_roles(make_game(name).spec),
        engine_of=lambda player: engine or Random(),
        make_game=make_game,
        in_flight=64,
    )


class RandomWorker:
    """A worker whose players are random."""

    def play(self, requests, weights, engine, remote_players):
        try:
            return PlayedChunk(play_locally(requests, RemoteEngine(engine) if engine else None), 0)
        except EngineError as error:
            if isinstance(error.__cause__, WorkerDied):
                raise error.__cause__ from error
            raise


class SlowWorker(RandomWorker):
    """A worker whose first instance needs this many seconds for a chunk."""

    def __init__(self, folder, seconds):
        self._seconds = seconds if first(folder, "slow") else 0.0

    def play(self, *arguments):
        time.sleep(self._seconds)
        return super().play(*arguments)


class DyingWorker(RandomWorker):
    """A worker whose process ends in the middle of the chunk with match 40, the first ``times`` times."""

    def __init__(self, folder, times):
        self._folder, self._times = folder, times

    def play(self, requests, *arguments):
        if any(request.index == 40 for request in requests):
            for number in range(self._times):
                if first(self._folder, f"death {number}"):
                    os._exit(1)
        return super().play(requests, *arguments)


class HangingWorker(RandomWorker):
    """A worker that hangs over the chunk with match 40, the first time: stopped, or spinning."""

    def __init__(self, folder, how):
        self._folder, self._how, self.progress = folder, how, 0

    def play(self, requests, *arguments):
        if any(request.index == 40 for request in requests) and first(self._folder, "hang"):
            if self._how == "stopped":
                os.kill(os.getpid(), signal.SIGSTOP)
            while True:
                pass
        self.progress += 1
        return super().play(requests, *arguments)


class HangingEngine:
    """An engine of which the first instance stops itself at its third batch."""

    def __init__(self, folder):
        self._folder, self._batches = folder, 0

    def answer(self, remote_requests):
        self._batches += 1
        if self._batches == 3 and first(self._folder, "hang"):
            os.kill(os.getpid(), signal.SIGSTOP)
        return to_remote_replies(remote_requests, Random().sample(to_requests(remote_requests)))


class RaisingWorker(RandomWorker):
    """A worker that raises an error of a class for match 40."""

    def __init__(self, error_class):
        self._error_class = error_class

    def play(self, requests, *arguments):
        if any(request.index == 40 for request in requests):
            raise self._error_class("Match 40 is wrong. Leave it out.")
        return super().play(requests, *arguments)


class RandomEngine:
    """An engine that replies at random; its first instance may be slow, its first ``deaths`` batches may end it."""

    def __init__(self, folder=None, seconds=0.0, deaths=0):
        self._folder, self._deaths = folder, deaths
        self._seconds = seconds if folder and first(folder, "slow") else 0.0

    def answer(self, remote_requests):
        time.sleep(self._seconds)
        for number in range(self._deaths):
            if first(self._folder, f"death {number}"):
                os._exit(1)
        requests = to_requests(remote_requests)
        return to_remote_replies(remote_requests, Random().sample(requests))


class FailingEngine(RandomEngine):
    """An engine that fails."""

    def answer(self, remote_requests):
        raise EngineError("Its memory is full.")


def first(folder, name):
    """Return whether this is the first call with this name."""
    try:
        (Path(folder) / name).mkdir()
    except FileExistsError:
        return False
    return True


class PlacementProbe:
    """A worker that returns its node and the GPUs that it may use."""

    def node(self):
        return ray.get_runtime_context().get_node_id()

    def gpus(self):
        return os.environ["CUDA_VISIBLE_DEVICES"].split(",")


class UnstartableWorker:
    """A worker that dies as soon as it is made."""

    def __init__(self):
        os._exit(1)
