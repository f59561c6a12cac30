"""The targets of fuzzing. A target is a module with three functions.

- `corpus()` returns the material for cases; it is called once in each process.
- `make(random, corpus)` returns a case, which depends only on `random` and the corpus.
- `run(path)` runs the case in the file `path`, in its own folder, and raises a `Fault` (or anything else) if treefold
  fails.
"""
