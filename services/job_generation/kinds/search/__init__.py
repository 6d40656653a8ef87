"""Searches of hyper-parameters: jobs evaluate points until there are enough (PanDA client, phpo)."""
