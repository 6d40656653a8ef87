"""Settings from the environment, and runtime parameters from PostgreSQL.

Settings (`settings`) are fixed while a process runs; `variables` tells misspelt ones. Runtime parameters are the
field's gdpconfig, changed while everything runs: `parameter` is how one is declared, once and where it is used,
`parameters` reads their values, `declared` gathers all declarations.
"""
