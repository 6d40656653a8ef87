"""SQL of rules about failed jobs, and of what they decided."""
