"""The game between clusters has the values that are known of the game, and bounds what a best response gains."""

import random
from collections import Counter

import pytest

from arena.samplers.scripted import Random
from games.common.errors import NotEnumerable, UsageError
from games.registry import make_game
from league.lab.latent.embedding import ngram_vectors
from league.lab.latent.latent_game import Listening, latent_game
from league.lab.latent.space import latent_space
from league.lab.latent.utterances import utterances
from league.population.players.engines import Engines
from league.population.players.player import Player, resolve
from league.theory.exact.exploitability import exploitability, head_to_head
from roles.cards import load_roles

LABELS = {
    "kuhn": ["pass", "bet"],
    "leduc": ["fold", "call", "raise"],
    "debate": ["open 1", "open 2", "open 3", "nothing"],
}
EXACT = Listening(samples=1, members=100, seed=0)


class Opinionated(Random):
    """Has for everything that may be said in a position a probability of its own, which is known."""

    def distributions(self, requests):
        found = []
        for request in requests:
            rng = random.Random(request.observation)
            weights = [rng.random() ** 3 for _ in request.legal]
            found.append(tuple(weight / sum(weights) for weight in weights))
        return found


def player_of(game, engine=None):
    spec = make_game(game).spec
    return Player("it", spec, engine or Random(), load_roles(spec), ((("it", 1.0),),) * spec.seats)


def space_for(player, words, clusters):
    said = {
        role.name: [f"I {word}." if player.spec.name.startswith("worded") else word for word in words]
        for role in player.roles
    }
    return latent_space(said, {role.name: ngram_vectors for role in player.roles}, clusters, 0)


def latent(game, words, clusters, engine=None, how=EXACT):
    player = player_of(game, engine)
    return latent_game(player, space_for(player, words, clusters), how)


@pytest.mark.parametrize("ways", [1, 4])
def test_between_the_right_clusters_sentences_of_kuhn_poker_are_kuhn_poker(ways):
    game = latent(f"worded(kuhn_poker{f',ways={ways}' if ways != 4 else ''})", LABELS["kuhn"], 2)
    value, equilibrium = game.equilibrium()
    assert len(game.form.keys) == 12
    assert value == pytest.approx(-1 / 18, abs=1e-9)
    assert game.exploitability(equilibrium) == pytest.approx(0.0, abs=1e-9)
    assert game.exploitability(game.masses) == pytest.approx(11 / 24, abs=1e-9)  # of uniform play


def test_leduc_poker_has_its_published_values():
    game = latent("leduc_poker", LABELS["leduc"], 3)
    assert len(game.form.keys) == 936
    assert game.equilibrium()[0] == pytest.approx(-0.085606, abs=1e-6)
    assert game.exploitability(game.masses) == pytest.approx(4.747222 / 2, abs=1e-6)


def test_in_one_cluster_there_is_nothing_to_choose():
    game = latent("worded(kuhn_poker)", LABELS["kuhn"], 1)
    assert game.exploitability(game.masses) == pytest.approx(0.0, abs=1e-9)
    assert game.equilibrium()[0] == pytest.approx(1 / 8, abs=1e-9)  # the first seat's return of uniform play


@pytest.mark.parametrize(("game", "clusters"), [("leduc_poker", 2), ("leduc_poker", 3), ("kuhn_poker", 3)])
def test_its_own_masses_earn_what_the_player_earns_and_a_response_gains_no_more_than_in_the_whole_game(game, clusters):
    words = LABELS["kuhn" if "kuhn" in game else "leduc"]
    own = latent(game, words, clusters, Opinionated())
    table = player_of(game, Opinionated()).tabulate().table
    assert own.form.values(own.masses) == pytest.approx(head_to_head([table] * 2), abs=1e-9)
    gained, at_most = own.exploitability(own.masses), exploitability(table)
    if clusters == 3:  # each action has a cluster of its own
        assert gained == pytest.approx(at_most, abs=1e-9)
    else:
        assert 0.1 < gained < at_most - 0.1


