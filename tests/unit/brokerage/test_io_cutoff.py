"""Work of high IO intensity goes where its input is: on disk, else on tape, else anywhere (production)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.job_brokerage.policy.production import NO_CUTOFF_NOTE, TAPE_NOTE, ProductionJobBrokerage
from shared.brokerage.decision import Decision
from shared.brokerage.load import JobCount
from shared.brokerage.request import InputDataset, InputReplica
from shared.model.queue import QueueStatus
from tests.unit.brokerage.worlds import LIGHT, a_queue, a_request, a_storage, a_world

GB = 1024**3
FAR, TAPE, DISK = "FAR", "TAPE", "DISK"
ON_TAPE = InputReplica("TAPE_DATATAPE", 200, 20 * GB, is_tape=True)
ON_DISK = InputReplica("DISK_DATADISK", 200, 20 * GB)


def decided(
    *replicas: InputReplica, io_intensity_kb_s: float = 201.0, jobs: tuple[JobCount, ...] = (), **disk
) -> Decision:
    """Three queues: one has a tape, one a disk of the input, one nothing."""
    storages = ("TAPE_DATADISK", "TAPE_DATATAPE")
    world = a_world(
        [a_queue(FAR, FAR), a_queue(TAPE, TAPE, read_storages=storages), a_queue(DISK, DISK, **disk)],
        storages=[a_storage("TAPE_DATATAPE", TAPE, type="DATATAPE", is_tape=True)],
        jobs=jobs,
    )
    needs = replace(LIGHT, io_intensity_kb_s=io_intensity_kb_s)
    request = a_request(needs=needs, inputs=(InputDataset("d", 200, 20 * GB, replicas),))
    return ProductionJobBrokerage().decide(world, request, 1)


def test_queues_with_the_input_on_disk_are_the_only_choice_where_there_are_any() -> None:
    decision = decided(ON_TAPE, ON_DISK)
    assert decision.chosen == (DISK,) and decision.notes == ()


def test_input_on_tape_is_the_second_choice_where_no_queue_has_it_on_disk() -> None:
    decision = decided(ON_TAPE)
    assert decision.chosen == (TAPE,) and decision.notes == (TAPE_NOTE,)
    assert decision.exclusion(FAR)[0].name == "missing_input_size"


def test_the_cutoff_is_off_where_no_queue_has_the_input_at_all() -> None:
    decision = decided()
    assert set(decision.chosen) == {FAR, TAPE, DISK} and decision.notes == (NO_CUTOFF_NOTE,)


def test_below_the_cutoff_nothing_is_relaxed_and_nothing_is_said() -> None:
    decision = decided(io_intensity_kb_s=200.0)
    assert set(decision.chosen) == {FAR, TAPE, DISK} and decision.notes == ()


def test_a_queue_with_the_input_that_can_never_take_the_work_does_not_keep_the_cutoff_on() -> None:
    decision = decided(ON_DISK, status=QueueStatus.OFFLINE)
    assert set(decision.chosen) == {FAR, TAPE} and decision.notes == (NO_CUTOFF_NOTE,)


@pytest.mark.parametrize(("transferring", "chosen"), [(2000, (DISK,)), (2001, ())])
def test_a_queue_with_the_input_that_is_full_at_the_moment_is_waited_for(transferring, chosen) -> None:
    decision = decided(ON_DISK, ON_TAPE, jobs=(JobCount(DISK, "", "transferring", transferring),))
    assert decision.chosen == chosen and decision.notes == ()
    assert decision.exclusion(FAR)[0].name == "missing_input_size"


def test_where_no_queue_could_take_the_work_anyway_the_cutoff_is_what_is_told() -> None:
    needs = replace(LIGHT, io_intensity_kb_s=201.0, ram_mb=9000)
    request = a_request(needs=needs, inputs=(InputDataset("d", 200, 20 * GB),))
    decision = ProductionJobBrokerage().decide(a_world([a_queue(FAR, FAR)]), request, 1)
    assert decision.chosen == () and decision.notes == ()
