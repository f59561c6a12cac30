"""What is planned with the help of a solver, between calls of the core."""
