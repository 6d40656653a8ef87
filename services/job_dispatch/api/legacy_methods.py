"""Methods of /server/panda: what each is served by, how it fails, who may call it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from services.job_dispatch.api.failures import Endpoint, Form, answered, guarded
from services.job_dispatch.api.legacy_names import as_called
from services.job_dispatch.api.requests import BadRequest
from shared.auth.access import AccessRule

PREFIX = "/server/panda"


@dataclass(frozen=True)
class LegacyMethod:
    """One method; without roles it is for anybody, and looks at its caller itself.

    `takes_expired` and `right` as in `guarded`.
    """

    name: str
    verbs: tuple[str, ...]
    endpoint: Endpoint
    form: Form
    rule: AccessRule
    roles: tuple[str, ...]
    takes_expired: bool = False
    right: str | None = None

    @property
    def path(self) -> str:
        return f"{PREFIX}/{self.name}"

    def route(self) -> Route:
        """The method behind the check of its caller."""
        endpoint: Endpoint = self._open()
        if self.roles:
            check = guarded(self.form, self.rule, *self.roles, takes_expired=self.takes_expired, right=self.right)
            endpoint = check(self._call)
        return Route(self.path, endpoint, methods=list(self.verbs))

    async def _call(self, request: Request) -> Response:
        """The answer of the endpoint; what is wrong is told by the names of the caller's interface."""
        try:
            return await self.endpoint(request)
        except BadRequest as error:
            raise as_called(self.name, error) from None

    def _open(self) -> Endpoint:
        async def call(request: Request) -> Response:
            return await answered(self._call, request, self.form)

        return call


def routes_of(methods: Iterable[LegacyMethod]) -> list[Route]:
    """One for each method."""
    return [one.route() for one in methods]


def forms_of(methods: Iterable[LegacyMethod]) -> dict[str, Form]:
    """In which form each path tells failures."""
    return {one.path: one.form for one in methods}
