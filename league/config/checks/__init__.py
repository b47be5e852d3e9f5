"""Which combinations of settings are refused, with what to set instead. May import the tables of the configuration."""
