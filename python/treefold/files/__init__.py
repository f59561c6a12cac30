"""Reads and writes files of networks, plans and models, and makes errors that name the file."""
