"""Words: what a seat is told, how its reply is read, and what an illegal reply costs."""
