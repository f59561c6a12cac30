"""The commands that run in every worker."""
