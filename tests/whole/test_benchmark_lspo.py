"""The study of LSPO: runs that are valid, held-out sentences counted, and figures as tables."""

import pytest
import tomli_w

from benchmarks.report.comparison import comparison_lines
from benchmarks.studies.language import lspo
from league.config import load as settings
from league.lab.latent.embedding import ngram_vectors
from roles.role import ReplyForm


@pytest.mark.parametrize("lesson", lspo.LESSONS, ids=lambda lesson: lesson.title)
def test_every_lesson_is_of_one_game_with_its_clusters(lesson, tmp_path):
    (tmp_path / "study.toml").write_text(tomli_w.dumps(lspo.settings_of(lesson)))
    config = settings.load(str(tmp_path / "study.toml"), [])
    assert list(config.games) == [lesson.game]
    assert (config.latent.clusters, config.latent.rounds) == (lesson.clusters, lspo.ROUNDS)
    assert (config.roles.reply == ReplyForm.FREE) == lesson.title.endswith("free replies")


def test_held_out_sentences_are_counted_by_the_cluster_of_their_move():
    assert lspo.held_out_share(ngram_vectors, 0) == 1.0
    assert lspo.held_out_share(lambda texts: ngram_vectors(["the same"] * len(texts)), 0) == 0.5

    def by_first_word(texts):
        return ngram_vectors(["mine" if text.startswith("I ") else "other" for text in texts])

    # Of the four sentences that are seen of a move one begins with "I", of the four that are held out two do.
    assert lspo.held_out_share(by_first_word, 0) == 0.5


def test_figures_become_a_table_for_each_game(tmp_path, monkeypatch):
    one = {"before": 0.4, "figure": 0.1, "value": 0.0}
    known = one | {"whole_before": 0.4, "whole": 0.2, "paraphrases": 1.0}

    def measured(configs, seeds, *_):
        return {
            (name, seed): dict.fromkeys(lspo.EMBEDDINGS, known if "sentences" in name else one)
            for name in configs
            for seed in seeds
        }

    monkeypatch.setattr(lspo, "measure_runs", measured)
    lines = comparison_lines(lspo.measure_study("lspo", [0, 1], 1, tmp_path)["tables"])
    after = [line for line in lines if line.startswith("| after 2 rounds | 0.100 (0.100 to 0.100)")]
    assert len(after) == 6
    assert after[0].endswith("| 0.000 | 0.200 | 1.000 |")
    assert after[2].endswith("| 0.000 | – | – |")
    assert next(line for line in lines if line.startswith("| before")).endswith("| – | – | 0.400 | – |")
