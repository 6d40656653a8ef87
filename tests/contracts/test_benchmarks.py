"""Benchmarks that nobody runs are broken when their figures are wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = sorted((ROOT / "tests" / "performance").glob("bench_*.py"))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_every_benchmark_has_a_size_of_seconds(path: Path) -> None:
    assert "sized(" in path.read_text(encoding="utf-8")


def test_all_benchmarks_run_in_ci_in_their_small_size() -> None:
    assert "make bench ARGS=--small\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
