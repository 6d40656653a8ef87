#!/bin/sh
# Install into the image: first the packages that services need, at the locked versions; then the project itself.
set -eu
case "$1" in
packages)
    python - > /tmp/wanted <<'PYTHON'
import tomllib

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)
print("\n".join(project["project"]["dependencies"] + project["build-system"]["requires"]))
PYTHON
    pip install --constraint requirements.lock --requirement /tmp/wanted
    rm /tmp/wanted
    # htmx alone: what its wheel asks for is a framework that the console does not use
    python - > /tmp/wanted <<'PYTHON'
import tomllib

with open("pyproject.toml", "rb") as file:
    print("\n".join(tomllib.load(file)["project"]["optional-dependencies"]["console"]))
PYTHON
    pip install --no-deps --constraint requirements.lock --requirement /tmp/wanted
    rm /tmp/wanted
    ;;
project)
    pip install --no-deps --no-build-isolation --editable .
    ;;
*)
    echo "install.sh: $1: allowed are packages, project" >&2
    exit 2
    ;;
esac
