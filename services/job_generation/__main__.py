"""Runs the service: `python -m services.job_generation`."""

from services.job_generation.app import build
from shared.runtime.serve import main

if __name__ == "__main__":
    main("job_generation", build)
