"""GPUs of engines and learners, as Ray assigns them; the GPUs are made up, so only their numbers count."""

import pytest
from support.processes import pool_workers
from support.processes.ray_nodes import nodes

from arena.cluster.interface import WorkerSpec
from arena.cluster.ray_cluster import RayCluster
from league.config.load import validate
from league.training.backends.placement import assign_bundles, check_cluster, worker_demands

LEARNERS = 2


@pytest.fixture(scope="module")
def address():
    for ray_nodes in nodes(2, cpus=4, gpus=2):
        yield ray_nodes.address


@pytest.fixture
def cluster(address):
    with RayCluster(address, 1) as joined:  # leaving it frees the bundles
        yield joined


def gpus_of_workers(cluster, **table):
    """Return the node and GPUs of each engine and each learner."""
    config = validate({"games": {"kuhn_poker": {}}, "cluster": {"engines": 2, **table}})
    check_cluster(config, LEARNERS, cluster.nodes())
    bundles, indices = assign_bundles(config, LEARNERS)
    cluster.reserve(bundles)
    workers = {}
    for demand in worker_demands(config, LEARNERS):
        spec = WorkerSpec(
            demand.kind, pool_workers.PlacementProbe, (), *demand.resources, bundles=indices.get(demand.kind, ())
        )
        for number in range(demand.processes if demand.kind != "worker" else 0):
            workers[demand.kind, number] = cluster.start(spec, number, 0)
    return {
        key: (cluster.get(worker.call("node")), *cluster.get(worker.call("gpus"))) for key, worker in workers.items()
    }


@pytest.mark.slow
def test_separate_workers_have_different_gpus(cluster):
    gpus = gpus_of_workers(cluster, engine_gpus=1.0, learner_gpus=1.0)
    assert len(gpus) == len(set(gpus.values())) == 4


@pytest.mark.slow
def test_an_engine_and_a_learner_share_a_gpu(cluster):
    gpus = gpus_of_workers(cluster, engine_gpus=0.6, learner_gpus=0.4, placement="shared")
    assert gpus["engine", 0] == gpus["learner", 0] != gpus["engine", 1] == gpus["learner", 1]
