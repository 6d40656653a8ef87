"""The envelope of the service's HTTP replies."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


class Reply(BaseModel):
    """The envelope of every reply."""

    success: bool
    message: str = ""
    data: Any = None
