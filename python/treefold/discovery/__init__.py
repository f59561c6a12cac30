"""Refines a model of a network by counterexamples."""
