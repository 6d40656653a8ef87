"""The command line that is cut once for all jobs of a chunk says what the whole rule says."""

from __future__ import annotations

import pytest

from services.job_generation.specification.command_format import format_of
from shared.model import command_line
from shared.model.command_line import UnresolvedPlaceholder, Values

STREAMS = {"IN": ["a._001.root", "a._002.root"], "ONE": ["b%20c.root"], "NONE": []}
TEXTS = {"SN": "000012", "MAXEVENTS": "100", "TASKID": "7", "PANDAID": "11"}


@pytest.mark.parametrize(
    "template",
    [
        "runs 100% of it",
        "--in=${IN} --out=${ONE} -n ${MAXEVENTS} 5%d %s",
        "${IN/L} ${IN/LS} ${IN/S} ${IN/A} ${IN/T} ${ONE/E} ${ONE/LT}",
        "${SN/P} ${SN} $JEDITASKID $ORIGINPANDAID",
        "-i ${NONE} <PANDA_ES_ONLY>--events</PANDA_ES_ONLY> ${MAXEVENTS/L}",
    ],
)
def test_a_command_line_of_plain_placeholders_is_filled_in_as_by_the_whole_rule(template: str) -> None:
    format_ = format_of(template)
    assert format_ is not None
    assert format_.filled(STREAMS, TEXTS) == command_line.fill(template, Values(STREAMS, TEXTS))


@pytest.mark.parametrize(
    "template", ["${IN,ONE}", "${IN[0:1]}", "${TRN_OUTPUT:OUTPUT}", "${IN/F}", "${SN/M[#*10]}", "${IN/M[#+1]}"]
)
def test_what_joins_cuts_pairs_lists_or_computes_is_left_to_the_whole_rule(template: str) -> None:
    assert format_of(template) is None


def test_a_placeholder_without_a_value_is_left_to_the_whole_rule_which_refuses_it() -> None:
    format_ = format_of("--x=${UNKNOWN}")
    assert format_ is not None and format_.filled(STREAMS, TEXTS) is None
    with pytest.raises(UnresolvedPlaceholder, match=r"UNKNOWN.*known here"):
        command_line.fill("--x=${UNKNOWN}", Values(STREAMS, TEXTS))
