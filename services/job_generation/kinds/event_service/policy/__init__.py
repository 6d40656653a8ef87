"""Decisions about job sets: their ranges, queues and jobs, and what ends of jobs mean. Pure."""
