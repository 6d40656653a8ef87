"""The jobs of a task as its user describes them in XML (loadXML).

Source: PanDA client, prun --loadXML. The text is::

    <submission>
      <inds primary="true"><stream>IN</stream><name>DATASET</name></inds>
      <command>what each job executes</command> <output>what each job writes</output>
      <job>
        <inds><name>DATASET</name><file>FILE</file>...</inds>...
        <command>instead of the one above</command> <output>besides those above</output>...
        <option name="NAME" prepend="true" forward="true">VALUE</option>...
      </job>...
    </submission>

Options that are forwarded stand before the command (`NAME=VALUE ... command`), those that are prepended are in the
names of the outputs (`NAMEVALUE_...`). Title, tag and outds are read by clients only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import quote
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from shared.model.names import bare_name

#: jobs of one text, files that they read in all, files that they write in all, and characters of it
MOST_JOBS, MOST_FILES, MOST_OUTPUTS, MOST_CHARACTERS = 10_000, 100_000, 100_000, 4_000_000
#: texts of which the jobs are kept: those of the largest take some 15 MB
_KEPT_TEXTS = 4
#: elements inside each other: submission, job, inds, file
MOST_LEVELS = 4
_YES = ("1", "true", "yes")
_OF_SUBMISSION = frozenset({"title", "tag", "command", "output", "outds", "inds", "job"})
_OF_JOB = frozenset({"command", "output", "inds", "option"})


class BadJobXml(ValueError):
    """A text that describes no jobs; the message names the job, the value and what is allowed."""


@dataclass(frozen=True)
class XmlJob:
    """One job: its number from 1 on is the boundary of its files.

    `files`: names in order by dataset, without scope and slash; `common_outputs`: what each job writes, one tuple for
    all jobs, `own_outputs`: what this one writes besides; `options`: name and value of what is forwarded, `prefix`: of
    what is prepended to the names of its outputs.
    """

    number: int
    files: Mapping[str, tuple[str, ...]]
    common_outputs: tuple[str, ...]
    own_outputs: tuple[str, ...]
    command: str
    options: tuple[tuple[str, str], ...] = ()
    prefix: str = ""

    @property
    def outputs(self) -> tuple[str, ...]:
        """All that it writes, each name once, those of all jobs first."""
        return tuple(dict.fromkeys((*self.common_outputs, *self.own_outputs)))

    @property
    def encoded_command(self) -> str:
        """The text of ${XML_EXESTR}: options and command as a URL has them.

        Example: option n=3 and command `run.sh in` give `n%3D3%20run.sh%20in`.
        """
        return quote(" ".join([*(f"{name}={value}" for name, value in self.options), self.command]))

    def name_after(self, output: str) -> str:
        """What follows the name that the task's template gives."""
        return f".{self.prefix}.{output}" if self.prefix else f".{output}"


