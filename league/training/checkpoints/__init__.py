"""What a run resumes from: its state, checkpoints, and each learner's own. May import league.population."""
