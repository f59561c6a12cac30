"""Draws the pictures of figures: panels of lines, and groups of stacked bars."""
