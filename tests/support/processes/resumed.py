"""Kinds of runs that are killed and resumed, as what each has beside ``TINY``."""

from __future__ import annotations

VARIANTS = {
    "plain": "",
    "games that are judged": """
games."sums(digits={1,9},base=2)".matches = 32
curriculum = { matches = 8, active = 2 }
matchmaking.group_size = 4
""",
    "magnet, PFSP, three games": """
games.tiny_hanabi.matches = 16
games.tic_tac_toe = { matches = 8, every = 2 }
objective = { magnet = 0.1, magnet_every = 2 }
matchmaking = { self_play = 0.4, fictitious = 0.3, pfsp = 0.3 }
evaluation.mixture = "nash"
loaded_snapshots = 1
""",
    "free replies": """
roles = { reply = "free", on_illegal = "retry", retries = 1, max_reply_tokens = 3 }
alarms.stop = []
optimizer.inner_steps = 1
evaluation.exact = false
credit = { rae = { fold = "trajectory" } }
""",
    "two policies": """
roles.policy = { "kuhn_poker/first" = "a", "kuhn_poker/second" = "b" }
optimizer = { weight_decay = 0.1 }
""",
    "policies of their own pace": """
roles.policy = { "kuhn_poker/first" = "a", "kuhn_poker/second" = "b" }
policies = { a = { every = 3, inner_steps = 1 }, b = { matches = 32, learning_rate = 1e-3 } }
credit = { rule = "grpo", rules = { "kuhn_poker/second" = "rae" } }
matchmaking.group_size = 4
objective = { name = "gspo", normalisation = "role_mean", kl_reference = 0.1, epo = 0.1 }
""",
    "estimators of turn values": """
games."tiny_hanabi".matches = 16
credit = { rule = "contribution", rules = { "kuhn_poker/first" = "gae_turn", "tiny_hanabi/responder" = "gae_turn" } }
[values]
estimator = "progress"
archer.matches = 200
continuations.count = 2
[values.estimators]
"kuhn_poker/first" = "archer"
"kuhn_poker/second" = "preferences"
"tiny_hanabi/responder" = "continuations"
""",
    "a critic of all seats, alternatives, predictions": """
games."tiny_hanabi".matches = 16
credit = { rule = "gae_turn", rules = { "tiny_hanabi/signaller" = "contribution" } }
policies.main.every = 2
critic.sees = ["seats"]
prediction.replies = { weight = 0.1, weight_end = 0.05 }
[values]
alternatives = { count = 2, said = 2 }
[values.estimators]
"tiny_hanabi/signaller" = "alternatives"
""",
    "exploiters": """
policies = { probe = { league_role = "main_exploiter" }, rover = { league_role = "league_exploiter" } }
exploiters = { freeze_from = 1, freeze_after = 2, league_reset = 0.5 }
matchmaking = { self_play = 0.35, fictitious = 0, pfsp = 0.5, verification = 0.15, guests = ["equilibrium"], keep = 2 }
evaluation.mixture = "nash"
evaluation.gate = 0.5
evaluation.pairing = "round_robin"
""",
    "joint PSRO": """
roles.policy = { "kuhn_poker/first" = "a", "kuhn_poker/second" = "b" }
matchmaking = { self_play = 0, fictitious = 0, jpsro = 1, jpsro_solver = "mgce", response_from = "best" }
evaluation.mixture = "prd"
""",
    "policies that take turns": """
roles.policy = { "kuhn_poker/first" = "a", "kuhn_poker/second" = "b" }
alternate = 2
""",
    "matches that open matches": """
games."lookup_chain(people=6,relations=2)".matches = 64
roles.policy = { "lookup(people=6,relations=2)/worker" = "sub" }
policies = { main = { every = 2 } }
credit = { rule = "rae", rules = { "lookup_chain(people=6,relations=2)/planner" = "grpo" } }
matchmaking.group_size = 4
evaluation.anchors = ["random"]
""",
    "trees of replies, preferences": """
games.relay_arithmetic.matches = 32
policies = { b = { objective = "dpo", every = 2 }, c = { objective = "dpo", weights = "lora" } }
matchmaking.tree = 2
[roles.policy]
"relay_arithmetic/generator" = "a"
"relay_arithmetic/verifier" = "b"
"relay_arithmetic/refiner" = "c"
[credit.rules]
"relay_arithmetic/generator" = "malt"
"relay_arithmetic/verifier" = "malt"
"relay_arithmetic/refiner" = "malt"
""",
    "matches with forks": """
credit.rule = "mars"
branching = { rule = "entropy", replies = 240, width = 2 }
""",
    "stored starts": """
games.tic_tac_toe = { matches = 16, every = 2 }
matchmaking = { self_play = 0.5, fictitious = 0.5, group_size = 4 }
credit.rule = "grpo"
starts = { rule = "learnability", size = 24 }
""",
    "starts in the middle of matches that open others": """
games.lookup_chain.matches = 8
matchmaking = { self_play = 1.0, fictitious = 0.0, group_size = 2 }
credit.rule = "grpo"
starts = { rule = "uniform", size = 48, middles = 4, unplayed = 1.0 }
""",
    "an expert's matches from their end": """
starts = { rule = "backward", size = 64, expert = "random", mastered = 0.3 }
""",
    "written tasks": """
games."propose_sums(base=3,form=1,attempts=4)".matches = 4
roles.policy = { "propose_sums(base=3,form=1,attempts=4)/proposer" = "author", "kuhn_poker/first" = "main" }
matchmaking = { self_play = 1.0, fictitious = 0.0, group_size = 4 }
credit.rule = "grpo"
starts = { rule = "uniform", size = 24 }
""",
    "roles that are given away": """
games."judged_arithmetic(judge=1)".matches = 16
roles.policy = { "judged_arithmetic(judge=1)/evaluator" = "evaluator" }
roles.player = { "judged_arithmetic(judge=1)/judge" = "scripted:poor", "kuhn_poker/second" = "equilibrium" }
matchmaking = { self_play = 0.4, fictitious = 0.3, pfsp = 0.3 }
evaluation.gate = 0.5
""",
    "seats that swap": """
games.pair_arithmetic.matches = 16
roles.policy = { "pair_arithmetic/pioneer" = "a", "pair_arithmetic/observer" = "b" }
policies.b.every = 3
credit.rules = { "pair_arithmetic/pioneer" = "cory", "pair_arithmetic/observer" = "cory" }
matchmaking = { self_play = 1.0, fictitious = 0.0, group_size = 4, swap_every = 2 }
""",
}
