"""Measures the discovery of simulated networks; speed and quality, which only a few tests assert."""
