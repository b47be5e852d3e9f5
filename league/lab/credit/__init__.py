"""What credit rules are worth in a game: each rule's gradient on the same matches, beside the exact one.

May import league.population.evaluation and what stands before it.
"""
