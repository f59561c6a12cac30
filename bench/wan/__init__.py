"""Benchmarks on WANs in a box: treefold and its rivals, beside the bound and the prediction."""
