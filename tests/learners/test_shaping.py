"""What beliefs pay: sums known in closed form, nothing for babble, and best responses that a potential leaves alone."""

import itertools
from math import log2, prod

import pytest

from arena.records import Belief, EndReason, Episode, MatchRequest, Turn
from arena.samplers.scripted import Script
from arena.scheduler import play
from games.common.seeds import derive_seed
from games.registry import make_game
from learners.beliefs import LEAST, bits, changes
from learners.shaping import Shaping, gain_rewards, shaping_rewards, speaking_rewards
from learners.trajectories import to_trajectories
from roles.cards import load_roles
from roles.probes import Probe

LISTED, BLIND = "hidden_roles(form=1)", "hidden_roles(sight=0,form=1)"


def played(game, script, count):
    seats = make_game(game).spec.seats
    requests = [
        MatchRequest(i, game, derive_seed(1, i, "deal"), derive_seed(1, i, "sample"), ("a",) * seats, (True,) * seats)
        for i in range(count)
    ]
    roles = load_roles(make_game(game).spec, probes=True)
    episodes = play(requests, roles_of=lambda _: roles, engine_of=lambda _: Script(script), make_game=make_game)
    return episodes, list({probe.name: probe for role in roles for probe in role.probes}.values())


def test_information_gains_of_a_match_are_final_minus_initial():
    checked = 0
    for episode in played(LISTED, "good", 40)[0]:
        for seat in range(1, 5):
            mine = [one for one in episode.beliefs if one.seat == seat]
            if any(turn.seat == seat for turn in episode.turns):
                gained = sum(gain_rewards(episode, seat).values())
                assert abs(gained - (bits(mine[-1].in_truth) - bits(mine[0].in_truth))) < 1e-9
                checked += abs(gained) > 0.1
    assert checked > 50


def test_gains_belong_to_the_seats_last_turn_before():
    turns = [turn(0), turn(1), turn(0)]
    episode = an_episode(turns, {1: (0.25, 0.5, 0.5, 0.125)})
    assert gain_rewards(episode, 1) == pytest.approx({1: 1.0 + 0.0 - 2.0})
    episode = an_episode(turns, {0: (0.25, 0.5, 0.5, 1.0)})
    assert gain_rewards(episode, 0) == pytest.approx({0: 1.0, 2: 1.0})


def test_gains_are_means_over_the_probes_of_the_seat_alone():
    """Two probes of seat 0 and one of seat 1: 2 bits and 0 come to 1, and then 1 and -1 to 0."""
    turns = [turn(0), turn(1), turn(0)]
    wolf = an_episode(turns, {0: (0.125, 0.25, 0.5, 1.0), 1: (0.5, 0.25, 0.5, 1.0)})
    seer = an_episode(turns, {0: (0.5, 0.5, 0.5, 0.25)}).beliefs
    episode = wolf._replace(beliefs=(*[one._replace(probe="seer") for one in seer], *wolf.beliefs))
    assert gain_rewards(episode, 0) == pytest.approx({0: 1.0, 2: 0.0})
    assert gain_rewards(episode, 1) == pytest.approx({1: 2.0 - 1.0})


def test_potentials_are_differences_between_a_seats_turns_and_nothing_at_the_end():
    """The mean belief of the others is 0.2, 0.25 and 0.5 before seat 0's turns; seat 1's one hearer has 0.6."""
    turns = [turn(0), turn(1), turn(0), turn(2), turn(0)]
    episode = an_episode(turns, {2: (0.2, 0.6, 0.1, 0.1, 0.5, 1.0), 1: (0.2, 0.4, 0.4, 0.4, 0.5, 1.0)})
    potential = {"speaking_potential": True, "gain_potential": True}
    speaking = shaping_rewards(episode, [Shaping(speaking=2.0, **potential)] + [Shaping()] * 2, [PROBE])
    assert speaking == pytest.approx((0.1, 0.0, 0.5, 0.0, -1.0))
    gains = shaping_rewards(episode, [Shaping(), Shaping(-1.0, 3.0, **potential), Shaping(gain=1.0)], [PROBE])
    assert gains[1] == pytest.approx(0.6 - 3.0 * log2(0.4))
    assert gains[3] == pytest.approx(log2(1.0) - log2(0.2))


