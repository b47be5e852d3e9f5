"""What a run's policies are asked, by an example of each role: the prompts that their matches have."""

from games.registry import make_game
from league.config.load import load, run_roles
from league.population.models.example_requests import example_requests
from roles.prompts import messages


def test_each_role_of_a_policy_has_the_prompt_of_its_first_turn():
    config = load("pocket-returns", ["roles.policy.'kuhn_poker/second'=other", "roles.policy.'kuhn_poker/first'=main"])
    examples = example_requests(config, "other")
    assert list(examples) == ["kuhn_poker/second"]
    example = examples["kuhn_poker/second"]
    game = make_game("kuhn_poker")
    game.reset(0)
    game.apply("pass")
    assert example.legal == ("pass", "bet")
    role = run_roles(config)["kuhn_poker"][1]
    assert example.chat == messages(role, game.observe(1), ("pass", "bet"))
    assert "kuhn_poker/first" in example_requests(config, "main")


def test_an_exploiter_plays_the_roles_of_others():
    config = load("pocket-returns")
    assert example_requests(config, "main_exploiter") == example_requests(config, "main")


def test_where_free_text_is_asked_for_nothing_is_legal_alone():
    config = load("pocket-returns", ["games={debate={matches=8}}"])
    example = example_requests(config, "main")["debate/first"]
    assert example.legal == ()
    assert example.role.reply == "free"
