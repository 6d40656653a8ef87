"""The checks of job brokerage alone.

Those that say whether a queue could ever run some work are in `shared.brokerage.filters`, with the ranges of the
numbers of all checks.
"""
