"""Jumbo jobs, and job sets that wait for others, in PostgreSQL."""
