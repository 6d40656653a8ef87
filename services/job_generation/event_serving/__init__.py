"""Job sets on their way: jobs that process events, jobs that merge them, and what their ends mean."""
