"""Runs the service: `python -m services.task_brokerage`."""

from services.task_brokerage.app import build
from shared.runtime.serve import main

if __name__ == "__main__":
    main("task_brokerage", build)
