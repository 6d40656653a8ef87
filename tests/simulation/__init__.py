"""The whole system in one process on a virtual clock, by seed.

PostgreSQL is real; one transaction runs at a time. A seeded scheduler chooses what happens next: a delivery (in any
order, twice, or never), a periodic, a pilot's request (whose reply may be lost), a user's command, the death of a
service in the middle of a transaction. Invariants are checked after each step on the tasks it touched, and on
everything now and then. `python -m tests.simulation SEED` replays a seed exactly.
"""
