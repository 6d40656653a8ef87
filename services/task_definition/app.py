"""The composition root: every object of the service is built here."""

from __future__ import annotations

from fastapi import FastAPI

from services.task_definition.api.accounts import account_routes
from services.task_definition.api.catalogue import catalogue_routes
from services.task_definition.api.command import command_routes
from services.task_definition.api.config import config_routes
from services.task_definition.api.explain import explain_routes
from services.task_definition.api.system import system_routes
from services.task_definition.api.task import submission_routes, task_routes
from services.task_definition.api.task_files import task_file_routes
from services.task_definition.api.token import token_routes
from services.task_definition.api.work_queues import work_queue_routes
from services.task_definition.commanding import Commands
from services.task_definition.completing import Completion
from services.task_definition.defining.definition import Definition
from services.task_definition.environment import TaskDefinitionSettings
from services.task_definition.explaining import Explanation
from services.task_definition.handlers import Handlers
from services.task_definition.registering import Data
from services.task_definition.store.commands import CommandStore
from services.task_definition.store.definitions import DefinitionStore
from services.task_definition.store.reads import Reading
from services.task_definition.store.task_files import TaskFiles
from services.task_definition.store.tasks import TaskStore
from services.task_definition.submitting.submission import Submission
from shared.catalogue import BuiltInCatalogue
from shared.config.parameters import Parameters
from shared.config.settings import load_settings
from shared.runtime.service import Context, Periodic, Service, with_parameters
from shared.snapshot import KnownGrid
from shared.web.json_text import BodyLimits

#: a task with its lists of files, parameters and templates; a catalogue of up to 100 000 files by name, more in series
BODY_LIMITS = {
    "/api/v1/task/submit": BodyLimits(4 * 2**20, n_values=200_000),
    "/api/v1/task/retry": BodyLimits(2**20, n_values=50_000),
    "/api/v1/user/load": BodyLimits(16 * 2**20, n_values=2_000_000),
    "/api/v1/group/load": BodyLimits(2 * 2**20, n_values=100_000),
    "/api/v1/work_queue/load": BodyLimits(2**20, n_values=20_000),
    "/api/v1/catalogue/import": BodyLimits(16 * 2**20, n_values=1_000_000),
}


def build(context: Context) -> Service:
    """Task definition."""
    settings = context.settings
    if not isinstance(settings, TaskDefinitionSettings):
        settings = load_settings(TaskDefinitionSettings, database_url=settings.database_url)
    parameters, catalogue, tasks = Parameters(), BuiltInCatalogue(), TaskStore()
    grid = KnownGrid(context.cache)
    completion = Completion(tasks, catalogue, parameters)
    commands = Commands(tasks, CommandStore(), completion.settle, catalogue, grid)
    data = Data(catalogue, parameters, context.random, grid)
    definition = Definition(tasks, DefinitionStore(), catalogue, parameters)
    handlers = Handlers(definition, completion, commands, data)
    service = Service(
        name="task-definition",
        work=handlers.work(),
        periodic=[
            Periodic("transfers", settings.transfers_every_s, data.look_after_transfers),
            Periodic("left-overs", settings.left_overs_every_s, completion.settle_left_overs),
        ],
        web=_web(context, commands, tasks, Submission(tasks, catalogue, grid), parameters, grid),
        body_limits=BODY_LIMITS,
    )
    return with_parameters(parameters, context.database, service)


def _web(
    context: Context,
    commands: Commands,
    tasks: TaskStore,
    submission: Submission,
    parameters: Parameters,
    grid: KnownGrid,
) -> FastAPI:
    web = FastAPI(title="Orrery task definition", version="1")
    reading = Reading()
    web.include_router(submission_routes(context.database, submission, tasks))
    web.include_router(task_routes(context.database, tasks, reading))
    web.include_router(command_routes(context.database, commands))
    web.include_router(task_file_routes(context.database, TaskFiles(BuiltInCatalogue()), grid))
    web.include_router(catalogue_routes(context.database, tasks, grid))
    web.include_router(config_routes(context.database, tasks))
    web.include_router(token_routes(context.database, tasks))
    web.include_router(explain_routes(context.database, Explanation(reading, grid, parameters)))
    web.include_router(account_routes(context.database, tasks))
    web.include_router(work_queue_routes(context.database, tasks))
    web.include_router(system_routes())
    return web
