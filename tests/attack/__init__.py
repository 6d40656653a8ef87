"""Attacks a running system: a matrix (role x VO x route x own or other's) and named attacks.

`python -m tests.attack` brings up a system of its own, attacks it by its one address, and exits with 1 if anything got
through. Read `attacks/__init__.py` to add an attack, `calls.py` to say how a new route is called.
"""
