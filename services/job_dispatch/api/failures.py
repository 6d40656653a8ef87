"""Why a pilot's request is not answered, told in the form that the method's callers understand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from services.job_dispatch.acquire.waiting import Unavailable
from services.job_dispatch.api.call import PilotCall
from services.job_dispatch.api.requests import FAILED, INVALID, ROLE, TIMEOUT, BadRequest
from services.job_dispatch.coalescing import TooLate
from shared.auth import (
    Caller,
    ClaimRefused,
    NotAuthenticated,
    TokenExpired,
    authentication_of,
    caller_of,
    identify,
    identify_expired,
)
from shared.auth.access import AccessRule
from shared.auth.call_rates import TooManyCalls
from shared.auth.web import Asks
from shared.db.database import is_retryable, is_unstorable, unavailable
from shared.db.holders import acting_for
from shared.model.problems import FieldProblem
from shared.web.envelope import Envelope, refused
from shared.web.intake import Crowded, crowded
from shared.web.refusals import NOT_PERMITTED, STATUS_CODE, causes_of, count_refused

C = TypeVar("C", bound=PilotCall)
A = TypeVar("A")
#: what answers a request, by a response of the framework or by bytes
Answering: TypeAlias = Callable[[C], Awaitable[A]]
Endpoint: TypeAlias = Answering[Request, Response]


#: where an application keeps what is told the code of each refusal
COUNT_REFUSAL = "count_refusal"


@dataclass(frozen=True)
class UnansweredRequest:
    """Why a request was not answered.

    `code` is the protocol's, `status` that of HTTP. `is_passing`: the same request may succeed in a while (the database
    is away, a token is being renewed), so that the caller should send it again.
    """

    code: int
    text: str
    status: int = 200
    problems: Sequence[FieldProblem] = ()
    is_passing: bool = False
    retry_after_s: int | None = None


Form = Callable[[UnansweredRequest], Response]


def enveloped(failure: UnansweredRequest) -> Response:
    """The form of /api/v1: an envelope whose data has the protocol's code."""
    if failure.status == 503:
        return crowded(failure.text, {"StatusCode": failure.code})
    if failure.status != 200:
        headers = {"Retry-After": str(failure.retry_after_s)} if failure.retry_after_s is not None else None
        told = {"StatusCode": failure.code}
        return Envelope(told, failure.text, success=False, status_code=failure.status, headers=headers)
    data: dict[str, object] = {"StatusCode": failure.code, "errorDialog": failure.text}
    if failure.problems:
        data["problems"] = [one.as_sent() for one in failure.problems]
    return refused(data, failure.text, failure.problems)


def later(reason: str) -> UnansweredRequest:
    """Nothing is wrong with the request, but it cannot be answered now."""
    return UnansweredRequest(TIMEOUT, reason, 503, is_passing=True)


def _put_off(error: TooManyCalls) -> UnansweredRequest:
    return UnansweredRequest(TIMEOUT, str(error), 429, is_passing=True, retry_after_s=error.retry_after_s)


def internal() -> UnansweredRequest:
    """A bug of ours: whether the request would succeed later is not known, so it may be sent again."""
    return UnansweredRequest(FAILED, "internal error", 500, is_passing=True)


def guarded(
    form: Form, rule: AccessRule, *roles: str, takes_expired: bool = False, right: str | None = None
) -> Callable[[Answering[C, A]], Answering[C, A | Response]]:
    """Check the caller, and tell what went wrong in the form that the method's callers understand.

    `rule` and `right` as in `require`. `takes_expired`: the method looks itself at callers whose token has expired.
    Without a right it is a read: the calls of everybody but pilots are counted, and whoever asks has part of the
    sessions of the database. Those who serve as pilots for everybody, thousands by one name, have all for the rest.
    """

    def wrap(endpoint: Answering[C, A]) -> Answering[C, A | Response]:
        async def call(request: C) -> A | Response:
            try:
                caller = await _caller(request, takes_expired=takes_expired)
            except ClaimRefused as error:
                return _not_permitted(request, form, str(error))
            except NotAuthenticated as error:
                return form(UnansweredRequest(INVALID, str(error), 401, is_passing=True))
            except TooManyCalls as error:
                return form(_put_off(error))
            if not caller.may(*roles):
                return _not_permitted(request, form, f"{caller.name} needs the role {' or '.join(roles)}")
            if right is not None and not caller.has_right(right):
                said = f"{caller.name} needs the right {right}, to which the token is not limited"
                return _not_permitted(request, form, said)
            is_read = right is None
            if is_read and not caller.was_given("pilot", caller.vo):
                try:
                    authentication_of(request.scope).count_call(request.scope, caller)
                except TooManyCalls as error:
                    return form(_put_off(error))
            if not is_read and caller.may("pilot", "production"):
                return await answered(endpoint, request, form)
            with acting_for(caller.name):
                return await answered(endpoint, request, form)

        call.asks_for = Asks(rule, roles, right)  # type: ignore[attr-defined]  # for the contract of endpoints
        return call

    return wrap


def _not_permitted(request: PilotCall, form: Form, said: str) -> Response:
    return _counted(request, form(UnansweredRequest(ROLE, said, 403)), [NOT_PERMITTED])


def _counted(request: PilotCall, response: Response, causes: Iterable[str]) -> Response:
    if not isinstance(response, Envelope):  # which counts itself
        count_refused(request.scope, causes)
    return response


async def _caller(request: PilotCall, *, takes_expired: bool) -> Caller:
    """Who calls. Raises NotAuthenticated, TooManyCalls."""
    await identify(request.scope)
    try:
        return caller_of(request)
    except TokenExpired:
        if not takes_expired:
            raise
        identify_expired(request.scope)
        return caller_of(request)


async def answered(endpoint: Answering[C, A], request: C, form: Form) -> A | Response:
    """The answer of an endpoint, or why there is none."""
    try:
        return await endpoint(request)
    except BadRequest as error:
        count_refusal: Callable[[int], None] | None = getattr(request.scope["app"].state, COUNT_REFUSAL, None)
        if count_refusal is not None:
            count_refusal(error.code)
        response = form(UnansweredRequest(error.code, str(error), problems=error.problems))
        return _counted(request, response, causes_of(200, {STATUS_CODE: error.code}, error.problems))
    except TokenExpired as error:
        return form(UnansweredRequest(INVALID, str(error), 401, is_passing=True))
    except TooManyCalls as error:
        return form(_put_off(error))
    except ClientDisconnect:
        return Response(status_code=499)
    except (Unavailable, TooLate, Crowded) as error:
        return form(later(str(error)))
    except Exception as error:
        if is_unstorable(error):
            return form(UnansweredRequest(FAILED, f"a value cannot be stored: {error}; nothing was changed"))
        if not is_retryable(error):
            raise
        return form(later(unavailable(error)))
