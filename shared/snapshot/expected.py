"""Jobs that were decided upon and are not counted yet: the next decision must see them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# A chunk whose jobs are not reported within this time has made none, or the news of them was lost.
LIFETIME_S = 300.0


@dataclass(frozen=True)
class _Chunk:
    jobs: Mapping[str, int]
    vo: str
    at_s: float


class ExpectedJobs:
    """By chunk and row label (`QUEUE/TYPE`), until the chunk's own jobs are in the statistics."""

    def __init__(self) -> None:
        self._chunks: dict[int, _Chunk] = {}

    def expect(self, chunk_id: int, jobs: Mapping[str, int], at_s: float, *, vo: str = "") -> None:
        """Instead of whatever was expected of the chunk; `at_s` on any clock that only goes forward."""
        self._chunks[chunk_id] = _Chunk({label: n_jobs for label, n_jobs in jobs.items() if n_jobs}, vo, at_s)

    def counted(self, chunk_ids: Iterable[int]) -> bool:
        """The jobs of these chunks are in the statistics, or will never be; whether any was expected."""
        known = [chunk_id for chunk_id in chunk_ids if chunk_id in self._chunks]
        for chunk_id in known:
            del self._chunks[chunk_id]
        return bool(known)

    def chunk_ids(self) -> list[int]:
        """Of which chunks jobs are expected."""
        return list(self._chunks)

    def expects(self, chunk_id: int) -> bool:
        """Whether jobs of this chunk are expected."""
        return chunk_id in self._chunks

    def forget_old(self, now_s: float) -> bool:
        """Drop what was expected too long ago; whether there was any."""
        return self.counted([chunk_id for chunk_id, one in self._chunks.items() if now_s - one.at_s > LIFETIME_S])

    def clear(self) -> None:
        """Expect nothing."""
        self._chunks.clear()

    def by_label(self) -> Counter[tuple[str, str]]:
        """Jobs of all chunks, by VO and row label."""
        total = Counter[tuple[str, str]]()
        for one in self._chunks.values():
            total.update({(one.vo, label): n_jobs for label, n_jobs in one.jobs.items()})
        return total


def expected_of_chunk(weights: Mapping[str, float], n_jobs: int) -> dict[str, int]:
    """How a chunk's jobs will probably be spread: by weight, n_jobs in sum (largest remainders)."""
    total = sum(weights.values())
    if total <= 0 or n_jobs <= 0:
        return {}
    exact = {label: n_jobs * weight / total for label, weight in weights.items()}
    shares = {label: int(part) for label, part in exact.items()}
    left = n_jobs - sum(shares.values())
    for label in sorted(exact, key=lambda label: (shares[label] - exact[label], label))[:left]:
        shares[label] += 1
    return shares
