"""Runs Orrery on one machine (`deploy.local`) or in containers (`docker/`), with server settings."""
