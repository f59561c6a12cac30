"""Tools of this repository that stand on their own, beside the package."""
