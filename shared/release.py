"""Tell the release of this code: `version` in pyproject.toml, for everything that says it."""

from importlib.metadata import version

RELEASE = version("orrery")
