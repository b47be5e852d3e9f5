"""Commands that train: a run, and one that continues its population. May import every room of the league."""
