"""Commands that play matches between players. May import every room of the league."""
