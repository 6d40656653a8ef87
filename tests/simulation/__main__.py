"""`python -m tests.simulation SEED [SEED ...]`: replay seeds, twice each, and say whether both runs were the same."""

import sys
import time
import traceback

from tests.simulation.running import leave, run


def main(seeds: list[int]) -> int:
    """0 if every seed ended in order and the same way twice."""
    for seed in seeds:
        started = time.monotonic()
        try:
            first, second = run(seed), run(seed)
        except AssertionError:
            traceback.print_exc(limit=0)
            return 1
        same = first.fingerprint == second.fingerprint
        sys.stdout.write(
            f"seed {seed}: {first.steps} steps, {first.deaths} deaths, {first.simulated_s / 3600:.1f} h, "
            f"{first.statuses}, {first.fingerprint} {'twice' if same else 'NOT THE SAME TWICE'}, "
            f"{time.monotonic() - started:.1f} s\n"
        )
        if not same:
            return 1
    return 0


if __name__ == "__main__":
    try:
        code = main([int(seed) for seed in sys.argv[1:] or ["1"]])
    finally:
        leave()
    sys.exit(code)
