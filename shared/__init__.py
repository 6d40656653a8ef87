"""Contracts and plumbing used by every service; imports nothing from ``services``."""
