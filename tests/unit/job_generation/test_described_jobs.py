"""Jobs that a user describes: whatever is ready, each is made of exactly its own files, or waits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.job_generation.generating.plugin import GreedyGeneration, SplitRequest
from services.job_generation.policy.values import Unit
from services.job_generation.specification.job_xml import pool_of_jobs
from services.job_generation.splitting.secondary import Pool
from tests.unit.job_generation.made import a_dataset, a_queue, a_task

RULES = {"groupBoundaryID": 4, "skipScout": True}
SECOND = a_dataset(2, name="mc.second", stream_name="SECOND", master_id=1)


def text_of(jobs: list[tuple[int, int]]) -> str:
    """Jobs with so many files of the master and of a second dataset."""

    def files(name: str, kind: str, number: int, count: int) -> str:
        listed = "".join(f"<file>{kind}{number}.{n}</file>" for n in range(count))
        return f"<inds><name>{name}</name>{listed}</inds>"

    described = "".join(
        f"<job>{files('mc.first', 'a', n, first)}{files('mc.second', 'b', n, second)}</job>"
        for n, (first, second) in enumerate(jobs, start=1)
    )
    return f"<submission><command>run</command>{described}</submission>"


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=8),
    st.randoms(use_true_random=False),
    st.integers(0, 5),
)
def test_every_job_has_exactly_its_files_and_one_that_lacks_a_file_is_left_over(
    jobs: list[tuple[int, int]], rng: object, n_absent: int
) -> None:
    first = [f"a{n}.{k}" for n, (count, _) in enumerate(jobs, 1) for k in range(count)]
    second = [f"b{n}.{k}" for n, (_, count) in enumerate(jobs, 1) for k in range(count)]
    absent = set(rng.sample([*first, *second], min(n_absent, len(first) + len(second))))  # type: ignore[attr-defined]
    units = {
        name: Unit(number, name, 1000, 10, boundary_id=int(name[1:].partition(".")[0]))
        for number, name in enumerate([*first, *second])
        if name not in absent
    }
    masters = [unit for name, unit in units.items() if name in first]
    others = tuple(unit._replace(dataset_id=2) for name, unit in units.items() if name in second)
    task = a_task(RULES, parameters={"loadXML": text_of(jobs)})
    pool = pool_of_jobs(Pool(SECOND, others))
    placement = GreedyGeneration().split(
        SplitRequest(task, masters, [pool], [a_queue("Q"), a_queue("R")], is_scout=False, max_jobs=100), seed=7
    )
    made = {
        placed.job.master[0].boundary_id: {unit.lfn for unit in (*placed.job.master, *placed.job.secondary.get(2, ()))}
        for placed in placement.jobs
    }
    wanted = {
        number: {f"a{number}.{k}" for k in range(counts[0])} | {f"b{number}.{k}" for k in range(counts[1])}
        for number, counts in enumerate(jobs, start=1)
    }
    assert made == {number: files for number, files in wanted.items() if not files & absent}
    assert len(placement.jobs) == len(made)
    taken = {unit.lfn for placed in placement.jobs for unit in placed.job.master}
    assert {unit.lfn for unit in placement.leftover} == {unit.lfn for unit in masters} - taken
    assert bool(placement.leftover) == any("waits for" in reason for reason in placement.reasons)
