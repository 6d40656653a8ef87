"""Placeholders."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.model.command_line import (
    UnresolvedPlaceholder,
    Values,
    compact,
    file_name,
    fill,
    placeholders,
    reads,
)
from shared.model.placeholders import computed

NAMES = ["AOD._000001.pool", "AOD._000002.pool", "AOD._000017.pool"]


def test_one_file_is_its_name_and_several_are_compact_where_one_number_differs() -> None:
    assert fill("${IN}", Values({"IN": NAMES[:1]})) == "AOD._000001.pool"
    assert fill("${IN}", Values({"IN": NAMES})) == "AOD._[000001,000002,000017].pool"


def test_names_that_differ_in_more_than_one_number_are_a_comma_list() -> None:
    assert compact(["a1b1", "a2b2"]) == "a1b1,a2b2"
    assert compact(["a1", "b2"]) == "a1,b2"
    assert compact(["f9", "f10"]) == "f9,f10"


def test_attempt_suffixes_are_left_out_of_the_compact_form() -> None:
    assert compact(["log._01.tgz.1", "log._02.tgz.3"]) == "log._[01,02].tgz"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("${IN/L}", "a,b"),
        ("${IN/LS}", "a b"),
        ("${IN/LA}", "'a','b'"),
        ("${DBR}", "${DBR}"),
        ("${IN/T}", "['a','b']"),
        ("${IN[1:]/L}", "b"),
        ("${IN[0:1]}", "a"),
        ("${IN,SEC/L}", "a,b,c"),
    ],
)
def test_decorators_slices_and_joined_streams(template: str, expected: str) -> None:
    assert fill(template, Values({"IN": ["a", "b"], "SEC": ["c"]})) == expected


def test_e_lists_every_name_with_commas_and_without_url_codes() -> None:
    assert fill("${IN/E}", Values({"IN": ["a%201.root", "a%202.root"]})) == "a 1.root,a 2.root"


def test_numbers_and_texts_are_filled_in_and_event_service_parts_left_out() -> None:
    values = Values({}, {"MAXEVENTS": "100", "RNDMSEED": "7", "TASKID": "42"})
    text = "--max=${MAXEVENTS} <PANDA_ES_ONLY>--x=${Y}</PANDA_ES_ONLY>--seed=${RNDMSEED} --t=$JEDITASKID"
    assert fill(text, values) == "--max=100 --seed=7 --t=42"


def test_what_says_how_merge_jobs_of_the_event_service_are_run_is_no_part_of_a_command_line() -> None:
    tags = "<PANDA_ESMERGE_TRF>M_tf.py</PANDA_ESMERGE_TRF><PANDA_ESMERGE_JOBP>--in=${TRN_OUTPUT0}</PANDA_ESMERGE_JOBP>"
    assert fill(f"--in=${{IN}} {tags}--last", Values({"IN": ["a"]})) == "--in=a --last"


def test_a_placeholder_without_value_is_refused_with_those_that_have_one() -> None:
    with pytest.raises(UnresolvedPlaceholder, match=r"\$\{NOWHERE\} has no value; known here: IN, SN"):
        fill("${NOWHERE}", Values({"IN": ["a"]}, {"SN": "1"}))


def test_merge_pairs_join_each_unmerged_stream_with_its_output() -> None:
    streams = {"TRN_OUTPUT0": ["a", "b"], "TRN_OUTPUT1": ["c", "d"], "OUTPUT0": ["x"], "OUTPUT1": ["y"],
               "TRN_LOG0": ["l"], "LOG0": ["m"]}  # fmt: skip
    assert fill("-t ${TRN_OUTPUT:OUTPUT} ${TRN_LOG:LOG}", Values(streams)) == "-t a,b:x c,d:y l:m"


def test_a_serial_number_is_plain_in_a_text_unless_it_asks_for_six_digits() -> None:
    assert fill("${SN} ${SN/P}", Values({}, {"SN": "000120"})) == "120 000120"


def test_the_logs_of_all_streams_are_merged_into_one() -> None:
    streams = {"TRN_LOG0": ["a", "b"], "TRN_LOG1": ["c"], "TRN_OUTPUT0": ["x"], "LOG_MERGE": ["m"]}
    assert fill("${TRN_LOG_MERGE:LOG_MERGE}", Values(streams)) == "a,b,c:m"
    assert [reads("-t ${TRN_LOG_MERGE:LOG_MERGE}", one) for one in ("TRN_LOG0", "TRN_OUTPUT0")] == [True, False]


def test_serial_numbers_have_six_digits_in_both_forms() -> None:
    assert file_name("HITS.$JEDITASKID._${SN/P}.root", 12, 7) == "HITS.7._000012.root"
    assert file_name("log.${SN}.tgz", 1_234_567, 7) == "log.1234567.tgz"


def test_the_placeholders_of_a_template_are_known_without_decorators() -> None:
    assert placeholders("${IN/T} x ${RNDMSEED} ${SN/P}") == {"IN", "RNDMSEED", "SN"}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("--skip=${SN/M[(#-1)*100]}", "--skip=1100"),
        ("${MAXEVENTS/M[#/4]} ${MAXEVENTS/M[#/5]} ${MAXEVENTS/M[#//4]}", "2.5 2 2"),
        ("${SEQNUMBER/M[-#%3 + 0.5]}", "2.5"),
        ("${IN/M[#*2]}", "14"),
    ],
)
def test_m_computes_with_the_number_or_the_one_name_of_a_stream(template: str, expected: str) -> None:
    values = Values({"IN": ["7"]}, {"SN": "000012", "MAXEVENTS": "10", "SEQNUMBER": "1"})
    assert fill(template, values) == expected


def test_task_and_job_are_known_by_their_own_numbers() -> None:
    values = Values({}, {"TASKID": "7", "PANDAID": "4242"})
    assert fill("-t $JEDITASKID -j $ORIGINPANDAID ${PANDAID} $JEDITASKIDS", values) == "-t 7 -j 4242 4242 $JEDITASKIDS"


@pytest.mark.parametrize(
    ("template", "why"),
    [("${IN/M[#*2]}", "'f1.root'"), ("${SN/M[1/#]}", "divides 0 by zero"), ("${TWO/M[#]}", "has no value")],
)
def test_m_without_a_number_is_refused_with_the_reason(template: str, why: str) -> None:
    with pytest.raises(UnresolvedPlaceholder, match=why):
        fill(template, Values({"IN": ["f1.root"], "TWO": ["1", "2"]}, {"SN": "000000"}))


def test_f_is_the_file_that_lists_the_names_of_a_dataset() -> None:
    values = Values({"IN": ["a", "b"], "IN2": ["c"]}, {}, {"IN": "mc.evnt", "IN2": "mc.minbias"})
    assert fill("--in=@${IN/F} --mb=@${IN2/F}", values) == "--in=@tmpin_mc.evnt --mb=@tmpin_mc.minbias"
    with pytest.raises(UnresolvedPlaceholder, match=r"\$\{OUTPUT0/F\} has no value; known here: IN, IN2"):
        fill("${OUTPUT0/F}", values)


@given(st.text(alphabet="0123456789#+-*/%(). []{}$value_", max_size=30), st.integers(-5, 10**6))
def test_a_formula_gives_a_number_or_a_reason_and_nothing_else(formula: str, value: int) -> None:
    try:
        text = computed(formula, value)
    except ValueError as error:
        assert "formula" in str(error)
    else:
        assert float(text) is not None
