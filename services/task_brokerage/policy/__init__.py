"""The functional core: from a world and a request to a nucleus. Pure; each policy is a plugin."""
