"""/api/v1/pilot/update_worker_node and update_worker_node_gpu: what a pilot says of its machine."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from services.job_dispatch.api.body import HEARTBEAT, fields_of
from services.job_dispatch.api.failures import enveloped, guarded
from services.job_dispatch.api.measured import ClockMhz, Cores, DiskMb, MemoryMb, Parts
from services.job_dispatch.api.pilot import PREFIX
from services.job_dispatch.api.requests import RequestFields, Text, parse_known
from services.job_dispatch.store.worker_nodes import note_node
from shared.auth import access
from shared.db.database import Database
from shared.web.envelope import Envelope, sentences

LONGEST_TEXT = 500
ShortName = Annotated[str, Field(min_length=1, max_length=200)]


class WorkerNode(RequestFields):
    """`update_worker_node`: memory and disk in MB, the clock in MHz."""

    site: ShortName
    host_name: ShortName
    cpu_model: ShortName
    panda_queue: Text = None
    cpu_model_normalized: Text = None
    cpu_architecture: Text = None
    cpu_architecture_level: Text = None
    n_logical_cpus: Cores = None
    n_sockets: Parts = None
    cores_per_socket: Parts = None
    threads_per_core: Parts = None
    clock_speed: ClockMhz = None
    total_memory: MemoryMb = None
    total_local_disk: DiskMb = None


class WorkerNodeGpu(RequestFields):
    """`update_worker_node_gpu`: memory in MB."""

    site: ShortName
    host_name: ShortName
    vendor: ShortName
    model: ShortName
    count: Parts = None
    vram: MemoryMb = None
    architecture: Text = None
    framework: Text = None
    framework_version: Text = None
    driver_version: Text = None


def worker_node_routes(database: Database) -> list[Route]:
    """Make the routes for pilots and production of any VO.

    Machines and queues are of no VO, and what is told of them gives nobody a right.
    """

    async def update_worker_node(request: Request) -> Response:
        """Processors, memory and disk of a machine."""
        node, left_out = parse_known(WorkerNode, await fields_of(request, HEARTBEAT))
        async with database.begin(reason="worker node") as work:
            await note_node(work.connection, "node", node.site, node.host_name, _said(node))
        return Envelope(message=sentences(left_out), problems=left_out)

    async def update_worker_node_gpu(request: Request) -> Response:
        """One kind of GPU in a machine."""
        gpu, left_out = parse_known(WorkerNodeGpu, await fields_of(request, HEARTBEAT))
        async with database.begin(reason="worker node") as work:
            await note_node(work.connection, "gpu", gpu.site, gpu.host_name, _said(gpu), f"{gpu.vendor} {gpu.model}")
        return Envelope(message=sentences(left_out), problems=left_out)

    pilot = guarded(enveloped, access.PILOTS, "pilot", "production", right="modify")
    return [
        Route(f"{PREFIX}/update_worker_node", pilot(update_worker_node), methods=["POST"]),
        Route(f"{PREFIX}/update_worker_node_gpu", pilot(update_worker_node_gpu), methods=["POST"]),
    ]


def _said(fields: RequestFields) -> dict[str, Any]:
    given = fields.model_dump(exclude_none=True)
    return {name: value[:LONGEST_TEXT] if isinstance(value, str) else value for name, value in given.items()}
