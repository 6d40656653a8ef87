"""What the jumbo watchdog decides, from values alone."""
