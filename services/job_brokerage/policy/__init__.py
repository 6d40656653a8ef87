"""The functional core: from a world and a request to a decision.

Pure; each policy is a plugin that shares `stages`.
"""
