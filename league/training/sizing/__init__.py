"""Whether a run fits the GPUs that it is given, how long an iteration takes, and which setting mends what is wrong.

May import population and everything below it; a model's formulas are those of ``arena.roofline``.
"""