def test_speaking_is_paid_the_change_in_the_mean_of_the_others():
    turns = [turn(0, "I suspect Ann"), turn(1, "I suspect Bob"), turn(0, "vote Ann")]
    episode = an_episode(turns, {1: (0.2, 0.4, 0.4, 1.0), 2: (0.2, 0.6, 0.1, 1.0)})
    assert speaking_rewards(episode, 0, [PROBE]) == pytest.approx({0: 0.3})
    assert speaking_rewards(episode, 1, [PROBE]) == pytest.approx({1: -0.5})
    shaped = shaping_rewards(episode, [Shaping(speaking=2.0), Shaping(speaking=-1.0), Shaping()], [PROBE])
    assert shaped == pytest.approx((0.6, 0.5, 0.0))


def test_words_that_say_nothing_of_the_state_earn_exactly_nothing():
    """Without clues a Bayesian makes nothing of claims, whoever makes them."""
    spoke = 0
    for script in ("good", "bayes"):
        episodes, probes = played(BLIND, script, 20)
        for episode in episodes:
            for seat in range(5):
                rewards = speaking_rewards(episode, seat, probes)
                assert all(reward == 0.0 for reward in rewards.values())
                spoke += len(rewards)
    assert spoke > 100


def test_silence_and_votes_are_not_paid_for():
    for episode in played(LISTED, "good", 10)[0]:
        for seat in range(5):
            said = speaking_rewards(episode, seat, [PROBE])
            assert all(episode.turns[place].action.startswith("I suspect ") for place in said)


def test_an_illegal_reply_changed_nothing_and_the_legal_one_after_it_did():
    turns = [turn(0, None), turn(0, "I suspect Ann")]
    episode = an_episode(turns, {1: (0.2, None, 0.4)})
    assert [(change.turn, change.before, change.after) for change in changes(episode)] == [(1, 0.2, 0.4)]


def test_nothing_is_said_of_a_change_between_two_truths():
    first, second = (
        Belief("wolf", 1, after, "", ("Ann", "Bob"), (who,), (0.5, 0.5)) for after, who in enumerate(("Ann", "Bob"))
    )
    episode = an_episode([turn(0)], {})._replace(beliefs=(first, second))
    assert changes(episode) == []


def test_bits_have_a_floor():
    assert bits(0.0) == log2(LEAST) == -20.0


def test_what_beliefs_pay_is_in_the_trajectories_and_not_in_the_returns():
    episodes, probes = played(LISTED, "good", 3)
    roles = load_roles(make_game(LISTED).spec)
    for episode in episodes:
        shaping = shaping_rewards(episode, [Shaping(speaking=0.5, gain=0.1)] * 5, probes)
        shaped = episode._replace(shaping=shaping)
        assert shaped.returns == episode.returns
        plain = to_trajectories([episode], lambda _: roles, {LISTED: 1.0})
        for before, after in zip(plain, to_trajectories([shaped], lambda _: roles, {LISTED: 1.0}), strict=True):
            mine = [paid for paid, one in zip(shaping, episode.turns, strict=True) if one.seat == before.seat]
            assert after.rewards == pytest.approx([r + s for r, s in zip(before.rewards, mine, strict=True)])
            assert after.match_return == pytest.approx(before.match_return + sum(mine))
            assert sum(after.rewards) == pytest.approx(after.match_return)


def test_without_weights_there_is_no_shaping():
    episodes, probes = played(LISTED, "good", 1)
    assert shaping_rewards(episodes[0], [Shaping()] * 5, probes) == ()


PROBE = Probe(name="wolf", question="Who?", speech=("I suspect ",))


def turn(seat, action="vote Ann"):
    return Turn(seat, f"seat {seat}", "a", "", (), action or "?", action, 0.0, None)


def an_episode(turns, beliefs):
    """Return a match; ``beliefs`` are probabilities of the truth by seat and position, None: not asked there."""
    request = MatchRequest(0, LISTED, 0, 0, ("a",) * 3, (True,) * 3)
    asked = [
        Belief("wolf", seat, after, "", ("Ann", "Bob"), ("Ann",), (p, 1 - p))
        for seat, series in beliefs.items()
        for after, p in enumerate(series)
        if p is not None
    ]
    return Episode(request, tuple(turns), (0.0,) * 3, EndReason.FINISHED, beliefs=tuple(asked))


