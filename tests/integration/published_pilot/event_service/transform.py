#!/usr/bin/env python3
"""Stands for Sim_tf.py with AthenaMP, and for HITSMerge_tf.py: a line of a file is the number of an event.

AthenaMP finds the channel of the pilot in --preExec, asks it for ranges of events until there are none, and writes the
output of each into a file of its own, with the name of the output and that of the range behind it. The first range of
all fails once. The merge writes what is in the files of its input list, in the order of the list.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

CHANNEL = re.compile(r'EventRangeChannel="([^"]+)"')


def simulate(output: str, pre_exec: str) -> None:
    """Process ranges as the pilot gives them."""
    import yampl

    found = CHANNEL.search(pre_exec)
    assert found is not None, pre_exec
    pilot, has_failed = yampl.ClientSocket(found[1], "local"), False
    while True:
        pilot.send_raw(b"Ready for events")
        answer = pilot.recv_raw()[1].decode()
        print(answer)
        if answer.startswith("No more events"):
            return
        for one in json.loads(answer):
            name = one["eventRangeID"]
            if not has_failed:
                has_failed = True
                pilot.send_raw(f"ERR_ATHENAMP_PROCESS {name}: the first range fails once".encode())
                continue
            wanted = range(one["startEvent"], one["lastEvent"] + 1)
            events = [event for event in Path(one["LFN"]).read_text().split() if int(event) in wanted]
            written = Path(f"{output}.{name}").absolute()
            written.write_text("".join(f"{event}\n" for event in events))
            pilot.send_raw(f"{written},ID:{name},CPU:1,WALL:1".encode())


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(fromfile_prefix_chars="@")
    parser.add_argument("--inputEVNTFile")
    parser.add_argument("--inputHITSFile", nargs="+")
    parser.add_argument("--outputHITSFile", required=True)
    parser.add_argument("--preExec", default="")
    said = parser.parse_args(arguments)
    if said.inputHITSFile:
        Path(said.outputHITSFile).write_text("".join(Path(name).read_text() for name in said.inputHITSFile))
    else:
        simulate(said.outputHITSFile, said.preExec)


if __name__ == "__main__":
    main(sys.argv[1:])
