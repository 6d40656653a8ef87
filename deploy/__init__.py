"""How Orrery is run: on one machine (`deploy.local`), in containers (`docker/`), with which server settings."""
