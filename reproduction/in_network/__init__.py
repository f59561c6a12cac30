"""Reproduces the in-network paper: its figures, the trials behind them, and what its text claims."""
