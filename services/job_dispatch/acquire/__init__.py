"""Jobs to pilots: windows of waiting jobs in memory, picks from them, claims in the database."""
