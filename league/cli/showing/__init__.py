"""Commands that show what is there: games, and a run's curves. May import every room of the league."""