@dataclass(frozen=True)
class JobXml:
    """All jobs in order; `primary`: the dataset that the text calls primary."""

    jobs: tuple[XmlJob, ...]
    primary: str | None = None
    datasets: frozenset[str] = field(default_factory=frozenset)

    def job(self, boundary: int | None) -> XmlJob | None:
        """The job whose files have this boundary."""
        return self.jobs[boundary - 1] if boundary is not None and 1 <= boundary <= len(self.jobs) else None

    def files_of(self, dataset: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Names of the files of a dataset in the order of the jobs, and the boundary of each."""
        pairs = [(name, job.number) for job in self.jobs for name in job.files.get(bare_name(dataset), ())]
        return tuple(name for name, _ in pairs), tuple(number for _, number in pairs)


@lru_cache(maxsize=_KEPT_TEXTS)
def read_job_xml(text: str) -> JobXml:
    """The jobs of a text. Raises BadJobXml."""
    root = _tree(text)
    if root.tag != "submission":
        raise BadJobXml(f"the outermost element is <{root.tag}>; allowed: <submission>")
    _only(root, _OF_SUBMISSION, "<submission>")
    elements = root.findall("job")
    if not 1 <= len(elements) <= MOST_JOBS:
        raise BadJobXml(f"there are {len(elements)} elements <job>; allowed: 1 to {MOST_JOBS}")
    command = next((_text(one) for one in root.findall("command")), "")
    outputs = tuple(dict.fromkeys(_text(one) for one in root.findall("output")))
    _not_too_many_outputs(elements, len(outputs))
    jobs = tuple(_job(one, number, command, outputs) for number, one in enumerate(elements, start=1))
    _each_file_once(jobs)
    named = frozenset(name for job in jobs for name in job.files)
    return JobXml(jobs, _primary(root), named)


def _tree(text: str) -> Element:
    """The elements. A document type is refused: without one there are no entities to expand."""
    if len(text) > MOST_CHARACTERS:
        raise BadJobXml(f"it has {len(text)} characters; allowed: at most {MOST_CHARACTERS}")
    builder, levels = TreeBuilder(), 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal levels
        levels += 1
        if levels > MOST_LEVELS:
            raise BadJobXml(f"<{tag}> is {levels} elements deep; allowed: at most {MOST_LEVELS}")
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal levels
        levels -= 1
        builder.end(tag)

    def refuse(name: str, *_: object) -> None:
        raise BadJobXml(f"it has a document type ({name}); allowed: none, and no entities of its own")

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        raise BadJobXml(f"it is not XML: {error}; allowed: one <submission> with a <job> for each job") from error
    except UnicodeEncodeError as error:
        raise BadJobXml(f"character {error.start} is no character of a text") from error
    return builder.close()


def _not_too_many_outputs(jobs: Sequence[Element], n_common: int) -> None:
    """Outputs of all jobs count once for each: 20 000 of them for 2 000 jobs are forty million files."""
    n_outputs = n_common * len(jobs) + sum(len(one.findall("output")) for one in jobs)
    if n_outputs > MOST_OUTPUTS:
        raise BadJobXml(
            f"the jobs write {n_outputs} files ({n_common} <output> of all, times {len(jobs)} jobs, and their own); "
            f"allowed: at most {MOST_OUTPUTS}"
        )


def _job(element: Element, number: int, command: str, outputs: tuple[str, ...]) -> XmlJob:
    where = f"job {number}"
    _only(element, _OF_JOB, where)
    files: dict[str, tuple[str, ...]] = {}
    for one in element.findall("inds"):
        name = _named(one, where)
        if name in files:
            raise BadJobXml(f"{where} names dataset {name!r} twice; allowed: one <inds> for each dataset")
        files[name] = tuple(_text(file) for file in one.findall("file"))
        if not all(files[name]):
            raise BadJobXml(f"{where} has a <file> without a name in dataset {name!r}")
    files = {name: names for name, names in files.items() if names}
    if not files:
        raise BadJobXml(f"{where} names no file; allowed: one <file> or more in an <inds>")
    own = next((_text(one) for one in element.findall("command")), command)
    if not own:
        raise BadJobXml(f"{where} has no <command>, and <submission> has none for all jobs")
    written = tuple(_text(one) for one in element.findall("output"))
    options = [_option(one, where) for one in element.findall("option")]
    prefix = "_".join(f"{name}{value}" for name, value, prepend, _ in options if prepend)
    forwarded = tuple((name, value) for name, value, _, forward in options if forward)
    return XmlJob(number, files, outputs, written, own, forwarded, prefix)


def _option(element: Element, where: str) -> tuple[str, str, bool, bool]:
    name = element.get("name", "").strip()
    if not name:
        raise BadJobXml(f"{where} has an <option> without the attribute name")
    return name, _text(element), _is_yes(element.get("prepend")), _is_yes(element.get("forward"))


def _primary(root: Element) -> str | None:
    primaries = [_named(one, "<submission>") for one in root.findall("inds") if _is_yes(one.get("primary"))]
    if len(primaries) > 1:
        raise BadJobXml(f"{', '.join(primaries)} are all primary; allowed: one dataset")
    return primaries[0] if primaries else None


def _each_file_once(jobs: tuple[XmlJob, ...]) -> None:
    """A file of a dataset is read by one job: what becomes of it is what becomes of that job."""
    owners: dict[tuple[str, str], int] = {}
    for job, dataset, name in _files(jobs):
        before = owners.setdefault((dataset, name), job)
        if before != job:
            raise BadJobXml(f"file {name!r} of dataset {dataset!r} is in jobs {before} and {job}; allowed: in one")
    if len(owners) > MOST_FILES:
        raise BadJobXml(f"the jobs name {len(owners)} files; allowed: at most {MOST_FILES}")
    for one in jobs:
        for dataset, names in one.files.items():
            if len(set(names)) < len(names):
                raise BadJobXml(f"job {one.number} names a file of dataset {dataset!r} twice; allowed: each once")


def _files(jobs: tuple[XmlJob, ...]) -> Iterator[tuple[int, str, str]]:
    for job in jobs:
        for dataset, names in job.files.items():
            for name in names:
                yield job.number, dataset, name


def _named(element: Element, where: str) -> str:
    name = bare_name(next((_text(one) for one in element.findall("name")), ""))
    if not name:
        raise BadJobXml(f"{where} has an <inds> without the <name> of a dataset")
    return name


def _only(element: Element, allowed: frozenset[str], where: str) -> None:
    for one in element:
        if one.tag not in allowed:
            raise BadJobXml(f"{where} has the element <{one.tag}>; allowed: {', '.join(sorted(allowed))}")


def _text(element: Element) -> str:
    return (element.text or "").strip()


def _is_yes(value: str | None) -> bool:
    return (value or "").lower() in _YES
