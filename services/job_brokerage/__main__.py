"""Runs the service: `python -m services.job_brokerage`."""

from services.job_brokerage.app import build
from shared.runtime.serve import main

if __name__ == "__main__":
    main("job_brokerage", build)
