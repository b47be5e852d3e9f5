"""What a trainer elsewhere cannot learn is refused by name, before anything is played; and other kinds of trainers."""

import pytest

from games.common.errors import UsageError
from league.config.load import load, validate
from league.training.learning import trainers
from league.training.learning.trainers import TRAINERS, TrainerKind, trainer_for

RUN = {
    "games.kuhn_poker.matches": "4",
    "model.source": "some/base",
    "roles.reply": "free",
    "roles.on_illegal": "forfeit",
    "roles.temperature": "1.0",
    "policies.main.weights": "lora",
    "objective.entropy": "0.0",
    "trainer.kind": "tinker",
}


def loaded(tmp_path, **changes):
    (tmp_path / "run.toml").write_text("iterations = 2\n")
    words = [f"{key}={value}" for key, value in (RUN | changes).items()]
    return load(str(tmp_path / "run.toml"), words)


def test_a_run_of_free_replies_and_adapters_is_taken(tmp_path):
    config = loaded(tmp_path)
    assert (config.trainer.kind, config.trainer.tinker.seconds) == ("tinker", 600.0)
    assert validate(config.model_dump(exclude_none=True)) == config


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"policies.main.weights": "full"}, r"main trains all weights\. Set policies\.main\.weights = 'lora'"),
        ({"roles.reply": "choice"}, r"kuhn_poker/first chooses, and its loss sums over all legal replies\. Set roles"),
        ({"roles.temperature": "0.7"}, r"samples at temperature 0\.7\. Set roles\.temperature = 1\.0"),
        ({"roles.top_p": "0.9"}, r"samples with top_k, top_p or min_p\. Leave them out"),
        ({"objective.entropy": "0.1"}, r"objective\.entropy is of whole distributions\. Set objective\.entropy = 0\.0"),
        ({"games.kuhn_poker.entropy": "0.1"}, r"objective\.entropy is of whole distributions"),
        ({"objective.epo": "0.1"}, r"objective\.epo is a band of the entropy"),
        ({"credit.rule": "gae_turn"}, r"kuhn_poker/first has a critic, which reads hidden"),
        ({"cold_start.own_replies": "8"}, r"cold_start\.own_replies imitates before the trainer starts"),
        ({"async_learners.processes": "each"}, r"async_learners\.processes starts its own learners"),
        ({"optimizer.processes": "2"}, r"optimizer\.processes shares updates among processes"),
        ({"optimizer.name": "adamw8bit"}, r"optimizer\.name is not the trainer's optimiser"),
        ({"policies.main.targets": '["q_proj"]'}, r"policies\.main\.targets chooses modules, but a Tinker service"),
        (
            {"policies.beats.league_role": "main_exploiter"},
            r"beats, an exploiter or partner, is reset to given weights",
        ),
    ],
)
def test_what_does_not_pass_is_refused_by_name(tmp_path, changes, said):
    with pytest.raises(UsageError, match=said) as caught:
        loaded(tmp_path, **changes)
    assert "trainer.kind = 'torch'" in str(caught.value)
    try:
        loaded(tmp_path, **changes | {"trainer.kind": "torch"})
    except UsageError as error:  # that have other reasons
        assert "trainer" not in str(error)  # noqa: PT017


def test_a_trainer_of_a_plugin_is_asked_for_trained_policies_alone(tmp_path, monkeypatch):
    asked = []
    other = {"policies.other.frozen": "true", "roles.policy": '{"kuhn_poker/second" = "other"}'}

    def make(context, policy, settings):
        asked.append((policy, settings))
        return "a trainer"

    monkeypatch.setitem(TRAINERS, "third", TrainerKind(make, description="a third"))
    config = loaded(tmp_path, **{"trainer.kind": "third", **other})

    class Context:
        pass

    context = Context()
    context.config = config
    assert trainer_for(context, "main") == "a trainer"
    assert trainer_for(context, "other") is None
    assert asked == [("main", None)]
    with pytest.raises(UsageError, match=r"trainer\.kind = 'third' trains remotely.*chooses"):
        loaded(tmp_path, **{"trainer.kind": "third", "roles.reply": "choice"})
    context.config = loaded(tmp_path, **{"trainer.kind": "torch"})
    assert trainer_for(context, "main") is None


def test_a_missing_client_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(trainers, "find_spec", lambda name: None)

    class Context:
        config = loaded(tmp_path)

    with pytest.raises(UsageError, match=r"Tinker's client is not installed.*llm-league\[tinker\]"):
        trainer_for(Context(), "main")
