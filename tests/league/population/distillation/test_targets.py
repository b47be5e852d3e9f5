"""What a mixture says in each situation: against sums over all histories, and against the table of the mixture."""

import math
from dataclasses import replace

import pyspiel
import pytest

from arena.records import Reply
from games.registry import make_game
from league.config import RolesConfig
from league.config.load import seat_roles
from league.population.distillation.targets import OFF_PATH, exact_targets, reach, sampled_targets
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.theory.exact.exploitability import exact_form, mixture, tabulate


def table_of(game, bet):
    """Return a table that takes the last legal action with a probability that depends on the information state."""

    def distributions(positions):
        answers = []
        for seat, position in positions:
            count = len(position.legal_ids())
            share = (bet + 0.07 * seat + 0.01 * len(position.observe(seat))) % 0.9 + 0.05
            answers.append([(1 - share) / (count - 1)] * (count - 1) + [share])
        return answers

    return tabulate(game, distributions)


def reach_by_histories(game, table):
    """Return the chance of coming to each information state, by walking OpenSpiel's tree."""
    found = {}

    def walk(state, own, other):  # by seat: its own plan; the others' times chance, by their own play and uniformly
        if state.is_terminal():
            return
        if state.is_chance_node():
            for action, chance in state.chance_outcomes():
                walk(state.child(action), own, [[value * chance for value in row] for row in other])
            return
        seat = state.current_player()
        key = (seat, state.information_state_string(seat))
        weight = own[seat] * ((1 - OFF_PATH) * other[seat][0] + OFF_PATH * other[seat][1])
        found[key] = found.get(key, 0.0) + weight
        legal = state.legal_actions()
        for action, share in zip(legal, table.probabilities[key], strict=True):
            child_own = [value * (share if player == seat else 1.0) for player, value in enumerate(own)]
            child_other = [
                row if player == seat else [row[0] * share, row[1] / len(legal)] for player, row in enumerate(other)
            ]
            walk(state.child(action), child_own, child_other)

    game_of = pyspiel.load_game(game)
    seats = game_of.num_players()
    walk(game_of.new_initial_state(), [1.0] * seats, [[1.0, 1.0]] * seats)
    return found


@pytest.mark.parametrize("game", ["kuhn_poker", "kuhn_poker(players=3)", "leduc_poker"])
def test_a_situation_weighs_as_likely_as_it_is_against_the_mixture_and_against_uniform_play(game):
    table, form = table_of(game, 0.3), exact_form(game)
    expected = reach_by_histories(game, table)
    found = reach(form, [table.probabilities[key] for key in form.keys])
    assert dict(zip(form.keys, found, strict=True)) == pytest.approx(expected, abs=1e-12)


def scripted_mixture(weights):
    """Return Kuhn poker's players that always bet, always pass or play at random, as a mixture."""
    spec = make_game("kuhn_poker").spec
    with Engines() as engines:
        members = [resolve(name, spec, engines) for name in ("always:bet", "always:pass", "random")]
    drawn = tuple(zip([member.label for member in members], weights, strict=True))
    others = tuple((member.label, Answers(member.label)) for member in members)
    return replace(members[2], members=(drawn, drawn), others=others), [m.tabulate().table for m in members]


class Answers:
    """Bets, passes or plays at random, and says with what probabilities."""

    def __init__(self, name):
        self.name = name

    def distributions(self, requests):
        rows = {"always:bet": {"bet": 1.0, "pass": 0.0}, "always:pass": {"bet": 0.0, "pass": 1.0}}
        row = rows.get(self.name, {"bet": 0.5, "pass": 0.5})
        return [tuple(row[action] for action in request.legal) for request in requests]

    def sample(self, requests):
        return [Reply(request.rng.choices(request.legal, self.distributions([request])[0])[0]) for request in requests]


def test_the_targets_of_play_are_those_of_the_table():
    """In the first seat's second decision whoever always bets does not come; the others count by who passed before."""
    weights = [0.5, 0.3, 0.2]
    player, tables = scripted_mixture(weights)
    mixed = mixture(tables, weights)
    exact = {(t.chat[-1]["content"], t.legal): t for t in exact_targets(player, mixed)}
    played = {(t.chat[-1]["content"], t.legal): t for t in sampled_targets(player, 400, 0)}
    assert math.fsum(t.weight for t in exact.values()) == pytest.approx(1.0)
    assert math.fsum(t.weight for t in played.values()) == pytest.approx(1.0)
    assert set(played) == set(exact)
    assert len(exact) == 12
    for key, target in played.items():
        assert target.probabilities == pytest.approx(exact[key].probabilities, abs=1e-12)
        assert target.entropy == pytest.approx(exact[key].entropy, abs=1e-12)
    called = 0.2 * 0.5 * 0.5 / (0.3 + 0.2 * 0.5)  # passed first, and bets when it is bet: the random one of the two
    second_decision = [table for key, table in mixed.probabilities.items() if key[1].endswith("pb") and key[0] == 0]
    assert all(row[1] == pytest.approx(called) for row in second_decision)
    assert len(second_decision) == 3


@pytest.mark.parametrize("played", [False, True])
def test_free_targets_are_the_choices_of_the_table_or_of_play(played):
    """By situation, weights are the choice's weight times its shares, and they cost at least the choice's entropy."""
    weights = [0.5, 0.3, 0.2]
    player, tables = scripted_mixture(weights)
    student = replace(player, roles=seat_roles(RolesConfig(reply="free", temperature=0.7), player.spec))
    if played:
        choices, free = sampled_targets(player, 200, 0), sampled_targets(player, 200, 0, student)
    else:
        table = mixture(tables, weights)
        choices, free = exact_targets(player, table), exact_targets(student, table)
    wanted = {
        (choice.chat[-1]["content"].partition("\nLegal")[0], f"[{action}]"): (choice.weight * share, -math.log(share))
        for choice in choices
        for action, share in zip(choice.legal, choice.probabilities, strict=True)
        if share
    }
    found = {(one.chat[-1]["content"].partition("\nLegal")[0], one.reply): (one.weight, one.entropy) for one in free}
    assert found.keys() == wanted.keys()
    for key, pair in found.items():
        assert pair == pytest.approx(wanted[key], abs=1e-9)
    assert all("[action]" in one.chat[0]["content"] and one.legal == () and one.temperature == 0.7 for one in free)
    entropy = math.fsum(one.weight * one.entropy for one in choices)
    assert math.fsum(one.weight * one.entropy for one in free) == pytest.approx(entropy, abs=1e-9)
