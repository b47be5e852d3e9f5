"""The parsers of the commands, in groups. May import league.cli.parser."""
