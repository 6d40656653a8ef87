"""Permissions to fetch the archives of one task, which a job is told with its source URL.

Source: PanDA's scripts on worker nodes fetch `<sourceURL>/cache/<name>` and send no token. So the source URL that a job
is told ends with a permission, `<sourceURL>/signed/<permission>`: job_dispatch signs it when it hands the job out, and
task_definition, which keeps the archives, verifies it. `keys` has the secret that both share, `parameters` the switch,
`places` knows where the permission goes: job_generation stores that with the job.
"""

from __future__ import annotations

from shared.signed_sources.keys import SourceKeys
from shared.signed_sources.places import PATH

__all__ = ["PATH", "SourceKeys"]
