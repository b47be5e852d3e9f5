"""GPUs of engines and learners, as Ray gives them out; they are made up, so only their numbers count."""

import pytest
import small_pool
from ray_nodes import nodes

from arena.cluster import Post
from arena.ray_pool import RayCluster
from league.checks_cluster import check_cluster, needs, places
from league.settings import validate

LEARNERS = {"one": ("opener",), "two": ("caller",)}


@pytest.fixture(scope="module")
def address():
    for found in nodes(2, cpus=4, gpus=2):
        yield found.address


@pytest.fixture
def cluster(address):
    with RayCluster(address, 1) as joined:  # leaving it gives the places back
        yield joined


def seen(cluster, **asked):
    """Return the node and GPUs of each engine and each learner."""
    config = validate({"games": {"kuhn_poker": {}}, "cluster": {"engines": 2, **asked}})
    check_cluster(config, LEARNERS, cluster.nodes())
    bundles, of = places(config, len(LEARNERS))
    cluster.reserve(bundles)
    members = {}
    for need in needs(config, len(LEARNERS)):
        post = Post(need.kind, small_pool.Sees, (), *need.each, bundles=of.get(need.kind, ()))
        for number in range(need.members if need.kind != "worker" else 0):
            members[need.kind, number] = cluster.hire(post, number, 0)
    return {who: (cluster.get(one.call("node")), *cluster.get(one.call("gpus"))) for who, one in members.items()}


@pytest.mark.slow
def test_separate_ones_have_gpus_of_their_own(cluster):
    found = seen(cluster, engine_gpus=1.0, learner_gpus=1.0)
    assert len(found) == len(set(found.values())) == 4


@pytest.mark.slow
def test_shared_ones_are_two_by_two_on_the_same(cluster):
    found = seen(cluster, engine_gpus=0.6, learner_gpus=0.4, placement="shared")
    assert found["engine", 0] == found["learner", 0] != found["engine", 1] == found["learner", 1]
