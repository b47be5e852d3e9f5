"""Examples of each command, as they stand at the end of its help. A test reads that they parse."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "train": (
        "pocket",
        "pocket --seed 1 --set iterations=50 --set credit.rule=grpo --set matchmaking.group_size=8",
        "my.toml --run-dir runs/mine",
        "--resume --run-dir runs/mine",
    ),
    "sweep": (
        "pocket --seeds 0-4 --set credit.rule=rae,mars",
        "pocket --seeds 0-2 --set optimizer.learning_rate=1e-4,5e-4 --set iterations=50 --run-dir sweeps/rates",
        "--resume --run-dir sweeps/rates",
    ),
    "evolve": ("runs/pocket --iterations 100 --set optimizer.learning_rate=1e-4",),
    "models": ("", "get smollm2-135m"),
    "match": (
        "runs/pocket random --game kuhn_poker",
        "runs/pocket@mixture equilibrium --game kuhn_poker --matches 4000 --save matches.jsonl",
    ),
    "tournament": (
        "runs/pocket random equilibrium --game kuhn_poker --run-dir tournaments/kuhn",
        "--resume --run-dir tournaments/kuhn",
    ),
    "play": ("--game kuhn_poker --against runs/pocket --seat 1",),
    "serve": ("runs/pocket", "runs/pocket@main-000120 --port 0 --player served.toml"),
    "standings": ("runs/pocket", "runs/pocket --game kuhn_poker --matrix"),
    "exploitability": ("runs/pocket@mixture --game kuhn_poker", "random --game leduc_poker --json"),
    "exploit": ("runs/pocket --game leduc_poker --steps 200000",),
    "regret": ("always:defect random --game ipd", "runs/pocket random --game kuhn_poker --alternatives equilibrium"),
    "games": ("", "--json"),
    "presets": ("",),
    "settings": ("", "entropy", "credit.rae", "matchmaking --json"),
    "plugins": ("", "--plugin my_games"),
    "doctor": ("", "--json"),
    "docs": ("", "credit"),
    "completion": ("bash >> ~/.bashrc", "zsh >> ~/.zshrc", "fish > ~/.config/fish/completions/league.fish"),
    "board": ("runs/pocket", "runs/pocket runs/pocket-2 --port 0", "sweeps/rates"),
    "replay": ("runs/pocket", "runs/pocket --list", "matches.jsonl --match 1 --html -o match.html"),
    "push": ("runs/pocket me/kuhn-player --dry-run", "runs/pocket@main-000120 me/kuhn-player --out model --public"),
    "export": ("runs/pocket --format trl -o replies.jsonl", "runs/pocket -o matches.jsonl"),
    "import": ("matches.jsonl -o imported",),
    "report": ("runs/pocket -o report.html", "runs/pocket runs/pocket-2 -o both.html"),
}
