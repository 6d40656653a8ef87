"""The calls of published pilots as bytes. What a kind says alike is made once, each call fills in the rest.

Recorded from panda-pilot 3.7.0.36, which sends forms by curl, as it ran a job with input in
`tests/integration/published_pilot`. What a memory monitor and a transformation add are the fields of its plug-in for
ATLAS (`get_data_structure`, `add_memory_info`, `get_job_metrics_string`). Every other kind is 3.11.5.1: gzipped JSON
without a Content-Encoding, and no Accept.
"""

from __future__ import annotations

import json
import struct
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote_plus

N_KINDS = 200
#: stand for what a call fills in, a text and a number
GAP, NUMBER = "\x00", "\x01"
_GZIP_HEAD, _GZIP_END = b"\x1f\x8b\x08\0\0\0\0\0\x02\xff", b"\x03\x00"
_STORED, _TRAILER = struct.Struct("<BHH"), struct.Struct("<II")
_FILE = f'"{GAP}": {{"guid": "{GAP}", "fsize": {GAP}, "adler32": "{GAP}", "surl": "davs://storage:443/rucio/{GAP}"}}'
_FILE_OF_NEWEST = f'{_FILE[:-1]}, "endpoint": "{GAP}"}}'
_CPU = "s+AMD EPYC 7702 64-Core Processor 512 KB+AVX2"


class Gapped:
    """A text with gaps."""

    def __init__(self, text: str) -> None:
        self.fixed = [one.encode() for one in text.split(GAP)]
        self._pieces = [piece for one in self.fixed for piece in (one, b"")][:-1]

    def filled(self, values: Sequence[bytes]) -> bytes:
        """The text with a value in each gap."""
        pieces = self._pieces.copy()
        pieces[1::2] = values
        return b"".join(pieces)


class Gzipped:
    """The same as gzip: what is fixed is compressed once, a value is stored as it is between.

    Compressing each call anew would cost 50 us. A reader sees one stream of deflate blocks.
    """

    def __init__(self, text: str) -> None:
        self._plain = Gapped(text)
        self._pieces = [piece for one in self._plain.fixed for piece in (_deflated(one), b"")][:-1]

    def filled(self, values: Sequence[bytes]) -> bytes:
        """One gzip member."""
        plain, pieces = self._plain.filled(values), self._pieces.copy()
        pieces[1::2] = [_STORED.pack(0, len(one), len(one) ^ 0xFFFF) + one for one in values]
        return b"".join((_GZIP_HEAD, *pieces, _GZIP_END, _TRAILER.pack(zlib.crc32(plain), len(plain))))


