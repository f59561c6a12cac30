"""Planners that need a solver: programs by HiGHS between calls of the core."""
