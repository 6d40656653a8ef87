"""What is decided about catalogues outside: whether they are believed, when they are asked again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from shared.catalogue.outside import CatalogueLies, Collection, DataName, FileFacts
from shared.catalogue.port import Replica
from shared.model.names import DATABASE_RELEASES, LATEST_RELEASE, WILDCARD, scope_of, stands_for_others

#: the wait after the first failed attempt, and the longest
FIRST_WAIT_S, LONGEST_WAIT_S = 5.0, 600.0
#: levels of containers in containers
DEEPEST = 20
#: transfers that one rule may stand for
TRANSFERS_TOGETHER = 500
#: files of jobs above this priority are looked up one by one (JEDI: Direct replica lookup for assigned jobs)
LOOKED_UP_ABOVE = 800
MOST = 2**53


def wait_s(attempts: int) -> float:
    """Seconds until a request that failed so often is tried again: 5, 10, 20, ... at most 600."""
    return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(30, max(0, attempts - 1)))


def data_name(name: str, scope: str | None = None) -> DataName:
    """A dataset's name with its scope; where none is known, the one that its name begins with."""
    return DataName(scope or scope_of(name), name)


def pattern_of(subject: str) -> DataName:
    """The datasets that a name stands for, as a catalogue outside is asked for them: those of one scope."""
    return data_name(DATABASE_RELEASES if subject == LATEST_RELEASE else subject)


def not_looked_up(names: Sequence[str], vo: str) -> str | None:
    """Why input of a VO with a catalogue outside cannot be found: it is asked for the names of one scope."""
    found = ", ".join(one for one in names if stands_for_others(one) and WILDCARD in pattern_of(one).scope)
    told = f"{found}: the data of {vo} is in a catalogue that is asked for the datasets of one scope"
    return f"{told}: begin the name with it, without wildcards" if found else None


def believed_files(dataset: DataName, files: Sequence[FileFacts]) -> Sequence[FileFacts]:
    """A slice of a dataset's files. Raises CatalogueLies with the first one that cannot be."""
    twice = [name for name, n in Counter(one.name.name for one in files).items() if n > 1]
    if twice:
        raise CatalogueLies(f"{dataset} has the file {twice[0]} twice")
    for one in files:
        for what, value in (("bytes", one.size_bytes), ("events", one.n_events), ("luminosity block", one.lumi_block)):
            if value is not None and not (type(value) is int and 0 <= value < MOST):
                raise CatalogueLies(f"file {one.name} of {dataset} has {value!r} {what}")
        if not one.name.name:
            raise CatalogueLies(f"{dataset} has a file without a name")
    return files


def believed_copies(dataset: Collection, n_files: int, copies: Sequence[Replica]) -> Sequence[Replica]:
    """The copies of a dataset that has so many files.

    Raises CatalogueLies with the first one that cannot be. Files may be added to an open dataset between two questions;
    a closed one has no copy with more files than it has.
    """
    for one in copies:
        if one.n_files < 0 or one.size_bytes < 0:
            raise CatalogueLies(f"{dataset.name} has {one.n_files} files and {one.size_bytes} bytes at {one.storage}")
        if not dataset.is_open and one.n_files > n_files:
            raise CatalogueLies(f"{dataset.name} has {one.n_files} files at {one.storage}, and {n_files} in all")
    return copies


def believed_partial_copies(dataset: DataName, copies: Mapping[str, tuple[int, int]]) -> None:
    """Copies of a closed dataset that are not complete, by storage.

    Of each, how many files are said to be there and how many were named. Raises CatalogueLies where files are said to
    be there and nobody can name them.
    """
    for storage, (n_said, n_named) in copies.items():
        if n_named < n_said:
            raise CatalogueLies(f"{dataset} has {n_said} files at {storage}, of which {n_named} exist")


def datasets_of(name: DataName, known: Mapping[DataName, Collection]) -> tuple[DataName, ...]:
    """The datasets of a container, through containers in it, each once and in order; a dataset itself.

    Raises CatalogueLies for a container that is in itself.
    """
    found: dict[DataName, None] = {}

    def walk(one: DataName, above: tuple[DataName, ...]) -> None:
        """Note the datasets of what stands below these containers."""
        if one in above:
            raise CatalogueLies(f"container {one} is in itself, through {' and '.join(map(str, above))}")
        collection = known.get(one)
        if collection is None:
            return
        if collection.kind == "dataset":
            found[one] = None
        for part in collection.constituents:
            walk(part, (*above, one))

    walk(name, ())
    return tuple(found)


def grouped(rows: Sequence[Mapping[str, object]]) -> list[list[Mapping[str, object]]]:
    """Transfers that one rule brings: of a task, in one direction, to one storage, by one activity."""
    groups: dict[tuple[object, ...], list[list[Mapping[str, object]]]] = {}
    for row in rows:
        key = (row["task_id"], row["direction"], row["destination_storage"], row["activity"])
        parts = groups.setdefault(key, [[]])
        if len(parts[-1]) >= TRANSFERS_TOGETHER:
            parts.append([])
        parts[-1].append(row)
    return [part for parts in groups.values() for part in parts]


def request_line(row: Mapping[str, object]) -> str:
    """What a task waits for at its catalogue, for people.

    Example: "the catalogue of atlas is to read mc.x; tried 3 times: mc.x has the file a twice; again at 10:15 UTC".
    """
    doing = {
        "read": "to read", "create": "to register datasets of", "add_files": "to register files of",
        "remove_files": "to take files out of", "close": "to close datasets of", "reopen": "to open datasets of",
        "keep": "to keep", "move": "to bring data to", "expire": "to let go", "release": "to cancel",
        "stage": "to stage in",
    }[str(row["kind"])]  # fmt: skip
    rule = f", rule {row['rule_id']}" if row["rule_id"] else ""
    why = f"; tried {row['attempts']} times: {row['reason']}" if row["reason"] else ""
    again = f"again at {str(row['next_at'])[11:19]} UTC"
    return f"the catalogue of {row['vo']} is {doing} {row['subject']}{rule}{why}; {again}"
