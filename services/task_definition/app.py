"""The composition root: every object of the service is built here."""

from __future__ import annotations

from fastapi import FastAPI

from services.task_definition.catalogue_api import catalogue_routes
from services.task_definition.command_api import command_routes
from services.task_definition.command_store import CommandStore
from services.task_definition.commands import Commands
from services.task_definition.completion import Completion
from services.task_definition.config_api import config_routes
from services.task_definition.data import Data
from services.task_definition.definition import Definition
from services.task_definition.definition_store import DefinitionStore
from services.task_definition.envelope import put_into_envelopes
from services.task_definition.explain_api import explain_routes
from services.task_definition.explanation import Explanation
from services.task_definition.handlers import Handlers
from services.task_definition.reading import Reading
from services.task_definition.settings import TaskDefinitionSettings
from services.task_definition.submission import Submission
from services.task_definition.system_api import system_routes
from services.task_definition.task_api import submission_routes, task_routes
from services.task_definition.task_store import TaskStore
from shared.auth import install
from shared.catalogue import BuiltInCatalogue
from shared.config.parameters import REFRESH_EVERY_S, Parameters
from shared.config.settings import load_settings
from shared.events import ConfigChanged
from shared.runtime.service import Context, Periodic, Service
from shared.snapshot.known_grid import KnownGrid
from shared.web.json_text import BodyLimits

#: the body of a task with its lists of files, jobs' parameters and templates; a catalogue as a whole
BODY_LIMITS = {
    "/api/v1/task/submit": BodyLimits(4 * 2**20, n_values=200_000),
    "/api/v1/task/retry": BodyLimits(2**20, n_values=50_000),
    "/api/v1/catalogue/import": BodyLimits(64 * 2**20, n_values=5_000_000),
}


def build(context: Context) -> Service:
    """Task definition."""
    settings = context.settings
    if not isinstance(settings, TaskDefinitionSettings):
        settings = load_settings(TaskDefinitionSettings, database_url=settings.database_url)
    parameters, catalogue, tasks = Parameters(), BuiltInCatalogue(), TaskStore()
    completion = Completion(tasks, catalogue, parameters)
    commands = Commands(tasks, CommandStore(), completion, catalogue)
    data = Data(catalogue, parameters, context.random)
    definition = Definition(tasks, DefinitionStore(), catalogue, parameters)
    handlers = Handlers(definition, completion, commands, data, parameters, context.database)
    return Service(
        name="task-definition",
        work=handlers.work(),
        news=[(ConfigChanged, handlers.on_config_changed)],
        periodic=[
            Periodic("transfers", settings.transfers_every_s, data.look_after_transfers),
            Periodic("left-overs", settings.left_overs_every_s, completion.settle_left_overs),
            Periodic("parameters", REFRESH_EVERY_S, handlers.refresh_parameters, lease=False),
        ],
        web=_web(context, commands, tasks, Submission(tasks, catalogue, KnownGrid(context.cache)), parameters),
        body_limits=BODY_LIMITS,
        on_start=[handlers.read_parameters],
    )


def _web(
    context: Context, commands: Commands, tasks: TaskStore, submission: Submission, parameters: Parameters
) -> FastAPI:
    web = FastAPI(title="Orrery task definition", version="1")
    reading = Reading()
    web.include_router(submission_routes(context.database, submission, tasks))
    web.include_router(task_routes(context.database, tasks, reading))
    web.include_router(command_routes(context.database, commands))
    web.include_router(catalogue_routes(context.database, tasks))
    web.include_router(config_routes(context.database, tasks))
    web.include_router(explain_routes(context.database, Explanation(reading, parameters)))
    web.include_router(system_routes())
    put_into_envelopes(web)
    install(web, context.authority)
    return web
