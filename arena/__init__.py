"""Play: matches between players, batched by engine and recorded as episodes.

May import games and roles. Within arena: records, errors, lm, (remote, cluster), the files here, samplers.
"""
