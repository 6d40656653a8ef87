"""Input on tape is staged to disk, by the built-in catalogue or by a rule of another."""
