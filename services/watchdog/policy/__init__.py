"""What the watchdog decides, from values alone: no clock, no database, no bus."""
