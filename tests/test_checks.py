"""Configurations that could not train are refused before a run begins, each with what to set instead."""

import pytest

from games.errors import UsageError
from league.settings import load

GROUPS = "matchmaking.group_size=8"
TWO = ("roles.policy.kuhn_poker/first=a", "roles.policy.kuhn_poker/second=b")


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text("games.kuhn_poker.matches = 64\n")
    return str(path)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["credit.rule=grpoo"], "no advantage rule named 'grpoo'. Did you mean grpo"),
        (["credit.rules.kuhn_poker/first=marss"], "no advantage rule named 'marss'. Did you mean mars"),
        (["credit.rules.kuhn_poker/frist=mars"], "no role named 'kuhn_poker/frist'. Did you mean kuhn_poker/first"),
        (["credit.rule=grpo"], "'grpo' of kuhn_poker compares matches from one start, but matchmaking.group_size = 1"),
        (["credit.rules.kuhn_poker/second=rloo"], "'rloo' of kuhn_poker compares matches from one start"),
        (["matchmaking.group_size=7"], "matches = 64 cannot be cut into groups of .* = 7. Set 63 or 70."),
        (["alternate=2"], "lets policies take turns, but only main is trained"),
        ([*TWO, "alternate=2", "policies.a.frozen=true"], "lets policies take turns, but only b is trained"),
        (["policies.main.frozen=true"], r"All policies \(main\) are frozen"),
        (["policies.rival.frozen=true"], "no policy named 'rival'. Valid names: main. No role binds to it"),
        ([GROUPS, "policies.main.matches=3"], "policies.main.matches = 3 is less than one group of .* = 8"),
        (
            ["games.relay_arithmetic.matches=64", "matchmaking.tree=4", "policies.main.matches=32"],
            "policies.main.matches = 32 is less than one tree of matchmaking.tree = 4 in .*, 64 matches",
        ),
        (["policies.main.rank=0"], "policies.main.rank = 0: it should be greater than or equal to 1"),
        (["policies.main.kind=lorra"], "policies.main.kind = 'lorra': it should be 'full' or 'lora'"),
        (["objective.normalisation=mean"], "objective.normalisation = 'mean': it should be 'constant', 'token_mean'"),
    ],
)
def test_it_is_refused_with_a_sentence(config, overrides, said):
    with pytest.raises(UsageError, match=said):
        load(config, overrides)


@pytest.mark.parametrize(
    "overrides",
    [
        [GROUPS, "credit.rule=grpo"],
        [GROUPS, "credit.rules.kuhn_poker/second=rloo"],
        [*TWO, "alternate=2", "policies.a.every=3", "policies.b.kind=lora"],
        [*TWO, "policies.a.frozen=true"],
    ],
)
def test_what_fits_together_is_taken(config, overrides):
    load(config, overrides)
