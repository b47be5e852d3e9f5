"""Checkpoints: a run's state, everything it resumes from, and each learner's own. May import league.population."""