def test_a_move_that_is_said_in_two_clusters_is_remembered_as_it_was_said():
    """With four clusters of eight sentences a seat has two ways to pass: its value is that of the game all the same."""
    player = player_of("worded(kuhn_poker)")
    said = {role.name: make_game("worded(kuhn_poker)").legal_actions() for role in player.roles}
    space = latent_space(said, {role.name: ngram_vectors for role in player.roles}, 4, 0)
    game = latent_game(player, space, EXACT)
    assert len(game.form.keys) > 12
    assert game.equilibrium()[0] == pytest.approx(-1 / 18, abs=1e-9)
    assert game.exploitability(game.masses) == pytest.approx(11 / 24, abs=1e-9)


def test_what_stands_for_a_cluster_is_the_likeliest_of_it():
    game = latent("leduc_poker", LABELS["leduc"], 1, Opinionated(), EXACT._replace(members=1))
    for heard in game.said:
        likeliest = max(heard.said, key=lambda utterance: utterance.share)
        assert heard.spoken == {0: ((likeliest.action, 1.0),)}


def test_words_of_ones_own_are_sampled_and_come_near_the_exact_game():
    """In the debate of a list uniform play has exploitability 0.25 and the value is 0 (``test_debate_exact``)."""
    words = "debate(boxes=3,judge=0)"
    with Engines() as engines:
        player = resolve("scripted:random", make_game(words).spec, engines)
        game = latent_game(player, space_for(player, LABELS["debate"], 4), Listening(samples=400, members=4, seed=0))
    assert len(game.form.keys) == 60
    assert game.equilibrium()[0] == pytest.approx(0.0, abs=1e-9)
    assert game.exploitability(game.masses) == pytest.approx(0.25, abs=0.03)


def test_what_was_said_once_may_be_said_again():
    words = "debate(boxes=2,judge=0)"
    with Engines() as engines:
        everything, good = (resolve(f"scripted:{who}", make_game(words).spec, engines) for who in ("random", "good"))
        space = space_for(everything, LABELS["debate"], 4)
        how = Listening(samples=64, members=4, seed=0)
        first, alone = latent_game(everything, space, how), latent_game(good, space, how)
        again = latent_game(good, space, how, first.heard)
    assert len(alone.form.keys) < len(first.form.keys) == len(again.form.keys)
    assert sum(map(len, again.form.legal)) == sum(map(len, first.form.legal))
    shown = next(iter(alone.heard))
    assert {u.reply for u in again.heard[shown].said if u.share} == {u.reply for u in alone.heard[shown].said}


def test_of_free_replies_a_legal_action_that_was_not_said_is_there_with_share_0():
    match = make_game("kuhn_poker")
    roles = [role.model_copy(update={"reply": "free"}) for role in load_roles(match.spec)]

    class Passes(Random):
        def sample(self, requests):
            return [reply._replace(text="I [pass]") for reply in super().sample(requests)]

    player = Player("it", match.spec, Passes(), tuple(roles), ((("it", 1.0),),) * 2)
    (said,) = utterances(player, [(0, match)], 8, 0)
    assert [(u.text, u.action, u.share) for u in said] == [("I [pass]", "pass", 1.0), ("[bet]", "bet", 0.0)]


def test_choices_are_exact_and_free_text_is_counted():
    match = make_game("debate(boxes=2,judge=0)")
    with Engines() as engines:
        player = resolve("scripted:random", match.spec, engines)
        (said,) = utterances(player, [(0, match)], 300, 0)
    assert Counter(u.action for u in said) == {"open 1": 1, "open 2": 1, "open nothing": 1}
    assert sum(u.share for u in said) == pytest.approx(1.0)
    assert [u.share for u in said] == pytest.approx([1 / 3] * 3, abs=0.1)


def test_what_cannot_be_solved_is_refused(monkeypatch):
    monkeypatch.setattr("league.lab.latent.latent_game.MOST_TURNS", 50)
    with pytest.raises(UsageError, match=r"latent\.clusters or latent\.members lower"):
        latent("worded(kuhn_poker)", LABELS["kuhn"], 2)
    with pytest.raises(NotEnumerable, match="does not give its chance as data"):
        latent("lookup", ["stop"], 2)
