"""`treefold run`: it runs collectives on real vectors, verifies every result, and measures the time."""
