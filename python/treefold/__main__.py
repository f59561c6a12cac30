"""`python -m treefold` is `treefold`."""

from treefold.cli import main

main()
