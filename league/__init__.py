"""Who meets whom, and is it getting better: population, matchmaking, payoffs, ratings, the loop."""
