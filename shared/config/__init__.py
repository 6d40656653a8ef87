"""Settings from the environment (`settings`, fixed for the life of a process) and runtime parameters from PostgreSQL
(`parameters`, the field's gdpconfig, changed while everything runs)."""
