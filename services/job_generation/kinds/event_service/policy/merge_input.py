"""What a merge job of the event service reads: files with the events that its set processed.

Source: PanDA pilot protocol, the job specification of merge jobs of the event service. The larger files (tars) into
which pilots put the output of many ranges are input with the prefix zip://, by which the pilot unpacks them. Their
token says in which object store they are, and under which convention of paths. What is in them has the name of the
output with that of the range behind it. `writeToFile` lists these names for each output: a command line has them as
`@inputFor_<output>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from services.job_generation.specification.job_fields import NOTHING

#: the pilot unpacks what begins so
TAR = "zip://"


class FileOfEvents(NamedTuple):
    """A file that a pilot put the output of ranges into; `kind`: zip, or output where it holds one range."""

    lfn: str
    size_bytes: int | None
    adler32: str | None
    obj_store_id: int | None
    path_convention: int | None
    kind: str

    @property
    def name(self) -> str:
        """As the input of a merge job: a tar is unpacked by the pilot."""
        return f"{TAR}{self.lfn}" if self.kind == "zip" else self.lfn

    @property
    def token(self) -> str:
        """Where it is, as the pilot reads it: 117/1000, 117, or nothing."""
        if self.obj_store_id is None:
            return NOTHING
        return f"{self.obj_store_id}/{self.path_convention}" if self.path_convention else str(self.obj_store_id)


class ProcessedEvents(NamedTuple):
    """`files` that hold ranges; `ranges` by name, with the object store of each that is in no file."""

    files: tuple[FileOfEvents, ...] = ()
    ranges: tuple[tuple[str, int | None], ...] = ()

    def read_for(self, outputs: Sequence[str]) -> list[FileOfEvents]:
        """The files to stage in; `outputs`: the names under which consumers wrote."""
        alone = [
            FileOfEvents(f"{output}.{name}", None, None, store, None, "output")
            for name, store in self.ranges
            if store is not None
            for output in outputs
        ]
        return [*self.files, *alone]

    def lists(self, outputs: Sequence[tuple[str, str]]) -> str:
        """The lists to write; `outputs`: each output, and the name under which consumers wrote it.

        Example: inputFor_HITS.2.root:HITS.1.root.5-11-7-1-10,HITS.1.root.5-11-7-2-10
        """
        return "^".join(
            f"inputFor_{merged}:{','.join(f'{written}.{name}' for name, _ in self.ranges)}"
            for merged, written in outputs
            if self.ranges
        )


def input_fields(files: Sequence[FileOfEvents], dataset: str, scope: str, storage: str) -> dict[str, str]:
    """The files as lists of a specification, one place for each."""
    return {
        "inFiles": ",".join(one.name for one in files),
        "realDatasetsIn": ",".join([dataset] * len(files)),
        "GUID": ",".join([NOTHING] * len(files)),
        "fsize": ",".join(str(one.size_bytes or 0) for one in files),
        "checksum": ",".join(f"ad:{one.adler32}" if one.adler32 else NOTHING for one in files),
        "scopeIn": ",".join([scope] * len(files)),
        "ddmEndPointIn": ",".join([storage] * len(files)),
        "prodDBlocks": ",".join([NOTHING] * len(files)),
        "prodDBlockToken": ",".join(one.token for one in files),
    }
