"""Configurations that cannot train are refused before a run starts, each with what to set instead."""

import pytest

from games.common.errors import UsageError
from league.config.checks.config import check_share_of_matches
from league.config.load import load, run_roles

GROUPS = "matchmaking.group_size=8"
TWO = ("roles.policy.kuhn_poker/first=a", "roles.policy.kuhn_poker/second=b")

PROBE, PARTNER = "policies.probe.league_role=main_exploiter", "policies.ann.league_role=partner"


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text("games.kuhn_poker.matches = 64\n")
    return str(path)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["credit.rule=grpoo"], "no credit rule named 'grpoo'. Did you mean grpo"),
        (["credit.rules.kuhn_poker/first=marss"], "no credit rule named 'marss'. Did you mean mars"),
        (["credit.rules.kuhn_poker/frist=mars"], "no role named 'kuhn_poker/frist'. Did you mean kuhn_poker/first"),
        (["credit.rule=grpo"], "'grpo' of kuhn_poker compares matches from one start, but matchmaking.group_size = 1"),
        (["credit.rules.kuhn_poker/second=rloo"], "'rloo' of kuhn_poker compares matches from one start"),
        (
            [GROUPS, "credit.rules.kuhn_poker/second=advantage_alignment"],
            "kuhn_poker has 2 seats, of which 1 use it. Give both roles of a two-seat game the rule, or neither",
        ),
        (
            [GROUPS, "credit.rule=gdpo", "credit.gdpo.weights.right=1"],
            "'gdpo' of kuhn_poker/first weighs the reward 'right', which kuhn_poker does not pay. It knows: return, br",
        ),
        (
            [GROUPS, "credit.rule=gdpo", "credit.gdpo.weights_end.brevity=1"],
            "weighs the reward 'brevity', the tokens of free replies, but this role chooses among legal ones",
        ),
        ([GROUPS, "credit.rule=gdpo", "credit.gdpo.weights.return=0"], "all weights are 0, so nothing would be"),
        ([GROUPS, "credit.rule=gdpo", "credit.gdpo.weights.brevity=inf"], "credit.gdpo.weights.brevity"),
        (["credit.decay=0.9"], "no key named 'credit.decay'. Did you mean credit.rae.decay"),
        (["credit.regret_focus=1"], "no key named 'credit.regret_focus'. Did you mean credit.regret.focus"),
        (["credit.rae.decey=0.9"], "no key named 'credit.rae.decey'. Did you mean credit.rae.decay"),
        (
            ["credit.rae.decay=1.5"],
            r"credit.rae.decay = 1.5: it should be less than or equal to 1. \(how much of the old",
        ),
        (["credit.rae=0.9"], r"credit.rae = 0.9: it should be a table of keys \(credit.rae.decay, credit.rae.fold"),
        (["values.estimator=archr"], "no value estimator named 'archr'. Did you mean archer"),
        (
            ["credit.rule=gae_turn", "values.estimator=progress"],
            "cannot use the turn values of the estimator 'progress'.* critic",
        ),
        (
            ["credit.rule=contribution"],
            "cannot use the turn values of the estimator 'critic'.* progress, preferences, sequential",
        ),
        (
            [
                "branching.rule=entropy",
                "branching.replies=100000",
                "credit.rule=reinforce",
                "credit.reinforce.gamma=0.9",
            ],
            "Set credit.reinforce.gamma = 1",
        ),
        (["credit.rule=contribution", "values.estimator=sequential"], "seats of kuhn_poker are not paid alike"),
        (["values.estimators.kuhn_poker/third=archer"], "no role named 'kuhn_poker/third'"),
        (["values.archer.recencey=1"], "Did you mean values.archer.recency"),
        (["credit.settings.kuhn_poker/first.decey=1"], "credit.settings of kuhn_poker/first, whose rule is rae.*decey"),
        (
            [GROUPS, "credit.rule=cory", "credit.settings.kuhn_poker/first.x=1"],
            "credit.settings of kuhn_poker/first, whose rule is cory",
        ),
        (
            [GROUPS, "credit.rule=m_grpo", "credit.settings.kuhn_poker/first.calibration=3"],
            "also looks at other roles' matches",
        ),
        (["starts.rule=uniform", "starts.size=20"], "starts.size = 20 is less than the 64 deals of kuhn_poker"),
        (["starts.rule=plr", "starts.floor=1"], "leaves nothing to starts.rule = 'plr'"),
        (["starts.rule=plrr"], "no start rule named 'plrr'. Did you mean plr. Set starts.rule"),
        (["descent.between=merg"], r"no breeding rule named .merg.. Did you mean merge. Set descent.between\."),
        (
            ["starts.rule=backward", "games.lookup_chain.matches=64"],
            "starts.rule = 'backward' shortens matches of an expert, which is cast for no submatch, and those of",
        ),
        (["matchmaking.group_size=7"], "matches = 64 cannot be cut into groups of .* = 7. Set 63 or 70."),
        (["matchmaking.group_size=128"], r"matches = 64 cannot be cut into groups of .* = 128. Set 128\.$"),
        (["alternate=2"], "lets policies take turns, but only main is trained"),
        ([*TWO, "alternate=2", "policies.a.frozen=true"], "lets policies take turns, but only b is trained"),
        (["policies.main.frozen=true"], r"All policies \(main\) are frozen"),
        (["policies.rival.frozen=true"], "no policy named 'rival'. Valid names: main. No role is bound to it"),
        ([GROUPS, "policies.main.matches=3"], "policies.main.matches = 3 is less than one group of .* = 8"),
        (
            ["games.relay_arithmetic.matches=64", "matchmaking.tree=4", "policies.main.matches=32"],
            "policies.main.matches = 32 is less than one tree of matchmaking.tree = 4 in .*, 64 matches",
        ),
        (["evaluation.gate=0.5", "evaluation.matches=3"], "evaluation.matches = 3 is too few. Set it to 4 or more"),
        (
            [
                "evaluation.gate=0.5",
                "games={'lookup_chain(people=6,relations=2)'={matches=64}}",
                "roles.policy={'lookup_chain(people=6,relations=2)/planner'='a', "
                "'lookup(people=6,relations=2)/worker'='b'}",
            ],
            "evaluation.gate compares b with its last snapshot .*, but b plays only in the matches that those open",
        ),
        (["policies.main.rank=0"], "policies.main.rank = 0: it should be greater than or equal to 1"),
        (["policies.main.weights=lorra"], "policies.main.weights = 'lorra': it should be 'full' or 'lora'"),
        (["objective.normalisation=mean"], "objective.normalisation = 'mean': it should be 'constant', 'token_mean'"),
    ],
)
def test_bad_configurations_are_refused(config, overrides, message):
    with pytest.raises(UsageError, match=message):
        load(config, overrides)


