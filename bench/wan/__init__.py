"""The benchmarks on WANs in a box compare treefold with its rivals, the bound and the prediction."""
