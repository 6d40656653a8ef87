"""SQL of gates alone: their rows, who waits at them, and the jobs of shares."""