@pytest.mark.parametrize(
    "overrides",
    [
        [GROUPS, "credit.rule=grpo"],
        [GROUPS, "credit.rule=advantage_alignment", "credit.advantage_alignment.weight=2"],
        ["credit.rae.decay=0.9", "credit.mars.baseline=game"],
        [GROUPS, "credit.rules.kuhn_poker/second=rloo"],
        [*TWO, "alternate=2", "policies.a.every=3", "policies.b.weights=lora"],
        [*TWO, "policies.a.frozen=true"],
        ["evaluation.gate=0.5", "evaluation.matches=4"],
    ],
)
def test_good_configurations_are_accepted(config, overrides):
    load(config, overrides)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([PROBE, "exploiters.share=0"], r"share = 0 gives probe no match .* untrained. Set it to 0.032 or more, or"),
        ([PROBE, "exploiters.share=0.031"], "share = 0.031 gives probe no match"),
        ([PROBE, GROUPS, "exploiters.share=0.24"], "gives probe no match .* Set it to 0.25 or more"),
        ([PROBE, "matchmaking.group_size=64"], "gives probe no match .* Play more matches in a game, or leave probe"),
        ([PARTNER, PROBE, "exploiters.share=0.02"], "share = 0.02 gives probe no match .* Set it to 0.032 or more"),
        ([PARTNER, "exploiters.share=0.015"], "gives ann no match .* Set it to 0.016 or more"),
    ],
)
def test_a_run_does_not_begin_where_an_exploiter_or_partner_gets_no_match(config, overrides, message):
    """The draw gives an exploiter whole deals, with it in each seat, and a partner single matches."""
    refused = load(config, overrides)  # a run that has begun so can still be read
    with pytest.raises(UsageError, match=message):
        check_share_of_matches(refused, run_roles(refused))


@pytest.mark.parametrize(
    "overrides",
    [
        [PROBE, "exploiters.share=0.032"],
        [PROBE, "exploiters.share=0", "policies.probe.frozen=true"],
        [PARTNER, "exploiters.share=0.016"],
        [PROBE, "exploiters.share=0.032", "games.leduc_poker.matches=8"],
        [PROBE, "exploiters.share=0.01", "games.leduc_poker.matches=200"],
        ["exploiters.share=0"],
    ],
)
def test_a_run_begins_where_each_exploiter_and_partner_learns_in_some_game(config, overrides):
    accepted = load(config, overrides)
    check_share_of_matches(accepted, run_roles(accepted))


SHARDED = ["optimizer.processes=2", "optimizer.sharded=true"]


def test_who_only_speaks_is_not_masked_whatever_the_card_says(config):
    """Where a game asks for words, a card of ``reply = "choice"`` masks nothing: only a list can be masked."""
    load(config, ["games={debate={}, simple_negotiation={}}", *SHARDED])
    with pytest.raises(UsageError, match=r"debate\(form=1\)/first chooses among replies"):
        load(config, ['games={"debate(form=1)"={}}', *SHARDED])
    with pytest.raises(UsageError, match="chooses among replies"):
        load(config, ["games={debate={}, kuhn_poker={}}", *SHARDED])


def test_a_potential_is_refused_with_a_discount():
    """F = γ Φ(s') − Φ(s) keeps what is best; the difference without γ does not."""
    game = "hidden_roles(days=1,form=1)"
    settings = [f"games={{'{game}'={{matches=8}}}}", "beliefs.gain.weight=0.1", "credit.rule=reinforce"]
    check = [*settings, "beliefs.gain.potential=true", "credit.reinforce.gamma=0.9"]
    with pytest.raises(UsageError, match=r"credit.reinforce.gamma = 0.9 of .* and beliefs.gain.potential"):
        load("pocket-returns", check)


def test_a_curve_of_exploitability_that_could_not_be_drawn_is_refused(monkeypatch):
    """Without numba; and where OpenSpiel's text is not that of the published game."""
    every = "evaluation.large_every=3"
    monkeypatch.setattr("league.theory.public.dark_boards.passes", None)
    with pytest.raises(UsageError, match=r"large_every = 3 asks for .* phantom_ttt\. .* need numba, .*large_every = 0"):
        load("pocket", [every], games=["phantom_ttt"])
    load("pocket", games=["phantom_ttt"])
    load("pocket", [every, "evaluation.exact=false"], games=["phantom_ttt"])
    load("pocket", [every], games=["kuhn_poker", "liars_dice"])
