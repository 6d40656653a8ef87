"""Parameters that say what a job needs: cores, memory, time, disk, input and output rate."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from services.task_definition.tasks.policy.task_parameters.kinds import Amount, Cores, Memory, Percent
from services.task_definition.tasks.policy.task_parameters.names import FormFields
from shared.task.about import About
from shared.task.types import Text32

_NEEDS = "shared.task.needs"
_MERGES = "services.job_generation"


class NeedsFields(FormFields):
    """What a job needs. Amounts are in the unit that the field after them names."""

    core_count: Annotated[Cores | None, About(_NEEDS, unit="cores")] = None
    merge_core_count: Annotated[Cores | None, About(_MERGES, unit="cores")] = None
    ram_count: Annotated[Memory | None, About(_NEEDS, unit="ramUnit")] = None
    ram_unit: Annotated[Text32 | None, About(_NEEDS)] = None
    ram_count_unit: Annotated[Text32 | None, About("services.task_definition.tasks.policy.task_spec")] = None
    base_ram_count: Annotated[Memory | None, About(_NEEDS, unit="MB")] = None
    merge_ram_count: Annotated[Memory | None, About(_NEEDS, unit="mergeRamUnit")] = None
    merge_ram_unit: Annotated[Text32 | None, About(_NEEDS)] = None
    cpu_time: Annotated[
        Annotated[float, Field(ge=0, le=10**12, strict=True, allow_inf_nan=False)] | None,
        About(_NEEDS, unit="cpuTimeUnit"),
    ] = None
    cpu_time_unit: Annotated[Text32 | None, About(_NEEDS)] = None
    cpu_efficiency: Annotated[Percent | None, About(_NEEDS, unit="%")] = None
    base_walltime: Annotated[Amount | None, About(_NEEDS, unit="s")] = None
    walltime: Annotated[
        Annotated[int, Field(ge=-(10**9), le=10**9, strict=True)] | None,
        About("services.job_generation", unit="walltimeUnit"),
    ] = None
    walltime_unit: Annotated[Text32 | None, About("services.task_definition.tasks.store.tasks")] = None
    out_disk_count: Annotated[Amount | None, About(_NEEDS, unit="outDiskUnit")] = None
    out_disk_unit: Annotated[Text32 | None, About(_NEEDS)] = None
    work_disk_count: Annotated[Amount | None, About(_NEEDS, unit="workDiskUnit")] = None
    work_disk_unit: Annotated[Text32 | None, About(_NEEDS)] = None
    io_intensity: Annotated[Amount | None, About(_NEEDS, unit="ioIntensityUnit")] = None
    io_intensity_unit: Annotated[Text32 | None, About(_NEEDS)] = None
    disk_io: Annotated[Amount | None, About(_NEEDS, unit="diskIOUnit")] = None
    disk_io_unit: Annotated[Text32 | None, About(_NEEDS)] = None
