"""The manual: `python -m tools.manual` gathers its pages from `docs/` and the code, and `make docs` builds the site."""