# Best responses in a small game, counted out: one sender who sees a state, one receiver who hears one of two words, in
# two rounds with a state each. The receiver's belief is Bayes' rule against a sender that it takes for granted.
GAME = "signalling(states=2,words=2,rounds=2,form=1)"
STATES, SAYS = ("sun", "tree"), ("bem", "dax")
TAKEN_FOR_GRANTED = {("sun", "bem"): 0.9, ("sun", "dax"): 0.1, ("tree", "bem"): 0.3, ("tree", "dax"): 0.7}


def belief_in(state, word):
    if not word:
        return 0.5
    return TAKEN_FOR_GRANTED[state, word] / sum(TAKEN_FOR_GRANTED[other, word] for other in STATES)


def outcome(states, send, choose, shapings):
    """Return the seats' returns of one deal with rewards for beliefs; ``send`` and ``choose`` by what is seen."""
    turns, beliefs, right, heard = [], [], 0.0, []
    after = 0
    for number, state in enumerate(states):

        def ask(word, after=0, state=state):
            shares = tuple(belief_in(one, word) for one in STATES)
            beliefs.append(Belief("thing", 1, after, "", STATES, (state,), shares))

        ask("", after)
        word = send[number, state]
        turns.append(Turn(0, "sender", "a", "", SAYS, word, word, 0.0, None))
        after += 1
        ask(word, after)
        choice = choose[number, word]
        paid = float(choice == state)
        right += paid
        turns.append(Turn(1, "receiver", "a", "", STATES, choice, choice, paid, None))
        turns[-2] = turns[-2]._replace(reward=paid)
        heard.append(word)
        after += 1
    beliefs.append(
        Belief("thing", 1, after, "", STATES, (states[-1],), tuple(float(one == states[-1]) for one in STATES))
    )
    request = MatchRequest(0, GAME, 0, 0, ("a", "a"), (True, True))
    episode = Episode(request, tuple(turns), (right, right), EndReason.FINISHED, beliefs=tuple(beliefs))
    probe = Probe(name="thing", question="?", asked=("receiver",), speech=SAYS)
    episode = episode._replace(shaping=shaping_rewards(episode, shapings, [probe]))
    roles = load_roles(make_game(GAME).spec)
    return [t.match_return for t in to_trajectories([episode], lambda _: roles, {GAME: 1.0})]


SENDERS = [
    dict(zip([(n, s) for n in (0, 1) for s in STATES], words, strict=True))
    for words in itertools.product(SAYS, repeat=4)
]
RECEIVERS = [
    dict(zip([(n, w) for n in (0, 1) for w in SAYS], things, strict=True))
    for things in itertools.product(STATES, repeat=4)
]


def best_responses(shapings):
    """Return the sets of best responses of both seats to each pure strategy of the other, by brute force."""
    deals = list(itertools.product(STATES, repeat=2))
    payoffs = {
        (i, j): [
            sum(values) / len(deals)
            for values in zip(*(outcome(deal, send, choose, shapings) for deal in deals), strict=True)
        ]
        for i, send in enumerate(SENDERS)
        for j, choose in enumerate(RECEIVERS)
    }
    answers = []
    for seat, (mine, theirs) in enumerate(((SENDERS, RECEIVERS), (RECEIVERS, SENDERS))):
        for other in range(len(theirs)):
            values = [payoffs[(own, other) if seat == 0 else (other, own)][seat] for own in range(len(mine))]
            answers.append({own for own, value in enumerate(values) if value > max(values) - 1e-9})
    return answers


def test_a_potential_leaves_the_exact_best_responses_of_a_small_game_alone():
    assert prod((len(SENDERS), len(RECEIVERS))) == 256
    plain = best_responses([Shaping(), Shaping()])
    potential = Shaping(3.0, 2.0, speaking_potential=True, gain_potential=True)
    assert best_responses([potential, potential]) == plain
    assert best_responses([Shaping(-3.0, speaking_potential=True)] * 2) == plain
    assert best_responses([Shaping(3.0), Shaping()]) != plain, "paid outright, a sender says what is believed"
