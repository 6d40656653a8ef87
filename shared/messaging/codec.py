"""Events as bytes on the bus."""

from __future__ import annotations

from typing import TypeVar

from pydantic import ValidationError

from shared.events.base import Event

MAX_BODY_BYTES = 1_000_000
"""Events are facts about batches; a larger body is somebody's mistake."""

E = TypeVar("E", bound=Event)


class Undecodable(Exception):
    """The bytes are not the event they claim to be; the text says why."""


def encode(event: Event) -> bytes:
    """The body of a message."""
    return event.model_dump_json().encode()


def decode(expected: type[E], body: bytes, *, routing_key: str) -> E:
    """The event in `body`; Undecodable tells why not.

    Too large, another event or version, not JSON, a wrong field, no id.

    `routing_key` is what the publisher called it; it carries the version.
    """
    if len(body) > MAX_BODY_BYTES:
        raise Undecodable(f"the body has {len(body)} bytes; allowed are {MAX_BODY_BYTES}")
    if routing_key != expected.routing_key():
        raise Undecodable(f"{routing_key!r} is not {expected.routing_key()!r}: another event or an unknown version")
    try:
        event = expected.model_validate_json(body)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in problem["loc"]) or "body"
        raise Undecodable(f"not a valid {routing_key}: {field}: {problem['msg']}") from None
    if event.event_id <= 0 or event.occurred_at is None:
        raise Undecodable("event_id and occurred_at are missing: it did not come from an outbox")
    return event
