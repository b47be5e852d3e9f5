"""Play: matches between players, batched by engine, recorded as episodes."""
