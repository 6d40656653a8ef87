"""Which types of datasets (`task_datasets.type`) belong together.

Statements spell these lists out; a contract test compares them with the ones here.
"""

from __future__ import annotations

PSEUDO_INPUT = "pseudo_input"
#: what the pre-processing job of a task works on: it counts the attempts of that job
PREPROCESS_INPUT = "pp_input"
#: they count jobs: no catalogue knows them, and no pilot reads them
WITHOUT_DATA = (PSEUDO_INPUT, PREPROCESS_INPUT)
#: the task reads them, or counts by them what it has to do
INPUT_TYPES = ("input", *WITHOUT_DATA)
#: what the user gets
FINAL_OUTPUT_TYPES = ("output", "log")
#: what merge jobs read, to make the final outputs of it
UNMERGED_TYPES = ("trn_output", "trn_log")
#: final outputs of which each chosen site gets a dataset of its own; they have no files themselves
TEMPLATE_TYPES = ("tmpl_output", "tmpl_log")
OUTPUT_TYPES = (*FINAL_OUTPUT_TYPES, *UNMERGED_TYPES)
LOG_TYPES = ("log", "trn_log")
#: the stream of files that a task lists by physical name
PFN_STREAM = "IN"
#: the placeholder of what build jobs make, and the stream of the output dataset that holds it
LIBRARY_STREAM = "LIB"
#: the streams of an archive of sources that jobs read from a dataset, and of one that build jobs alone read
ARCHIVE_STREAM, SOURCES_STREAM = "TARBALL", "TARBALL_OF_BUILD"
#: what a job unpacks: its pilot copies it, however the other input is read
UNPACKED_STREAMS = (LIBRARY_STREAM, ARCHIVE_STREAM, SOURCES_STREAM)
#: the stream of the logs of merge jobs, where these have a dataset of their own
MERGE_LOG_STREAM = "LOG_MERGE"
#: attribute of the dataset that numbers jobs: where the numbers of ${SEQNUMBER} begin beside input
SEQUENCE_OFFSET = "sequenceOffset"
