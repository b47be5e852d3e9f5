"""Named rewards on their way from a match to its record: summed by turn, early ones with the seat's first turn."""

from types import SimpleNamespace

from arena.records import MatchRequest, Reply
from arena.scheduler import play
from games.spec import Choices, GameSpec, Utility
from learners.rewards import reward_named
from learners.trajectories import to_trajectories
from roles.role import Role


class Payer:
    """Seat 0 acts twice, seat 1 last. Every action pays both seats ``style`` 1, and the second also ``tact`` ½ to 1."""

    spec = GameSpec("payer", 2, 1, 3, 0.0, 0.0, Utility.GENERAL_SUM, True, False, reward_names=("style", "tact"))

    def __init__(self):
        self.reset(0)

    def reset(self, seed):
        self.turns = 0

    def to_act(self):
        return (0, 0, 1, None)[self.turns]

    def actions(self):
        return Choices(("go",), (0,))

    def observe(self, seat):
        return ""

    def apply(self, action):
        self.turns += 1

    def rewards(self):
        return (0.0, 0.0)

    returns = rewards

    def named_rewards(self):
        return {"style": (1.0, 1.0)} | ({"tact": (0.0, 0.5)} if self.turns == 2 else {})


def test_rewards_by_name_go_to_the_latest_turn_and_early_ones_to_the_first():
    roles = tuple(Role(name=f"r{seat}", game="payer", seat=seat, system="", prompt="") for seat in (0, 1))
    engine = SimpleNamespace(sample=lambda requests: [Reply("go") for _ in requests])
    request = MatchRequest(0, "payer", 0, 0, ("a", "b"), (True, True))
    (episode,) = play([request], roles_of=lambda _: roles, engine_of=lambda _: engine, make_game=lambda _: Payer())
    assert [turn.named for turn in episode.turns] == [
        (("style", 1.0),),
        (("style", 2.0),),
        (("style", 3.0), ("tact", 0.5)),
    ]
    trajectories = to_trajectories([episode], lambda _: roles, {"payer": 1.0})
    assert [reward_named(one, "style") for one in trajectories] == [3.0, 3.0]
    assert [reward_named(one, "tact") for one in trajectories] == [0.0, 0.5]
