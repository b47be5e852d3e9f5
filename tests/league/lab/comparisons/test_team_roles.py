"""Whether a team earns its keep: a planted team, in which it is known what each role is worth."""

import pytest
from support.matches.planted_team import CHATTERER, GUESSER, GUIDE, PlantedAlone, PlantedTeam

from games.registry import make_game
from games.registry import register as register_game
from league.lab.comparisons.team_lineups import LineUp, LineUpKind, PlayedLineUp, Team, line_ups, play_line_up
from league.lab.comparisons.team_verdicts import (
    RoleVerdict,
    TeamComparison,
    TeamLead,
    TeamTable,
    compare_line_ups,
    verdicts_by_role,
)
from league.population.players.engines import Engines
from league.theory.statistics import Estimate, clustered_mean, student_quantile

GAME = "planted_team"
ROLES = ("guide", "chatterer", "guesser")
DEALS = 1000


@pytest.fixture(scope="module", autouse=True)
def planted():
    register_game("planted_team", PlantedTeam)
    register_game("planted_alone", PlantedAlone)


def team_of(players):
    """Return the planted team of these players, each of whom played ``blind`` before it was trained."""
    spec = make_game(GAME).spec
    places = [(GAME, seat) for seat in range(spec.seats)]
    return Team(
        spec,
        dict(zip(places, ROLES, strict=True)),
        dict(zip(places, players, strict=True)),
        dict.fromkeys(places, "scripted:blind"),
    )


def table_of(team, deals=DEALS, seed=0, **changes):
    with Engines() as engines:
        played = [play_line_up(one, team, deals, seed, engines) for one in line_ups(team, **changes)]
    return compare_line_ups(played, team.spec)


def test_the_planted_idle_role_and_the_vital_ones_are_found():
    """Without the guide or the guesser the team is right once in four times; without the chatterer nothing changes."""
    team = team_of(["scripted:optimal"] * 3)
    table = table_of(team)
    assert table.returns.mean == 1.0
    assert [one.line_up.kind for one in table.comparisons] == [LineUpKind.UNTRAINED, LineUpKind.STAND_IN] * 3
    for place, verdict in verdicts_by_role(table, team).items():
        for one in table.replacements(place):
            if place[1] == CHATTERER:
                assert verdict is RoleVerdict.IDLE
                assert one.loss.mean == 0.0
                assert -table.margin < one.loss.low <= 0.0 <= one.loss.high < table.margin
            else:
                assert verdict is RoleVerdict.VITAL
                assert table.margin < one.loss.low < 0.75 < one.loss.high


@pytest.mark.parametrize("seed", range(5))
def test_a_vital_role_is_found_on_other_deals(seed):
    team = team_of(["scripted:optimal"] * 3)
    verdicts = verdicts_by_role(table_of(team, 400, seed), team)
    assert [str(verdicts[GAME, seat]) for seat in (GUIDE, CHATTERER, GUESSER)] == ["vital", "idle", "vital"]


def test_a_role_that_spoils_the_team_is_called_harmful_and_few_deals_decide_nothing():
    """A guide who always says 0 is right once in four: an optimal one in his place earns ¾ more."""
    team = team_of(["scripted:blind", "scripted:blind", "scripted:optimal"])
    better = table_of(team, stand_ins=["scripted:optimal"])
    assert verdicts_by_role(better, team)[GAME, GUIDE] is RoleVerdict.HARMFUL
    few = table_of(team_of(["scripted:optimal"] * 3), deals=4)
    assert [one.standing for one in few.comparisons if one.line_up.role[1] == CHATTERER] == [TeamLead.OPEN] * 2
    assert {one.loss.low for one in table_of(team, deals=1).comparisons} == {None}


