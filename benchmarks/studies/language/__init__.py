"""Studies of models that speak: wordings, transfer, injected words, and learning to talk. May import all packages."""
