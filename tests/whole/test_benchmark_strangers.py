"""The study of strangers: rounds by hand, a Bayesian among conventions, and runs that differ in whom they meet."""

import pytest

from arena.records import MatchRequest
from arena.scheduler import play
from benchmarks.studies.cooperation import strangers
from benchmarks.studies.cooperation.conventions import CONVENTIONS, Convention, Foresees
from benchmarks.studies.cooperation.strangers import (
    COLUMNS,
    FOUR_STAGES,
    GAME,
    ITERATIONS,
    LENGTH,
    PARTNERS,
    PLUGIN,
    STRANGER,
    changes_after_a_miss,
    earned,
    grown,
    static,
)
from games.common import plugins
from games.registry import make_game
from league.population.players.engines import Engines
from league.population.players.player import resolve
from roles.cards import load_roles


@pytest.fixture(autouse=True)
def known():
    plugins.allow([PLUGIN])


def played(*engines, seed=0):
    """Return a match of two engines."""
    spec, ids = make_game(GAME).spec, ("a", "b")
    roles = load_roles(spec)
    request = MatchRequest(0, spec.name, seed, seed, ids, (False, False))
    engine_of = dict(zip(ids, engines, strict=True)).__getitem__
    (episode,) = play([request], roles_of=lambda _: roles, engine_of=engine_of, make_game=make_game)
    return episode


def test_a_seat_changes_or_does_not_after_each_miss_but_one_of_the_last_round():
    """Left, right, left, … beside right: all misses are the rounds of left, after which it changes, and right stays."""
    episode = played(Convention("alternate-left"), Convention("right"))
    assert changes_after_a_miss(episode, 0) == [True] * (LENGTH // 2)
    assert changes_after_a_miss(episode, 1) == [False] * (LENGTH // 2)
    assert episode.returns == (LENGTH // 2,) * 2


@pytest.mark.parametrize("seat", [0, 1])
def test_who_foresees_is_right_about_every_convention_from_the_fifth_round_on(seat):
    """Left, left, right beside three of right leaves right and oppose-right; the fourth round tells which it is."""
    for name in CONVENTIONS:
        for seed in range(4):
            engines = [Convention(name)] * 2
            engines[seat] = Foresees()
            acts = [[turn.action for turn in played(*engines, seed=seed).turns if turn.seat == s] for s in (0, 1)]
            alike = [one == other for one, other in zip(*acts, strict=True)]
            assert all(alike[4:]), (name, seed, acts)


def test_a_round_pays_left_what_left_beside_each_convention_earns(monkeypatch):
    """By hand: always left beside the eight earns 9, 0, 5, 4, 9, 8, 1 and 0 of 9 rounds."""
    monkeypatch.setattr(strangers, "MATCHES", 4)
    spec = make_game(GAME).spec
    with Engines() as engines:
        names = [f"convention:{name}" for name in CONVENTIONS]
        found = earned(resolve("always:left", spec, engines), [resolve(name, spec, engines) for name in names], 0)
    assert found["figure"] == pytest.approx((9 + 0 + 5 + 4 + 9 + 8 + 1 + 0) / (8 * LENGTH))
    assert found["0"] == 0.5
    assert found["1"] == pytest.approx(4 / 8)  # left, alternate-right, and both that follow
    assert found["changes"] == 0.0
    assert found.keys() == {"figure", *COLUMNS}


def test_the_same_partners_are_met_as_they_grow_or_as_they_ended(tmp_path):
    self_play, growing, newest = grown().values()
    for name in (*PARTNERS, STRANGER):
        for stage in (10, 20, 30, 40):
            (tmp_path / "population" / f"{name}-{stage:06d}").mkdir(parents=True)
    still, stages = static(tmp_path), static(tmp_path, FOUR_STAGES)
    sources = {still.model_of(f"{name}{ITERATIONS}").source for name in PARTNERS}
    assert sources == {str(tmp_path / "population" / f"{name}-{ITERATIONS:06d}") for name in PARTNERS}
    met = {stages.model_of(name).source for name in stages.policies if name != "main"}
    assert met == {str(tmp_path / "population" / f"{n}-0000{stage}") for n in PARTNERS for stage in (10, 20, 30, 40)}
    assert all(still.policy(f"{name}{ITERATIONS}").frozen and not growing.policy(name).frozen for name in PARTNERS)
    assert growing.policy(STRANGER).held_out
    assert not any(name.startswith(STRANGER) for name in {**still.policies, **stages.policies})
    assert stages.model_copy(update={"policies": still.policies}) == still
    assert newest.matchmaking.keep == 1
    assert newest.model_copy(update={"matchmaking": growing.matchmaking}) == growing
    assert growing.matchmaking == still.matchmaking
    assert growing.exploiters.together == 0.0, "each alone"
    each = int(growing.games[GAME].matches * growing.exploiters.share)
    own = growing.games[GAME].matches - each * (len(PARTNERS) + 1)
    assert own == self_play.games[GAME].matches == still.games[GAME].matches
    same = {"matchmaking", "policies", "exploiters", "games"}
    assert len({one.model_dump_json(exclude=same) for one in (self_play, growing, still)}) == 1
