"""Settings from the environment (`settings`, fixed for the life of a process; `variables` tells misspelt ones), and
runtime parameters from PostgreSQL (`parameters`, the field's gdpconfig, changed while everything runs; `known` says
what a parameter may be, `known_parameters` lists all that are read)."""