def test_players_who_differ_are_swapped_and_others_take_roles_apart_or_all_alone():
    players = ["scripted:optimal", "scripted:blind", "scripted:optimal"]
    team = team_of(players)
    places = list(team.roles)
    found = line_ups(team, ["random"], {places[0]: "scripted:blind"}, "scripted:optimal")
    swapped = [list(one.players.values()) for one in found if one.kind is LineUpKind.SWAPPED]
    assert swapped == [[players[1], players[0], players[2]], [players[0], players[2], players[1]]]
    apart, alone = found[-2:]
    assert (apart.words, apart.players[places[0]]) == ("guide: trained apart", "scripted:blind")
    assert alone == LineUp(LineUpKind.ALONE, "one alone", "planted_alone", {("planted_alone", 0): "scripted:optimal"})
    by_words = {
        one.line_up.words: one for one in table_of(team, apart=apart.players, alone="scripted:optimal").comparisons
    }
    assert by_words["one alone"].returns.mean == 1.0  # the same numbers, all of them seen
    assert by_words["guide and chatterer swapped"].loss.low > 0.5
    assert by_words["one alone"].standing is TeamLead.LEVEL


def test_the_loss_is_paired_and_its_interval_is_bonferronis():
    """Two comparisons: each interval is Student's for 97.5 %. The losses 0, 1, 1, 0 have mean ½ and deviation √⅓."""
    spec = make_game(GAME).spec
    line_up = LineUp(LineUpKind.STAND_IN, "", GAME, {})
    team, one, other = (
        PlayedLineUp(line_up, returns, None)
        for returns in [(1.0, 1.0, 1.0, 0.0), (1.0, 0.0, 0.0, 0.0), (1.0, 1.0, 1.0, 0.0)]
    )
    found = compare_line_ups([team, one, other], spec, margin=0.1).comparisons[0].loss
    half = student_quantile(3, 0.025) * (1 / 3) ** 0.5 / 2
    assert student_quantile(3, 0.025) == pytest.approx(4.1765, abs=1e-4)  # the tables' t of 98.75 % and 3 degrees
    assert found.mean == 0.5
    assert (found.low, found.high) == pytest.approx((max(0.5 - half, -1.0), min(0.5 + half, 1.0)))


def test_an_interval_of_another_error_and_the_usual_one():
    values = [0.0, 1.0, 1.0, 0.0, 1.0]
    usual, wide = (clustered_mean(values, range(5), (-9.0, 9.0), *error) for error in [(), (0.01,)])
    assert usual == clustered_mean(values, range(5), (-9.0, 9.0), 0.05)
    assert wide.low < usual.low < usual.high < wide.high
    flat = clustered_mean([0.0] * 100, range(100), (-1.0, 1.0), 0.01)
    assert flat.high == pytest.approx(1.0 - 0.005**0.01)


B, L, W, OPEN = TeamLead.BETTER, TeamLead.LEVEL, TeamLead.WORSE, TeamLead.OPEN


@pytest.mark.parametrize(
    ("standings", "verdict"),
    [
        ([L, B, OPEN], RoleVerdict.VITAL),
        ([W, B], RoleVerdict.VITAL),
        ([L, L], RoleVerdict.IDLE),
        ([L, OPEN], RoleVerdict.OPEN),
        ([OPEN, W, L], RoleVerdict.HARMFUL),
        ([OPEN], RoleVerdict.OPEN),
    ],
)
def test_a_verdict_is_read_off_all_intervals_of_its_role_alone(standings, verdict):
    """One interval above the margin is enough, all must lie within; another role's, in any order, say nothing."""
    team = team_of(["scripted:optimal"] * 3)
    one, other = list(team.roles)[1:]
    nothing = Estimate(0.0, None, None)

    def comparison(role, standing):
        line_up = LineUp(LineUpKind.STAND_IN, "", GAME, {}, role)
        return TeamComparison(line_up, nothing, nothing, standing, None)

    others = [comparison(other, standing) for standing in (W, B, L, OPEN)]
    rows = [comparison(one, standing) for standing in standings]
    table = TeamTable(nothing, None, 0.1, (others[0], *rows[:1], *others[1:], comparison(None, B), *rows[1:]))
    assert verdicts_by_role(table, team) == {one: verdict, other: RoleVerdict.VITAL}
