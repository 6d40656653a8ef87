"""Releases, containers and hardware (PanDA brokerage: Release/cache availability check).

One judgement for each queue and each kind of software is made once for a grid (`World.lacks`); these four read it.
"""

from __future__ import annotations

from shared.brokerage.check import YES_NO, Check, Decide, Filter, Tier, Verdict, decides
from shared.brokerage.request import JobRequest
from shared.brokerage.software import Lack
from shared.brokerage.world import World


def _check(code: int, name: str, what: str) -> Check:
    return Check(code, name, Tier.CONFIGURATION, False, what, "must be", words=YES_NO)


CPU = _check(110, "cpu_hardware", "CPU that the task needs is there")
GPU = _check(111, "gpu_hardware", "GPU that the task needs is there")
CONTAINER = _check(112, "container", "container of the task is there")
RELEASE = _check(113, "release", "release of the task is there")


def _has(lack: Lack) -> Decide:
    def decide(world: World, request: JobRequest) -> Verdict | None:
        lacks = world.lacks(request.software)
        return Verdict(lacks.rows != lack, 0.0, 1.0) if lack in lacks.kinds else None

    return decide


cpu_hardware: Filter = decides(CPU)(_has(Lack.CPU))
gpu_hardware: Filter = decides(GPU)(_has(Lack.GPU))
container: Filter = decides(CONTAINER)(_has(Lack.CONTAINER))
release: Filter = decides(RELEASE)(_has(Lack.RELEASE))