def _deflated(fixed: bytes) -> bytes:
    """Deflate blocks that end at a byte and refer to nothing before them."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(fixed) + compressor.flush(zlib.Z_FULL_FLUSH)


class Call:
    """One method with the fields of one kind of pilots."""

    def __init__(self, method: str, headers: Mapping[str, str], fields: Mapping[str, Any], *, is_newest: bool) -> None:
        self._body: Gapped | Gzipped = Gzipped(_json(fields)) if is_newest else Gapped(_form(fields))
        lines = [f"POST /server/panda/{method} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        self._head = ("\r\n".join(lines) + "\r\nContent-Length: ").encode()

    def filled(self, *values: bytes) -> bytes:
        """The whole request."""
        body = self._body.filled(values)
        return b"%b%d\r\n\r\n%b" % (self._head, len(body), body)


def _json(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields).replace('"\\u0001"', GAP).replace("\\u0000", GAP)


def _form(fields: Mapping[str, Any]) -> str:
    pairs = (f"{name}={quote_plus(str(value).replace(NUMBER, GAP), safe=GAP)}" for name, value in fields.items())
    return "&".join(pairs)


@dataclass(frozen=True, slots=True)
class Job:
    """What a pilot needs of the job that it was given."""

    job_id: bytes
    attempt: bytes
    has_input: bool
    outputs: tuple[tuple[bytes, bytes, bytes, bytes, bytes, bytes], ...]

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> Job:
        """The job of an answer to getJob."""
        job_id, log = int(spec["PandaID"]), spec.get("logFile")
        endpoints = str(spec.get("ddmEndPointOut") or "").split(",")
        outputs = []
        for place, lfn in enumerate(
            one for one in str(spec.get("outFiles") or "").split(",") if one not in ("", "NULL")
        ):
            guid = spec["logGUID"] if lfn == log else f"{place:08x}-0000-4000-8000-{job_id:012x}"
            name, checksum = lfn.encode(), b"%08x" % (job_id * 2_654_435_761 + place & 0xFFFFFFFF)
            size = b"%d" % (1_000_000 + job_id % 1_000)
            outputs.append((name, guid.encode(), size, checksum, name, endpoints[place].encode()))
        has_input = str(spec.get("inFiles") or "NULL") != "NULL"
        return cls(b"%d" % job_id, b"%d" % int(spec["attemptNr"]), has_input, tuple(outputs))


class Kind:
    """Pilots of nodes that are alike, with the calls that they make."""

    def __init__(self, number: int, host: str, token: str) -> None:
        self.is_newest = bool(number % 2)
        self._number, self._node = number, f"node{number:03d}.cluster.example"
        self._version = "3.11.5.1" if self.is_newest else "3.7.0.36"
        self._headers = {"Host": host, "Authorization": f"Bearer {token}", "Origin": "atlas", **self._of_client()}
        self.get_job = self._call("getJob", self._offer())
        self.starting, self.running = (self._report(one, {}) for one in ("starting", "running"))
        self.heartbeat = self._report("running", self._measured())
        self.final = self._report("finished", {"xml": GAP, "metaData": self._job_report()}, self._measured(), _ENDED)
        self._file, self._between, self._around = self._spelled()

    def outputs(self, job: Job) -> bytes:
        """The list of transferred files, as it stands in a final report."""
        n_values = 6 if self.is_newest else 5
        files = (self._file.filled(one[:n_values]) for one in job.outputs)
        return self._around.filled([self._between.join(files)])

    def _of_client(self) -> dict[str, str]:
        if self.is_newest:
            return {"User-Agent": "pilot/3.11.5.1 (Python 3.11.7; Linux x86_64)", "Content-Type": "application/json"}
        form = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        return {"User-Agent": "curl/7.88.1", "Accept-Encoding": "deflate, gzip, br, zstd", **form}

    def _call(self, method: str, fields: Mapping[str, Any]) -> Call:
        return Call(method, self._headers, fields, is_newest=self.is_newest)

    def _offer(self) -> dict[str, Any]:
        """Filled in: queue, queue, label, number of the worker."""
        return {
            "siteName": GAP, "computingElement": GAP, "prodSourceLabel": GAP, "diskSpace": 20_000 + 211 * self._number,
            "workingGroup": "", "cpu": 2000.0 + self._number, "mem": 16_000.25 + 97 * self._number,
            "node": self._node, "allowOtherCountry": False, "harvester_id": "factory-1", "worker_id": GAP,
        }  # fmt: skip

    def _report(self, state: str, *more: Mapping[str, Any]) -> Call:
        """Filled in: job, queue, attempt, and what is a gap in `more`."""
        started = time.time()
        fields = {
            "jobId": GAP, "state": state, "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
            "siteName": GAP, "node": self._node, "attemptNr": NUMBER, "schedulerID": "unknown",
            "pilotID": f"unknown|PR|{self._version}", "startTime": started,
        }  # fmt: skip
        for one in (*more[:1], {"coreCount": 1, "cpuConsumptionUnit": _CPU}, *more[1:]):
            fields |= one
        return self._call("updateJob", fields)

    def _measured(self) -> dict[str, Any]:
        """Of the payload while it runs, in kB, bytes and seconds."""
        used_kb, read = 900_000 + 1_000 * self._number, 1_500_000 + self._number
        metrics = f"actualCoreCount=1 nEvents=10 dbTime=0.52 leak={0.01 * self._number:.2f} chi2=1.04 readbyterate=1.50"
        return {
            "meanCoreCount": 0.97, "nEvents": 10, "cpuConsumptionTime": 3_000 + self._number,
            "cpuConversionFactor": 1.0, "cpu_architecture_level": "x86_64-v3",
            "maxRSS": used_kb, "maxVMEM": 3 * used_kb, "maxSWAP": 0, "maxPSS": used_kb,
            "avgRSS": used_kb - 90_000, "avgVMEM": 2 * used_kb, "avgSWAP": 0, "avgPSS": used_kb - 100_000,
            "totRCHAR": 3 * read, "totWCHAR": read, "totRBYTES": read, "totWBYTES": 1_000_000,
            "rateRCHAR": 1_500, "rateWCHAR": 500, "rateRBYTES": 500, "rateWBYTES": 300, "jobMetrics": f"{metrics} ",
        }  # fmt: skip

    def _job_report(self) -> str:
        """What the transformation says of itself."""
        processor = {"cpuTime": 2_900 + self._number, "wallTime": 3_100, "processedEvents": 10}
        return json.dumps({"exitCode": 0, "exitMsg": "OK", "resource": {"transform": processor}})

    def _spelled(self) -> tuple[Gapped, bytes, Gapped]:
        """One transferred file, what stands between two and around all, in the text of a field."""
        texts = (_FILE_OF_NEWEST if self.is_newest else _FILE, ", ", f"{{{GAP}}}")
        if self.is_newest:
            file, between, around = (json.dumps(one)[1:-1].replace("\\u0000", GAP) for one in texts)
        else:
            file, between, around = (quote_plus(one, safe=GAP) for one in texts)
        return Gapped(file), between.encode(), Gapped(around)


_ENDED = {
    "pilotTiming": "1|12|3100|9|1|4", "pilotLog": "", "endTime": time.time(), "pilotErrorCode": 0,
    "pilotErrorDiag": "", "transExitCode": 0, "exeErrorCode": 0, "exeErrorDiag": "",
}  # fmt: skip
