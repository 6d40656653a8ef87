"""Datasets and files that operators import into the built-in catalogue."""
