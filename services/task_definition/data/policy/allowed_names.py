"""Names that the field's catalogues take (Rucio: schema of data identifiers).

A dataset, container or file begins with a letter or digit and goes on with letters, digits, dots, hyphens and
underscores; so does a scope, with any of them first. A task's name may also have ``/ : + = @`` (a container's name ends
in a slash), but no part of it is ``.`` or ``..``. What is put in for ``${...}`` or ``$WORD`` later is not looked at.
"""

from __future__ import annotations

import re

from shared.model.names import is_plain_name

_SCOPE = re.compile(r"[A-Za-z0-9._-]+")
_TASK = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:+=@-]*")
_PUT_IN_LATER = re.compile(r"\$\{[^{}]*\}|\$[A-Za-z][A-Za-z0-9_]*")

TASK_NAMES = "letters, digits and . _ - / : + = @, beginning with a letter or digit, without a part '.' or '..'"
SCOPES = "a scope of letters, digits, '.', '-' and '_'"


def is_catalogue_name(name: str) -> bool:
    """Whether a dataset, container (without its slash) or file may be called so."""
    return is_plain_name(_PUT_IN_LATER.sub("x", name))


def is_scope(name: str) -> bool:
    """Whether a scope may be called so."""
    return _SCOPE.fullmatch(name) is not None


def is_task_name(name: str) -> bool:
    """Whether a task may be called so."""
    return _TASK.fullmatch(name) is not None and not {".", ".."} & set(name.split("/"))
