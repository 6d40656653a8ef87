-- Why the owner of a task may not let it go on without production: what production, an operator or the watchdog did to
-- it, or that it was throttled; `held_until`: then the owner may.
ALTER TABLE tasks ADD COLUMN hold text, ADD COLUMN held_until timestamptz;
