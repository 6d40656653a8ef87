#!/usr/bin/env python3
"""Stands for PanDA's scripts on worker nodes: takes their options and writes the files that its command line names.

Which script it is says the name that it is called by: runGen, runAthena, runMerge, buildGen or buildJob, whatever
version stands behind a hyphen. Checked by hand against the scripts of panda-wnscript (96788a6): what is read and
written under which option, and that input which is not there ends it. It builds and executes nothing: an output holds
the names of what was read. It imports nothing of Orrery, so that a pilot can run it.
"""

from __future__ import annotations

import ast
import getopt
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NO_INPUT, NOT_UNDERSTOOD = 220, 40
_COMMON = ["pilotpars", "debug", "oldPrefix=", "newPrefix=", "directIn", "sourceURL=", "lfcHost=", "envvarFile=",
           "useFileStager", "accessmode=", "useCMake"]  # fmt: skip
_OF_RUNS = ["inputGUIDs=", "liveLog=", "inMap=", "useAthenaPackages", "dbrFile=", "dbrRun=", "notExpandDBR",
            "usePFCTurl", "skipInputByRetry=", "writeInputToTxt=", "rootVer=", "enable-jem", "jem-config=",
            "cmtConfig=", "useRootCore", "preprocess", "postprocess"]  # fmt: skip
#: short and long options of each script
OPTIONS: dict[str, tuple[str, list[str]]] = {
    "runGen": ("i:o:r:j:l:p:u:a:", [
        *_COMMON, *_OF_RUNS, "mergeOutput", "mergeType=", "mergeScript=", "givenPFN", "useMana", "manaVer=",
        "execWithRealFileNames", "fileToSave=", "fileToLoad=",
    ]),
    "runAthena": ("l:r:j:i:o:bcp:u:f:a:m:n:e", [
        *_COMMON, "inputGUIDs=", "minbiasGUIDs=", "cavernGUIDs=", "shipInput", "addPoolFC=", "corCheck", "mcData=",
        "notSkipMissing", "givenPFN", "beamHalo=", "beamGas=", "trf", "ara", "dbrFile=", "generalInput",
        "guidBoundary=", "collRefName=", "useNextEvent", "liveLog=", "dbrRun=", "useLocalIO", "codeTrace", "usePFCTurl",
        "copytool=", "eventPickTxt=", "eventPickSt=", "eventPickNum=", "skipInputByRetry=", "tagFileList=",
        "enable-jem", "jem-config=", "mergeOutput", "mergeType=", "mergeScript=", "noExpandDBR", "useAthenaMT",
        "preprocess", "postprocess", "useArgJson",
    ]),
    "runMerge": ("i:o:r:j:l:p:u:a:t:f:", [
        *_COMMON, *_OF_RUNS, "libTgz=", "outDS=", "parentDS=", "parentContainer=", "mergeSingleFile",
    ]),
    "buildGen": ("i:o:u:r:", [
        *_COMMON, "bexec=", "useAthenaPackages", "rootVer=", "useRootCore", "cmtConfig=", "noCompile", "useMana",
        "manaVer=", "noTarballDownload",
    ]),
    "buildJob": ("i:o:u:", [*_COMMON, "copytool=", "noCompile", "noTarballDownload"]),
}  # fmt: skip


def script_of(name: str) -> str:
    """The script that a file or address stands for: runGen of http://host/trf/user/runGen-00-00-02."""
    return name.rpartition("/")[2].partition("-")[0]


def run(script: str, arguments: list[str], folder: Path) -> int:
    """Does in a folder what the script does there; its exit code."""
    short, long = OPTIONS[script]
    try:
        options, rest = getopt.getopt(arguments, short, long)
    except getopt.GetoptError as error:
        sys.stderr.write(f"{script}: {error}\n")
        return NOT_UNDERSTOOD
    given = dict(options)
    if script.startswith("build"):
        (folder / given["-o"]).write_text(f"built of {given['-i']}\n")
        return 0
    if script == "runMerge":
        return _merged(rest, given, folder)
    read = _listed(given.get("-i", "[]"))
    is_elsewhere = "--givenPFN" in given or "--directIn" in given
    missing = [] if is_elsewhere else [one for one in read if not (folder / one).exists()]
    if read and len(missing) == len(read):
        sys.stderr.write(f"{script}: no input file is available: {missing}\n")
        return NO_INPUT
    for name in _written(_named(ast.literal_eval(given.get("-o", "{}")))):
        # pilots take no empty file for an output
        (folder / name).write_text("".join(f"{one}\n" for one in read if one not in missing) or f"{name}\n")
    return 0


def _merged(rest: list[str], given: dict[str, str], folder: Path) -> int:
    """Each pair `input,input:output` is one file; `-i` and `-o` name one more."""
    pairs = [one.rpartition(":")[::2] for one in rest if ":" in one]
    if "-o" in given:
        pairs.append((",".join(_listed(given.get("-i", "[]"))), given["-o"]))
    for read, output in pairs:
        names = read.split(",")
        if missing := [one for one in names if not (folder / one).exists()]:
            sys.stderr.write(f"runMerge: no input file is available: {missing}\n")
            return NO_INPUT
        (folder / output).write_bytes(b"".join((folder / one).read_bytes() for one in names))  # logs are archives
    return 0


def _listed(text: str) -> list[str]:
    found = ast.literal_eval(text) if text.startswith("[") else text.split(",")
    return [str(one) for one in found if one]


def _named(outputs: Any) -> Iterator[str]:
    """The names to write: values of runGen, and of runAthena the last of each tuple in its lists."""
    for value in outputs.values():
        if isinstance(value, str):
            yield value
        else:
            yield from (one if isinstance(one, str) else one[-1] for one in value)


def _written(names: Iterator[str]) -> Iterator[str]:
    """Yield names of files: for `regex|a.*\\.root`, which runGen takes as it is, a1.root, a2.root and a3.root."""
    for name in names:
        if name.startswith("regex|"):
            text = name.partition("|")[2].replace("\\", "")
            yield from (text.replace(".*", str(number)) for number in (1, 2, 3))
        else:
            yield name


if __name__ == "__main__":
    sys.exit(run(script_of(sys.argv[0]), sys.argv[1:], Path.cwd()))
