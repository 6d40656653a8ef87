"""Reading the XML in which a user describes the jobs of a task (PanDA client: loadXML)."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.model.job_xml import MOST_CHARACTERS, MOST_JOBS, MOST_OUTPUTS, BadJobXml, read_job_xml

FULL = """<submission>
  <title>study</title><tag>t1</tag><outds>user.ada.out</outds>
  <inds primary="true"><stream>IN</stream><name>mc:mc.evnt/</name></inds>
  <inds primary="false"><stream>BG</stream><name>mc.minbias</name></inds>
  <command>run.sh ${IN/T}</command>
  <output>hist.root</output>
  <job>
    <inds><name>mc.evnt</name><file>b.root</file><file>a.root</file></inds>
    <inds><name>mc.minbias</name><file>m.root</file></inds>
    <option name="cut" forward="true" prepend="true">3</option>
    <option name="seed" forward="true" prepend="false">7</option>
    <option name="tag" forward="no" prepend="yes">x</option>
    <output>tree.root</output><output>hist.root</output>
  </job>
  <job><inds><name>mc.evnt</name><file>c.root</file></inds><command>other.sh</command></job>
</submission>"""


def job(inside: str) -> str:
    return f"<submission><command>run</command><job>{inside}</job></submission>"


ONE_FILE = "<inds><name>mc.evnt</name><file>a</file></inds>"


def outputs(count: int) -> str:
    return "".join(f"<output>o{n}</output>" for n in range(count))


def jobs(count: int, inside: str = "") -> str:
    return "".join(f"<job><inds><name>d</name><file>f{n}</file></inds>{inside}</job>" for n in range(count))


def test_jobs_have_their_files_in_order_outputs_options_and_command() -> None:
    found = read_job_xml(FULL)
    first, second = found.jobs
    assert found.primary == "mc.evnt" and found.datasets == {"mc.evnt", "mc.minbias"}
    assert first.files == {"mc.evnt": ("b.root", "a.root"), "mc.minbias": ("m.root",)}
    assert first.outputs == ("hist.root", "tree.root") and second.outputs == ("hist.root",)
    assert first.encoded_command == "cut%3D3%20seed%3D7%20run.sh%20%24%7BIN/T%7D"
    assert second.encoded_command == "other.sh"
    assert first.name_after("hist.root") == ".cut3_tagx.hist.root" and second.name_after("hist.root") == ".hist.root"


def test_the_boundary_of_a_file_is_the_number_of_its_job() -> None:
    found = read_job_xml(FULL)
    assert found.files_of("mc:mc.evnt") == (("b.root", "a.root", "c.root"), (1, 1, 2))
    assert found.files_of("mc.other") == ((), ())
    assert found.job(2) is found.jobs[1]
    assert [found.job(boundary) for boundary in (None, 0, 3)] == [None, None, None]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<submission><job>", "it is not XML"),
        ("<jobs/>", "the outermost element is <jobs>; allowed: <submission>"),
        ("<submission/>", f"there are 0 elements <job>; allowed: 1 to {MOST_JOBS}"),
        ("<submission>" + "<job/>" * (MOST_JOBS + 1) + "</submission>", f"there are {MOST_JOBS + 1} elements <job>"),
        (job(""), "job 1 names no file"),
        (job("<inds><name>mc.evnt</name></inds>"), "job 1 names no file"),
        (job("<inds><file>a</file></inds>"), "job 1 has an <inds> without the <name> of a dataset"),
        (job("<inds><name>mc.evnt</name><file> </file></inds>"), "job 1 has a <file> without a name"),
        (job(ONE_FILE + ONE_FILE), "job 1 names dataset 'mc.evnt' twice"),
        (job("<inds><name>d</name><file>a</file><file>a</file></inds>"), "job 1 names a file of dataset 'd' twice"),
        (job(ONE_FILE + "<option>3</option>"), "job 1 has an <option> without the attribute name"),
        (job(ONE_FILE + "<input>a</input>"), "job 1 has the element <input>; allowed: command, inds, option, output"),
        (f"<submission><job>{ONE_FILE}</job></submission>", "job 1 has no <command>"),
        (
            f"<submission><command>run</command><job>{ONE_FILE}</job><job>{ONE_FILE}</job></submission>",
            "file 'a' of dataset 'mc.evnt' is in jobs 1 and 2; allowed: in one",
        ),
        ("<submission>" + "<job>" * 9 + "</job>" * 9 + "</submission>", "is 5 elements deep; allowed: at most 4"),
        (
            f"<submission><command>run</command>{outputs(MOST_OUTPUTS // 2)}{jobs(2, outputs(1))}</submission>",
            f"the jobs write {MOST_OUTPUTS + 2} files ({MOST_OUTPUTS // 2} <output> of all, times 2 jobs, and their "
            f"own); allowed: at most {MOST_OUTPUTS}",
        ),
        ("x" * (MOST_CHARACTERS + 1), f"allowed: at most {MOST_CHARACTERS}"),
        ("<submission>\ud800</submission>", "is no character of a text"),
    ],
)
def test_a_bad_text_is_refused_with_the_place_and_what_is_allowed(text: str, told: str) -> None:
    with pytest.raises(BadJobXml) as refused:
        read_job_xml(text)
    assert told in str(refused.value)


def test_outputs_of_all_jobs_are_kept_once_and_too_many_are_refused_before_they_are_made() -> None:
    told = "the jobs write 40000000 files"
    tracemalloc.start()
    with pytest.raises(BadJobXml, match=told):
        read_job_xml(f"<submission><command>run</command>{outputs(20_000)}{jobs(2_000)}</submission>")
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < 50_000_000
    found = read_job_xml(f"<submission><command>run</command>{outputs(50)}{jobs(2_000)}</submission>")
    assert {id(one.common_outputs) for one in found.jobs} == {id(found.jobs[0].common_outputs)}
    assert len(found.jobs) * len(found.jobs[0].outputs) == MOST_OUTPUTS


@pytest.mark.parametrize(
    "head",
    [
        '<!DOCTYPE submission [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>',
        '<!DOCTYPE submission SYSTEM "file:///etc/passwd">',
    ],
)
def test_a_text_with_a_document_type_is_refused_so_that_no_entity_is_expanded(head: str) -> None:
    with pytest.raises(BadJobXml, match="it has a document type"):
        read_job_xml(head + job(ONE_FILE))


@given(st.text(max_size=300) | st.text(alphabet="<>/ job submission inds", max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = read_job_xml(text)
    except BadJobXml:
        return
    assert found.jobs
