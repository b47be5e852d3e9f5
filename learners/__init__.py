"""Learning: episodes become trajectories, advantages, batches and updated policies."""
