"""Reproduces the MTree paper: its figures, the trials behind them, and what its text claims."""
