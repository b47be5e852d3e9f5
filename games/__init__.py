"""Rules of play: seats, legal actions, returns. Nothing here knows of prompts or models."""
