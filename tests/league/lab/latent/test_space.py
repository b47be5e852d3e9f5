"""Clusters of utterances: planted ones are found, and an unseen paraphrase falls with its fellows."""

import numpy as np
import pytest

from games.wrappers.worded import SENTENCES, sentences
from league.lab.latent.embedding import ngram_vectors, state_vectors
from league.lab.latent.space import k_means, latent_space, nearest

# Phrases of the project's talk games, each line said in one sense; the last of a line is held out.
NEGOTIATION = (
    ("I offer 2 apples for 1 pear", "You get 2 apples, I get 1 pear", "2 apples of mine for your 1 pear"),
    ("I accept", "Accepted", "I accept this offer"),
    ("I leave", "No, I am leaving", "Then I leave"),
)
DEBATE = (
    ("I open box 1", "Let me open box 1", "Box 1 shall be opened now"),
    ("I open box 2", "Now to box 2: I open it", "I will open box 2"),
    ("I open nothing", "Nothing to open", "There is nothing that I open"),
)
ACCUSATIONS = (
    ("I suspect bob", "bob is suspicious", "My suspect is bob"),
    ("I suspect carol", "carol is suspicious", "My suspect is carol"),
    ("I know nothing", "Nothing is known to me", "Nothing that I know"),
)


def space_of(texts, clusters, embed=ngram_vectors, seed=0):
    return latent_space({"seat": texts}, {"seat": embed}, clusters, seed)


def test_k_means_finds_the_centres_of_planted_clusters():
    rng = np.random.default_rng(0)
    planted = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])
    points = np.concatenate([centre + 0.1 * rng.standard_normal((25, 2)) for centre in planted])
    for seed in range(5):
        assert k_means(points, 4, seed) == pytest.approx(planted, abs=0.1)


def test_k_means_has_the_least_squared_distance_there_is():
    """Of the points 0, 1, 5, 6, 20 in three clusters the best are {0, 1}, {5, 6}, {20}: a distance of 1."""
    points = np.array([[0.0], [1.0], [5.0], [6.0], [20.0]])
    for seed in range(5):
        assert k_means(points, 3, seed).ravel().tolist() == [0.5, 5.5, 20.0]


def test_there_are_no_more_clusters_than_different_points():
    points = np.array([[1.0], [1.0], [3.0], [1.0]])
    assert k_means(points, 4, 0).ravel().tolist() == [1.0, 3.0]
    assert k_means(points, 1, 0).ravel().tolist() == [1.5]


def test_of_equally_near_centres_the_first_counts():
    assert nearest(np.array([[1.0]]), np.array([[0.0], [2.0]])).tolist() == [0]


def test_equal_seeds_give_equal_centres():
    points = np.random.default_rng(1).standard_normal((40, 3))
    assert (k_means(points, 5, 7) == k_means(points, 5, 7)).all()


@pytest.mark.parametrize("phrases", [NEGOTIATION, DEBATE, ACCUSATIONS])
@pytest.mark.parametrize("seed", range(3))
def test_the_cluster_of_an_unseen_paraphrase_is_that_of_its_fellows(phrases, seed):
    seen = [text for meaning in phrases for text in meaning[:-1]]
    space = space_of(seen, len(phrases), seed=seed)
    labels = [space.clusters("seat", meaning[:-1]) for meaning in phrases]
    assert all(len(set(meaning)) == 1 for meaning in labels)
    assert len({meaning[0] for meaning in labels}) == len(phrases)
    for meaning, fellows in zip(phrases, labels, strict=True):
        assert space.clusters("seat", [meaning[-1]]) == fellows[:1]


@pytest.mark.parametrize("actions", [("pass", "bet"), ("fold", "call", "raise"), ("open 1", "open 2", "open nothing")])
@pytest.mark.parametrize("held_out", range(len(SENTENCES)))
def test_whichever_sentence_is_held_out_it_falls_with_its_action(actions, held_out):
    said = [sentences(action, len(SENTENCES)) for action in actions]
    seen = [text for meaning in said for way, text in enumerate(meaning) if way != held_out]
    space = space_of(seen, len(actions))
    labels = [space.clusters("seat", meaning) for meaning in said]
    assert [len(set(meaning)) for meaning in labels] == [1] * len(actions)
    assert len({meaning[0] for meaning in labels}) == len(actions)


def test_a_long_word_weighs_no_more_than_a_short_one_and_how_it_is_said_weighs_nothing():
    short, long, both, phrased = ngram_vectors(["go", "extraordinarily", "go extraordinarily", "Well, I will go!"])
    assert both @ short == pytest.approx(both @ long, abs=0.05)
    assert phrased == pytest.approx(short)
    assert not ngram_vectors(["", "I will"]).any()


def test_typical_utterances_are_the_nearest_to_their_centre():
    texts = ["bet", "bet bet", "bet high", "pass", "pass low", "pass"]
    space = space_of(texts, 2)
    typical = space.typical("seat", sorted(set(texts)), 2)
    by_label = {space.clusters("seat", [found[0]])[0]: found for found in typical}
    assert sorted(by_label) == [0, 1]
    assert {found[0] for found in typical} == {"bet", "pass"}


def test_states_of_a_model_are_the_same_whatever_is_asked_beside(lm):
    texts = ["I bet.", "I pass.", "Let it be bet then."]
    together, alone = state_vectors(lm, texts), [state_vectors(lm, [text])[0] for text in texts]
    assert together == pytest.approx(np.array(alone), abs=1e-5)
    assert np.linalg.norm(together, axis=1) == pytest.approx(1.0)
    space = space_of(texts, 3, lambda said: state_vectors(lm, said))
    assert len(set(space.clusters("seat", texts))) == 3
