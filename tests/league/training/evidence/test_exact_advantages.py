"""The estimator that counts a game out: OpenSpiel's advantages at each turn, in runs, and where it is refused."""

import pyspiel
import pytest
from support.matches.kuhn import engine_with, kuhn_matches, kuhn_pocket, played, roles_for

import league
from arena.submatches import positions
from games.common.errors import UsageError
from games.registry import make_game
from league.population.players.player import Player
from league.training.evidence.exact_advantages import exact_advantages
from learners.trajectories import to_trajectories

KUHN = "kuhn_poker"
TINY = (
    "iterations=2",
    "games={kuhn_poker={matches=32}}",
    "model.hidden_size=16",
    "model.layers=1",
    "model.intermediate_size=16",
    "cold_start.steps=2",
    "evaluation.matches=0",
    "credit.rule=contribution",
    "values.estimator=exact",
)


def advantage(game, policy, cards, moves, place, seat):
    """Return Q(I, a) - V(I) at a turn: a mean over the opponent's two cards, by how likely its moves are with each."""
    sums, weight = [0.0, 0.0], 0.0
    for other in {0, 1, 2} - {cards[seat]}:
        deal = list(cards)
        deal[1 - seat] = other
        state, reach = game.new_initial_state(), 1.0
        for card in deal:
            state.apply_action(card)
        for move in moves[:place]:
            if state.current_player() != seat:
                reach *= policy.action_probabilities(state)[move]
            state.apply_action(move)
        after = state.child(moves[place])
        for at, node in enumerate((state, after)):
            sums[at] += reach * pyspiel.expected_returns(node, policy, -1, True)[seat]
        weight += reach
    return (sums[1] - sums[0]) / weight


@pytest.mark.parametrize("players", [("main", "main"), ("main", "other")])
def test_each_turn_has_openspiels_advantage_of_its_information_state(players):
    """Of the line-up that played: two models with other weights meet in both seatings."""
    models = {"main": kuhn_pocket(sharpness=3.0), "other": kuhn_pocket(seed=4, sharpness=3.0)}
    engine, roles, spec = engine_with(**models), roles_for(), make_game(KUHN).spec
    episodes = played(engine, kuhn_matches(24, players), 24, roles)
    trajectories = to_trajectories(episodes, lambda _: roles, {KUHN: 2.0})
    found = exact_advantages(KUHN, roles, engine, episodes, trajectories, 2.0)
    tables = {
        name: Player(name, spec, engine, roles, (((name, 1.0),),) * 2).tabulate().table.probabilities for name in models
    }
    game = pyspiel.load_game(KUHN)
    by_index = {episode.request.index: episode for episode in episodes}
    for trajectory, credit in zip(trajectories, found, strict=True):
        *_, last = positions(make_game(KUHN), by_index[trajectory.match])
        first, second, *moves = last.pyspiel_state().history()
        seated = {
            key: row for name in models for key, row in tables[name].items() if trajectory.players[key[0]] == name
        }
        policy = pyspiel.TabularPolicy({key: list(enumerate(row)) for (_, key), row in seated.items()})
        expected = [
            advantage(game, policy, (first, second), moves, place, trajectory.seat) / 2 for place in trajectory.order
        ]
        assert credit.advantages == pytest.approx(expected, abs=1e-9)
        for turn, place, by_reply in zip(trajectory.turns, trajectory.order, credit.reply_credits, strict=True):
            of_move = [
                advantage(game, policy, (first, second), [*moves[:place], move], place, trajectory.seat) / 2
                for move in (0, 1)
            ]
            row = seated[
                trajectory.seat, f"{(first, second)[trajectory.seat]}{''.join('pb'[move] for move in moves[:place])}"
            ]
            assert turn.trace.mask == ("pass", "bet")
            assert by_reply == pytest.approx([p * a for p, a in zip(row, of_move, strict=True)], abs=1e-9)


