"""`python -m tests.performance [NAME...]`: run the benchmarks in turn, or those whose names contain NAME."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent


def main(wanted: Sequence[str]) -> int:
    """0 if every benchmark ran to its end."""
    names = sorted(path.stem for path in HERE.glob("bench_*.py"))
    chosen = [name for name in names if not wanted or any(word in name for word in wanted)]
    if not chosen:
        sys.stderr.write(f"no benchmark is called {' or '.join(wanted)}; there are: {', '.join(names)}\n")
        return 2
    load_1min = os.getloadavg()[0]
    print(
        f"{os.cpu_count()} cores, Python {platform.python_version()}, load {load_1min:.1f} before the start", flush=True
    )
    failed = []
    for name in chosen:
        print(f"\n== {name.removeprefix('bench_').replace('_', ' ')}", flush=True)
        started = time.monotonic()
        result = subprocess.run([sys.executable, "-m", f"tests.performance.{name}"], cwd=HERE.parents[1], check=False)
        if result.returncode != 0:
            failed.append(name)
        print(f"   ({time.monotonic() - started:.0f} s)", flush=True)
    if failed:
        print(f"\nfailed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
