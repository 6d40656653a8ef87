"""The figures of `make bench`, each beside the machine's own limit measured in the same run.

One program for each figure, `bench_<what>.py`, run as a module of its own; what it prints is the report.
"""
