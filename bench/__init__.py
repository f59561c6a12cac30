"""The benchmarks measure speed, which no test asserts."""
