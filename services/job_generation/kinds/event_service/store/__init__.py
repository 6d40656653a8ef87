"""Job sets and their ranges in PostgreSQL."""