@pytest.mark.parametrize(
    "override",
    [
        pytest.param("values.exact.all_replies=false", marks=pytest.mark.thorough),
        "values.exact.all_replies=true",
        "values.estimator=empirical matchmaking.explore=0.5",
    ],
)
def test_a_run_that_learns_from_them_goes_on_bit_for_bit(override, tmp_path):
    """What the empirical tree remembers is part of a checkpoint."""
    config = league.load_config("pocket-returns", *TINY, *override.split())
    whole = league.train(config, tmp_path / "whole")
    league.train(config, tmp_path / "broken", watch=lambda iteration, _: iteration == 1)
    broken = league.resume(tmp_path / "broken")
    newest = [run.snapshots("main")[-1] for run in (whole, broken)]
    assert newest[0].sha256 == newest[1].sha256
    assert abs(whole.iterations()[-1]["kuhn_poker/exploitability"]) < abs(
        whole.iterations()[0]["kuhn_poker/exploitability"]
    )


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["roles.reply=free"], "chosen from the legal ones"),
        (["roles.player={'kuhn_poker/second'='random'}"], "every seat of kuhn_poker trained"),
        (["objective.magnet=0.1", "objective.magnet_rule=rewards"], "those of the magnet"),
        (["values.exact.all_replies=true", "objective.truncate=2"], "have no importance weight"),
        (
            ["values.exact.all_replies=true", "credit.contribution.outcome=0.5"],
            "credit.contribution.outcome credits the one that was drawn .* would do nothing for kuhn_poker/first",
        ),
        (["values.estimator=empirical", "roles.reply=free"], "first, second of kuhn_poker answers in free text"),
        (["values.estimator=empirical", "objective.truncate=2"], "have no importance weight.*another values.estimator"),
        (["values.estimator=empirical", "credit.contribution.outcome=0.5"], "would do nothing for kuhn_poker/first"),
        (
            ["values.estimator=empirical", "objective.magnet=0.1", "objective.magnet_rule=rewards"],
            "'empirical' .* those of the magnet",
        ),
        (["matchmaking.explore=0.5"], "replies that the policy would not.* values.estimator to empirical"),
        (
            ["matchmaking.explore=0.5", "values.estimator=empirical", "credit.rule=rae"],
            "would take them for its own",
        ),
        (["credit.rule=gae_turn"], "cannot use the turn values of the estimator 'exact'"),
    ],
)
def test_where_a_game_cannot_be_counted_out_it_is_refused(overrides, told, tmp_path):
    with pytest.raises(UsageError, match=told):
        league.train(league.load_config("pocket-returns", *TINY, *overrides), tmp_path / "run")


def test_a_game_too_large_to_be_counted_out_is_refused_before_there_is_a_run(tmp_path):
    config = league.load_config("settle", games=["hex(board_size=5)"])
    with pytest.raises(UsageError, match=r"more than 50,000 positions.*settle-returns"):
        league.train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_replies_are_credited_in_the_order_of_the_mask_they_were_drawn_under():
    """Two players with different weights, whose masks list the actions from last to first."""
    engine, roles = engine_with(a=kuhn_pocket(), b=kuhn_pocket(seed=5)), roles_for()
    episodes = played(engine, kuhn_matches(8, ("a", "b")), 8, roles)
    trajectories = to_trajectories(episodes, lambda _: roles, {KUHN: 2.0})
    found, turned = (
        exact_advantages(KUHN, roles, engine, episodes, batch, 2.0)
        for batch in (trajectories, [with_masks_reversed(one) for one in reversed(trajectories)])
    )
    for one, other in zip(found, reversed(turned), strict=True):
        assert one.advantages == other.advantages
        assert [row[::-1] for row in one.reply_credits] == [tuple(row) for row in other.reply_credits]
        assert any(row != row[::-1] for row in one.reply_credits)


def with_masks_reversed(one):
    turns = [turn._replace(trace=turn.trace._replace(mask=turn.trace.mask[::-1])) for turn in one.turns]
    return one._replace(turns=tuple(turns))
