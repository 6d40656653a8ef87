"""`python -m tests.performance [--small] [NAME...]`: run the benchmarks in turn, or those whose names contain NAME."""

from __future__ import annotations

import argparse
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.performance import sizes

HERE = Path(__file__).parent
LIMIT_S, LIMIT_SMALL_S = 1800.0, 90.0
GRACE_S = 60.0  # for what it started to be stopped


def main(arguments: Sequence[str]) -> int:
    """0 if every benchmark ran to its end and kept its targets."""
    parser = argparse.ArgumentParser(prog="python -m tests.performance", description="run the benchmarks")
    parser.add_argument("--small", action="store_true", default=sizes.SMALL, help="seconds each; figures mean nothing")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only those whose names contain one of these")
    options = parser.parse_args(arguments)
    names = sorted(path.stem for path in HERE.glob("bench_*.py"))
    chosen = [name for name in names if not options.names or any(word in name for word in options.names)]
    if not chosen:
        parser.error(f"no benchmark is called {' or '.join(options.names)}; there are: {', '.join(names)}")
    load_1min = os.getloadavg()[0]
    print(
        f"{os.cpu_count()} cores, Python {platform.python_version()}, load {load_1min:.1f} before the start", flush=True
    )
    failed = []
    for name in chosen:
        print(f"\n== {name.removeprefix('bench_').replace('_', ' ')}", flush=True)
        started = time.monotonic()
        if run(name, small=options.small) != 0:
            failed.append(name)
        print(f"   ({time.monotonic() - started:.0f} s)", flush=True)
    if failed:
        print(f"\nfailed: {', '.join(failed)}")
    return 1 if failed else 0


def run(name: str, *, small: bool) -> int:
    """The exit code of one benchmark. One that does not end is interrupted, so that it stops what it started."""
    limit_s = LIMIT_SMALL_S if small else LIMIT_S
    process = subprocess.Popen(
        [sys.executable, "-m", f"tests.performance.{name}"],
        cwd=HERE.parents[1],
        env=os.environ | {sizes.VARIABLE: "1" if small else "0"},
    )
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        print(f"   does not end: interrupted after {limit_s:.0f} s", flush=True)
        process.send_signal(signal.SIGINT)
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
