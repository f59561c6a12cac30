"""What is fuzzed. A target is a module with three functions.

- `corpus()` returns what cases are made from; it is called once a process.
- `make(random, corpus)` returns a case, as `random` and nothing else decides.
- `run(path)` runs the case in the file `path`, in a folder of its own, and raises a `Fault` (or anything else) if
  something is wrong.
"""
