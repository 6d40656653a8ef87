"""Jobs of a set take ranges of events while they run, and merge the result (JEDI: Event service)."""
