"""What a run asks of a cluster, and the sentence that says what would fit where it is too much."""

import pytest

from arena.cluster import Room
from games.errors import UsageError
from league.checks_cluster import check_cluster, needs, places
from league.settings import validate

GPU = {"model": {"device": "cuda"}}


def config(model=None, **cluster):
    return validate({"games": {"kuhn_poker": {}}, "cluster": cluster, **(model or {})})


def refused(asked, nodes, learners=0):
    with pytest.raises(UsageError) as told:
        check_cluster(asked, learners, nodes)
    return str(told.value)


def test_without_engines_a_worker_takes_what_an_engine_would():
    assert needs(config(workers=3, engine_cpus=2.0), 0) == [("worker", 3, Room(2.0, 0.0))]
    apart = needs(config(workers=3, engines=2, worker_cpus=0.5, engine_gpus=1.0), 1)
    assert apart == [("worker", 3, (0.5, 0.0)), ("engine", 2, (1.0, 1.0)), ("learner", 1, (1.0, 0.0))]


def test_what_fits_is_not_refused():
    check_cluster(config(workers=4), 0, [Room(2.0, 0.0), Room(2.0, 0.0)])
    check_cluster(config(workers=2), 1, [Room(3.0, 0.0)])


def test_too_few_cpus_are_told_with_the_workers_that_fit():
    told = refused(config(workers=8), [Room(2.0, 0.0), Room(4.0, 0.0)], learners=1)
    assert told.startswith("The cluster has 6 CPUs, but [cluster] asks for 9: 8 workers of 1 and 1 learner of 1.")
    assert "Set cluster.workers = 5" in told
    check_cluster(config(workers=5), 1, [Room(2.0, 0.0), Room(4.0, 0.0)])


def test_too_few_gpus_are_told():
    asked = config(GPU, workers=2, engines=2, engine_gpus=1.0)
    assert refused(asked, [Room(8.0, 1.0)]).startswith("The cluster has 1 GPUs, but [cluster] asks for 2: 2 engines")


def test_what_no_machine_has_is_told():
    told = refused(config(workers=1, engine_cpus=4.0), [Room(2.0, 0.0), Room(3.0, 0.0)])
    assert "asks for 4 CPUs and 0 GPUs on one machine, but the largest of the 2 has 3 and 0" in told


def test_a_device_needs_a_share_of_it():
    assert "cluster.engine_gpus = 0. Set it to 1" in refused(config(GPU), [Room(8.0, 1.0)])
    asked = config(GPU, engine_gpus=0.5)
    assert "cluster.learner_gpus = 0. Set it to 1" in refused(asked, [Room(8.0, 1.0)], learners=1)


def test_parts_of_a_gpu_are_not_apart():
    told = refused(config(workers=1, engine_gpus=0.5, learner_gpus=0.5), [Room(8.0, 2.0)], learners=1)
    assert told.startswith("cluster.engine_gpus = 0.5 with cluster.placement = 'separate'")
    assert "Set 2" in refused(config(engine_gpus=2.5), [Room(8.0, 8.0)])


def test_places_of_their_own():
    asked = config(workers=2, engine_gpus=1.0, learner_gpus=2.0)
    assert places(asked, 1) == (
        [Room(1.0, 1.0), Room(1.0, 1.0), Room(1.0, 2.0)],
        {"worker": (0, 1), "learner": (2,)},
    )
    assert places(config(), 1) == ([], {})


def test_shared_places_hold_one_of_each_kind():
    asked = config(workers=4, engines=3, engine_gpus=0.5, learner_gpus=0.5, placement="shared")
    assert places(asked, 2) == (
        [Room(3.0, 1.5), Room(2.0, 1.0)],
        {"engine": (0, 1, 0), "learner": (0, 1)},
    )
    told = refused(asked, [Room(32.0, 8.0)], learners=2)
    assert (
        "2 engines and 1 learner would take 1.5 of one GPU. Set engine_gpus and learner_gpus to 0.333 or less" in told
    )
    check_cluster(asked, 3, [Room(32.0, 3.0)])
