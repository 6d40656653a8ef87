"""Source URLs in the command lines of jobs: each gets the permission of the job, and nothing else is changed."""

from __future__ import annotations

import time
from base64 import b64decode, b64encode
from typing import Any

import orjson
import pytest

from shared.signed_sources.places import filled, signed, spots_of

PERMISSION = "12.1800000000.abc"
URL = "https://h:25443"
SIGNED = f"{URL}/signed/{PERMISSION}"


def line_of(parameters: str, **fields: Any) -> str:
    return str(signed({"jobPars": parameters, **fields}, PERMISSION)["jobPars"])


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        (f'-j "" --sourceURL {URL} -r . -a jobO.1.tar.gz', f'-j "" --sourceURL {SIGNED} -r . -a jobO.1.tar.gz'),
        (f"-i sources.1.tar.gz --sourceURL {URL}", f"-i sources.1.tar.gz --sourceURL {SIGNED}"),
        (f"--sourceURL={URL}/ -r .", f"--sourceURL={SIGNED} -r ."),
        (f"--sourceURL '{URL}' -r .", f"--sourceURL '{SIGNED}' -r ."),
        (f"wget {URL}/cache/jobO.1.tar.gz", f"wget {SIGNED}/cache/jobO.1.tar.gz"),
        (f"curl {URL}/elsewhere http://other:1/cache/x.gz", f"curl {URL}/elsewhere http://other:1/cache/x.gz"),
        (f"-p see{URL} {URL}5", f"-p see{URL} {URL}5"),
    ],
)
def test_the_source_url_of_the_task_gets_the_permission(parameters: str, told: str) -> None:
    assert line_of(parameters, sourceURL=URL) == told
    assert line_of(parameters, sourceURL=URL + "/") == told


def test_a_source_url_that_the_client_wrote_itself_gets_it_too() -> None:
    # phpo writes the address where the other programs of the client write ${SURL}
    assert line_of(f"-a jobO.1.tar.gz --sourceURL {URL} -p {URL}/x") == (
        f"-a jobO.1.tar.gz --sourceURL {SIGNED} -p {URL}/x"
    )


def test_steps_and_encoded_command_lines_get_it_too() -> None:
    plain = f"-a jobO.1.tar.gz --sourceURL {URL} -r ."
    spec = {
        "jobPars": b64encode(plain.encode()).decode(),
        "sourceURL": URL,
        "preprocess": {"command": "runHPO", "args": f"--preprocess {plain}"},
        "taskID": 12,
    }
    found = signed(spec, PERMISSION)
    assert b64decode(found["jobPars"]).decode() == plain.replace(URL, SIGNED)
    assert found["preprocess"] == {"command": "runHPO", "args": f"--preprocess {plain.replace(URL, SIGNED)}"}
    assert found["sourceURL"] == URL and found["taskID"] == 12


@pytest.mark.parametrize("parameters", ["", "--maxEvents 5", "abcdefgh", "-r https://h:25443"])
def test_a_command_line_without_a_source_url_stays_as_it_is(parameters: str) -> None:
    assert line_of(parameters) == parameters


def test_a_command_line_full_of_addresses_takes_no_time() -> None:
    text = " ".join(f"--sourceURL http://h{number}:1/x{number}" for number in range(20_000))
    begun = time.perf_counter()
    line_of(text)
    assert time.perf_counter() - begun < 1.0


@pytest.mark.parametrize(
    "spec",
    [
        {"jobPars": f'-j "" --sourceURL {URL} -r . -a ä.gz', "sourceURL": URL, "taskID": 5},
        {"jobPars": f"--sourceURL {URL}", "preprocess": {"args": f"-a x --sourceURL '{URL}' -b {URL}/cache/y"}},
        {"jobPars": "--maxEvents 5 -s $$", "sourceURL": URL, "preprocess": {"command": f"curl {URL}/cache/z"}},
    ],
)
def test_what_is_filled_in_at_the_stored_places_is_what_reading_the_text_gives(spec: dict[str, Any]) -> None:
    text, spots = orjson.dumps(spec).decode(), spots_of(spec)
    assert spots is not None
    assert orjson.loads(filled(text, spots, PERMISSION)) == signed(spec, PERMISSION) != spec


@pytest.mark.parametrize(
    "spec",
    [
        {"jobPars": "--maxEvents 5"}, {"jobPars": "--maxEvents 5", "sourceURL": URL}, {},
        {"jobPars": f"--sourceURL {URL}/ -r ."},
        {"jobPars": b64encode(f"--sourceURL {URL}".encode()).decode(), "sourceURL": URL},
    ],
)  # fmt: skip
def test_where_more_must_change_or_nothing_no_place_is_stored(spec: dict[str, Any]) -> None:
    assert spots_of(spec) is None
