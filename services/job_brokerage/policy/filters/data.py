"""Where data is and where it may go: locality, free space, storages that do not work, blocked links."""

from __future__ import annotations

from shared.brokerage.check import YES_NO, Check, Decide, Filter, Tier, Verdict, decides
from shared.brokerage.filters.data import output_of
from shared.brokerage.request import IGNORE_LOCALITY_PRIORITY, JobRequest, local_data
from shared.brokerage.world import World
from shared.model.link import BLOCKED_CLOSENESS
from shared.model.units import GB_BYTES

INPUT_LOCALITY = Check(200, "input_locality", Tier.DATA, False, "missing input", "at most", "files")
FREE_SPACE = Check(201, "free_space", Tier.CAPACITY, True, "usable space of the output storage", "more than", "GB")
WRITE_STORAGE = Check(202, "write_storage", Tier.DATA, True, "output storage works", "must be", words=YES_NO)
READ_STORAGE = Check(203, "read_storage", Tier.DATA, True, "an input storage works", "must be", words=YES_NO)
INPUT_STORAGE = Check(208, "input_storage", Tier.DATA, True, "input storage works", "must be", words=YES_NO)
BLOCKED_LINK = Check(204, "blocked_link", Tier.CONFIGURATION, False, "closeness to the nucleus", "not", "")
MOVE_BYTES = Check(206, "missing_input_size", Tier.DATA, False, "input to be moved", "less than", "GB")
MOVE_FILES = Check(207, "missing_input_files", Tier.DATA, False, "files to be moved", "less than", "files")


@decides(INPUT_LOCALITY)
def input_is_local(world: World, request: JobRequest) -> Verdict | None:
    """Analysis goes to its data, unless its priority is 2000 and more or its IO is low.

    "Don't have input data locally" is taken as: some file of some dataset is at no disk storage that the queue reads.
    """
    if not request.is_analysis or request.is_merge or request.input_files == 0:
        return None
    if request.priority >= IGNORE_LOCALITY_PRIORITY:
        return None
    cutoff = request.limits.io_intensity_cutoff_user_kb_s
    if cutoff > 0 and request.needs.io_intensity_kb_s <= cutoff:
        return None
    missing = local_data(world.columns, request).missing_files
    return Verdict(missing <= 0, missing, 0.0)


@decides(FREE_SPACE)
def free_space(world: World, request: JobRequest) -> Verdict | None:
    """The local output storage must have more than 200 GB of usable space.

    "Free space" is taken as usable: free and expired, less what must stay free and what is unavailable.
    """
    usable = output_of(world, request).usable_gb
    limit = request.limits.storage_min_free_gb
    return Verdict(usable > limit, usable, limit)


@decides(WRITE_STORAGE)
def write_storage_works(world: World, request: JobRequest) -> Verdict | None:
    """The output storage is neither blacklisted for writing nor in a down-time.

    The document skips blacklisted endpoints and does not say which: taken is the first that output goes to.
    """
    works = output_of(world, request).writable
    return Verdict(works, works, 1.0)


@decides(READ_STORAGE)
def read_storage_works(world: World, request: JobRequest) -> Verdict | None:
    """At least one input storage is neither blacklisted for reading nor in a down-time.

    Taken for analysis, which reads what is at the queue already: one that works is enough.
    """
    if request.input_files == 0:
        return None
    works = output_of(world, request).readable
    return Verdict(works, works, 1.0)


@decides(INPUT_STORAGE)
def input_storage_works(world: World, request: JobRequest) -> Verdict | None:
    """The storage that input is moved to is neither blacklisted for reading nor in a down-time.

    The document skips blacklisted endpoints and does not say which. Taken for production: the first that the queue
    reads, because missing input is moved there. Merge jobs read what was made at their queue. Work without input, and
    queues that name no storage for reading, pass.
    """
    if request.input_files == 0 and not request.is_merge:
        return None
    works = output_of(world, request).input_readable
    return Verdict(works, works, 1.0)


@decides(BLOCKED_LINK)
def link_is_open(world: World, request: JobRequest) -> Verdict | None:
    """Output goes to the nucleus: queues whose link to it is blocked (closeness -1) are left out."""
    if not request.nucleus:
        return None
    links = world.links_to(request.nucleus)
    blocked = (links.closeness == BLOCKED_CLOSENESS) & ~links.same_site
    return Verdict(~blocked, links.closeness, float(BLOCKED_CLOSENESS))


def _moves_much(request: JobRequest) -> bool:
    """Whether the task's ioIntensity is above IO_INTENSITY_CUTOFF."""
    return request.needs.io_intensity_kb_s > request.limits.io_intensity_cutoff_kb_s and request.input_files > 0


def _bytes_to_move(*, with_tape: bool) -> Decide:
    def decide(world: World, request: JobRequest) -> Verdict | None:
        """Queues that miss less than SIZE_CUTOFF_TO_MOVE_INPUT, in GB; None for low IO intensity or no input."""
        if not _moves_much(request):
            return None
        missing = local_data(world.columns, request, with_tape=with_tape).missing_bytes / GB_BYTES
        wanted = request.limits.missing_input_cutoff_gb
        return Verdict(missing < wanted, missing, wanted)

    return decide


def _files_to_move(*, with_tape: bool) -> Decide:
    def decide(world: World, request: JobRequest) -> Verdict | None:
        """Queues that miss fewer than NUM_CUTOFF_TO_MOVE_INPUT files; None for low IO intensity or no input."""
        if not _moves_much(request):
            return None
        missing = local_data(world.columns, request, with_tape=with_tape).missing_files
        wanted = float(request.limits.missing_files_cutoff)
        return Verdict(missing < wanted, missing, wanted)

    return decide


# For work of high IO intensity less than SIZE_CUTOFF_TO_MOVE_INPUT and fewer than NUM_CUTOFF_TO_MOVE_INPUT files of its
# input may be missing. The document does not speak of tape: only copies on disk count at first.
little_input_to_move = Filter(MOVE_BYTES, _bytes_to_move(with_tape=False))
few_files_to_move = Filter(MOVE_FILES, _files_to_move(with_tape=False))
# The second choice, where no queue has enough on disk: copies on tape count too.
little_input_to_move_with_tape = Filter(MOVE_BYTES, _bytes_to_move(with_tape=True))
few_files_to_move_with_tape = Filter(MOVE_FILES, _files_to_move(with_tape=True))
