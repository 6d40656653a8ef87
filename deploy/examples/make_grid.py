#!/usr/bin/env python3
"""Make a grid folder out of facts and stated synthetic values.

    make_grid.py FACTS [--output FOLDER] [--full]

Facts (read from FACTS/queues.json and FACTS/network_metrics.json[.gz]): names of queues, their sites, delivered
compute (`gflops`), storages with free space (TB), and all numbers of all network links.

Everything else is synthetic, drawn from a fixed seed and the name alone, so that the small and the full grid agree:

* cores, memory, times, scratch space, connectivity, software: `synthetic_queue`;
* copy tool and protocols: `mv` between folders of this machine, so that a real pilot runs at any of these queues;
* total and expired space: free space is 10 % to 30 % of the total, 1 % to 4 % is expired: `synthetic_storage`;
* event service and jumbo jobs: the queues of `EVENT_SERVICE_QUEUES` and `JUMBO_QUEUES`;
* nuclei: the sites of `NUCLEI`; type, status and policies follow from words in the queue's name.

Without --full: `SITES_OF_EXAMPLE` sites, mostly at most `QUEUES_PER_SITE` queues each, and only the links between them.
A queue without a site is left out and reported. The files that ship with Orrery were made by this script; nothing that
runs needs the facts.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

SEED = 20240808
SITES_OF_EXAMPLE = 32
QUEUES_PER_SITE = 2
MAX_QUEUES_OF_EXAMPLE = 48
NUCLEI = (
    "BNL-ATLAS", "CERN-PROD", "FZK-LCG2", "IN2P3-CC", "INFN-T1", "NDGF-T1", "RAL-LCG2", "SARA-MATRIX", "TRIUMF-LCG2",
    "pic",
)  # fmt: skip
#: queues that also take event service, and the one that is kept for jumbo jobs: together fewer than brokerage ranks, so
#: that the one for jumbo jobs is among them
EVENT_SERVICE_QUEUES = ("FZK-LCG2", "IN2P3-CC", "MWT2", "NIKHEF", "TOKYO-LCG2", "TRIUMF-LCG2", "pic")
JUMBO_QUEUES = ("CSCS-LCG2-ALPS",)
TIER_1 = {*NUCLEI, "RRC-KI-T1"} - {"CERN-PROD"}
LINK_ACTIVITIES = ("Production Input", "Production Output", "Express")
STORAGE_KINDS = ("DATADISK", "SCRATCHDISK", "DATATAPE", "MCTAPE", "VP_DISK")
PLATFORMS = ("x86_64-el9-gcc13-opt", "x86_64-centos7-gcc11-opt", "x86_64-centos7-gcc8-opt", "x86_64-slc6-gcc62-opt")
#: what a pilot does with files: read input, write output, write the log
STAGING = ("pr", "pw", "pl")
#: the storages are folders here, so that a real pilot runs at these queues on one machine
LOCAL_STORAGES = "/var/tmp/orrery-storages"
RESOURCE_TYPES = [
    {"resource_name": "SCORE", "mincore": 1, "maxcore": 1, "minrampercore": None, "maxrampercore": 2000},
    {"resource_name": "SCORE_HIMEM", "mincore": 1, "maxcore": 1, "minrampercore": 2001, "maxrampercore": None},
    {"resource_name": "MCORE", "mincore": 2, "maxcore": None, "minrampercore": None, "maxrampercore": 2000},
    {"resource_name": "MCORE_HIMEM", "mincore": 2, "maxcore": None, "minrampercore": 2001, "maxrampercore": None},
]
SHARES = [
    {"name": "Production", "value": 60, "queue_id": 9000},
    {"name": "Analysis", "value": 35, "queue_id": 9001},
    {"name": "Test", "value": 5, "prodsourcelabel": "(prod_)?test|ptest|rc_test.*", "queue_id": 9002},
    {"name": "Express", "value": 5, "parent": "Production", "prodsourcelabel": "managed",
     "processingtype": "urgent", "queue_id": 9003},
    {"name": "Data", "value": 15, "parent": "Production", "prodsourcelabel": "managed",
     "processingtype": "reprocessing|deriv", "queue_id": 9004},
    {"name": "MC", "value": 40, "parent": "Production", "prodsourcelabel": "managed", "queue_id": 9005},
    {"name": "Express Analysis", "value": 5, "parent": "Analysis", "prodsourcelabel": "user|panda",
     "processingtype": "express", "queue_id": 9006},
    {"name": "User Analysis", "value": 30, "parent": "Analysis", "prodsourcelabel": "user|panda", "queue_id": 9007},
]  # fmt: skip


def chance(name: str, what: str) -> random.Random:
    """A generator of the seed, the name and the purpose only: adding a queue changes no other queue."""
    return random.Random(f"{SEED}:{what}:{name}")


def read_facts(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Queues and links as the facts have them."""
    links = folder / "network_metrics.json.gz"
    text = gzip.decompress(links.read_bytes()) if links.exists() else (folder / "network_metrics.json").read_bytes()
    return json.loads((folder / "queues.json").read_text()), json.loads(text)


def kind_of_storage(name: str) -> str:
    """DATADISK of "AGLT2_DATADISK"; "" for kinds that brokerage does not look at."""
    return next((kind for kind in STORAGE_KINDS if name.endswith(f"_{kind}")), "")


def synthetic_queue(name: str, fact: dict[str, Any]) -> dict[str, Any]:
    """One CRIC record; words in the name decide what kind of queue it is."""
    draw = chance(name, "queue")
    upper = name.upper()
    analysis = upper.startswith("ANALY_")
    high_memory, opportunistic = "VHIMEM" in upper, "OPP" in upper or "BACKFILL" in upper or "BOINC" in upper
    single = upper.endswith("_MERGE") or (analysis and "_VP" in upper)
    cores = 1 if single else 8
    ram_per_core = 8000 if high_memory else draw.choice((2000, 3000, 4000, 4000, 5000))
    cloudy = "K8S" in upper or "CLOUD" in upper
    test = "TEST" in upper
    status = "test" if test else "brokeroff" if upper.endswith("LODISK") else "online"
    policy = "type=evgen:100%,type=simul:100%,type=any:0%" if opportunistic else ""
    storages = {
        kind: [one for one in sorted(fact["storages_free_tb"]) if kind_of_storage(one) == kind]
        for kind in STORAGE_KINDS
    }
    own = [one for one in storages["DATADISK"] if one.lower().startswith(fact["site"].lower())] or storages["DATADISK"][
        :1
    ]
    roles = {
        "read_lan": own, "write_lan": own,
        "read_lan_analysis": storages["VP_DISK"] + own + storages["SCRATCHDISK"][:1],
        "write_lan_analysis": storages["SCRATCHDISK"][:1] or own,
    }  # fmt: skip
    return {
        "siteid": name, "nickname": name, "status": status,
        "type": "analysis" if analysis else "production" if upper.endswith("_MERGE") or opportunistic else "unified",
        "cloud": "WORLD", "atlas_site": fact["site"], "capability": "score" if single else "ucore",
        "workflow": "push" if "CSCS" in upper or "NDGF" in fact["site"] else "pull_ups",
        "jobseed": "all" if name in (*EVENT_SERVICE_QUEUES, *JUMBO_QUEUES) else "std",
        "corecount": cores, "corepower": round(draw.uniform(8.0, 16.0), 1),
        "maxtime": 43200 if "SHORT" in upper else draw.choice((172800, 259200, 345600)), "mintime": 0,
        "maxrss": ram_per_core * cores, "minrss": 2001 * cores if high_memory else 0, "meanrss": 2000,
        "maxwdir": draw.choice((15000, 20000, 25000)) * cores, "maxinputsize": 80000, "maxdiskio": None,
        "pledgedcpu": -1 if opportunistic else fact["gflops"] // 4000, "transferringlimit": 0,
        "fairsharepolicy": policy, "releases": ["ANY"] if cloudy else ["AUTO"], "is_cvmfs": True,
        "direct_access_lan": draw.random() < 0.6, "direct_access_wan": draw.random() < 0.2,
        "wnconnectivity": "http#IPv4" if draw.random() < 0.08 else "full#IPv4", "transtimehi": 2, "transtimelo": 7,
        "catchall": "mv_final_destination,useJumboJobs" if name in JUMBO_QUEUES else "mv_final_destination",
        "params": {},
        "astorages": {role: names for role, names in roles.items() if names},
        "state": "ACTIVE", "copytools": {"mv": {"setup": ""}},
        "acopytools": {use: ["mv"] for use in (*STAGING, *(role for role, names in roles.items() if names))},
    }  # fmt: skip


def synthetic_storage(name: str, free_tb: float, site: str) -> dict[str, Any]:
    """One storage record in GB; the free space is a fact, the rest follows from it."""
    draw = chance(name, "storage")
    tape = kind_of_storage(name).endswith("TAPE")
    free = round((free_tb or (5000.0 if tape else 0.0)) * 1024, 1)
    total = round(free / draw.uniform(0.1, 0.3), 1) if free else 1024.0
    return {
        "ddm_endpoint_name": name, "site_name": site, "ddm_spacetoken_name": kind_of_storage(name),
        "type": kind_of_storage(name), "is_tape": "Y" if tape else "N", "space_total": total, "space_free": free,
        "space_used": round(total - free, 1), "space_expired": round(total * draw.uniform(0.01, 0.04), 1),
        "space_min_free": round(min(free * 0.05, 51200.0), 1), "space_unavailable": 0,
        "detailed_status": {f"{verb}_{net}": "ON" for verb in ("read", "write") for net in ("lan", "wan")},
        "state": "ACTIVE", "is_deterministic": True,
        "arprotocols": {
            f"{verb}_{net}": [{"id": 1, "endpoint": "file://localhost", "path": f"{LOCAL_STORAGES}/{name}/"}]
            for verb in ("read", "write") for net in ("lan", "wan")
        },
    }  # fmt: skip


def synthetic_software(name: str) -> dict[str, Any]:
    """Platforms, containers and hardware of one queue."""
    draw = chance(name, "software")
    cpu = {
        "type": "cpu",
        "arch": ["x86_64"],
        "instr": draw.choice((["avx2"], ["avx2"], ["avx512"])),
        "vendor": ["intel", "amd"],
    }
    gpu = {"type": "gpu", "vendor": ["nvidia"], "model": ["a100"]}
    return {
        "cmtconfigs": list(PLATFORMS[: draw.choice((2, 3, 3, 4))]), "containers": ["any", "/cvmfs"],
        "cvmfs": ["atlas", "nightlies"], "architectures": [cpu, gpu] if draw.random() < 0.1 else [cpu], "tags": [],
    }  # fmt: skip


def link_of(fact: dict[str, Any]) -> dict[str, Any]:
    """The part of one link's record that is read: closeness, files of the kept activities, throughput."""
    link: dict[str, Any] = {"src": fact["src"], "dst": fact["dst"]}
    if "closeness" in fact:
        link["closeness"] = fact["closeness"]
    kept = {
        verb: {
            activity: numbers
            for activity, numbers in fact.get("files", {}).get(verb, {}).items()
            if activity in LINK_ACTIVITIES
        }
        for verb in ("done", "queued")
    }
    if any(kept.values()):
        link["files"] = {verb: numbers for verb, numbers in kept.items() if numbers}
    if fact.get("mbps", {}).get("dashb"):
        link["mbps"] = {"dashb": fact["mbps"]["dashb"]}
    return link


def choose_example(queues: dict[str, Any]) -> dict[str, Any]:
    """All nuclei, then the sites with most compute; of each the largest ordinary queues, and two oddities."""
    by_site: dict[str, list[str]] = {}
    for name, fact in sorted(queues.items(), key=lambda item: (-item[1]["gflops"], item[0])):
        by_site.setdefault(fact["site"], []).append(name)
    size = {site: sum(queues[name]["gflops"] for name in names) for site, names in by_site.items()}
    ranked = sorted(by_site, key=lambda site: (site not in NUCLEI, -size[site], site))[:SITES_OF_EXAMPLE]
    ordinary = [[name for name in by_site[site] if "TEST" not in name.upper()] for site in ranked]
    chosen = [names[0] for names in ordinary if names]
    seconds = [name for names in ordinary for name in names[1:QUEUES_PER_SITE]]
    oddities = [name for site in ranked for name in by_site[site] if "TEST" in name.upper() or "_VP" in name.upper()][
        :2
    ]
    room = MAX_QUEUES_OF_EXAMPLE - len(chosen) - len(oddities)
    return {name: queues[name] for name in sorted({*chosen, *seconds[:room], *oddities})}


def home_of_storages(queues: dict[str, Any]) -> dict[str, tuple[str, float]]:
    """The site and the free space (TB) of each storage.

    The site is that of most queues that use the storage; of equals, the one whose name the storage's name starts with.
    """
    votes: dict[str, Counter[str]] = {}
    free: dict[str, float] = {}
    for _, fact in sorted(queues.items()):
        for name, free_tb in fact["storages_free_tb"].items():
            if kind_of_storage(name):
                votes.setdefault(name, Counter())[fact["site"]] += 1
                free[name] = free_tb
    return {
        name: (
            min(counts, key=lambda site: (-counts[site], not name.lower().startswith(site.lower()), site)),
            free[name],
        )
        for name, counts in votes.items()
    }


def make_grid(queue_facts: dict[str, Any], link_facts: dict[str, Any], full: bool) -> tuple[dict[str, Any], list[str]]:
    """All files of the grid by name, and the queues that were left out because they have no site."""
    left_out = sorted(name for name, fact in queue_facts.items() if not fact.get("site"))
    usable = {name: fact for name, fact in queue_facts.items() if fact.get("site")}
    homes = home_of_storages(usable)
    queues = usable if full else choose_example(usable)
    made = {name: synthetic_queue(name, queues[name]) for name in sorted(queues)}
    sites = {fact["site"] for fact in queues.values()}
    named = {one for queue in made.values() for names in queue["astorages"].values() for one in names}
    tapes = {name for name, (site, _) in homes.items() if site in sites and kind_of_storage(name).endswith("TAPE")}
    storages = {name: synthetic_storage(name, homes[name][1], homes[name][0]) for name in sorted(named | tapes)}
    sites |= {storage["site_name"] for storage in storages.values()}
    defaults = {
        site: [one for one in storages if homes[one][0] == site and one.endswith("_DATADISK")] for site in sites
    }
    software = {name: synthetic_software(name) for name in made if made[name]["releases"] == ["AUTO"]}
    source = {"cmtconfig": "", "project": "", "release": "", "tag": "", "container_name": "atlas/athanalysis:24.2.0",
              "sources": ["/cvmfs/unpacked.example.org/atlas/athanalysis:24.2.0"]}  # fmt: skip
    return {
        "queues": made,
        "sites": {
            site: {
                "name": site,
                "state": "ACTIVE",
                "tier_level": 0 if site == "CERN-PROD" else 1 if site in TIER_1 else 2,
                "cloud": "WORLD",
                "datapolicies": ["Nucleus"] if site in NUCLEI else [],
                "default_ddm_endpoint": min(defaults[site], default=""),
            }
            for site in sorted(sites)
        },
        "storages": storages,
        "network_metrics": {
            key: link_of(fact)
            for key, fact in sorted(link_facts.items())
            if full or (fact["src"] in sites and fact["dst"] in sites)
        },
        "software_map": {**software, "ALL": {"tags": [source]}},
        "resource_types": RESOURCE_TYPES,
        "shares": SHARES,
    }, left_out


def write_grid(files: dict[str, Any], folder: Path, gzipped: tuple[str, ...]) -> None:
    """One file each, a record a line; gzip without a time inside, so that the bytes never change."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if name in gzipped:
            text = json.dumps(content, separators=(",", ":"), sort_keys=True).encode()
            (folder / f"{name}.json.gz").write_bytes(gzip.compress(text, 9, mtime=0))
            continue
        rows = content.items() if isinstance(content, dict) else ((None, row) for row in content)
        lines = [
            (f"{json.dumps(key)}: " if key is not None else "") + json.dumps(row, separators=(",", ":"))
            for key, row in rows
        ]
        opening, closing = "{}" if isinstance(content, dict) else "[]"
        (folder / f"{name}.json").write_text(opening + "\n" + ",\n".join(lines) + "\n" + closing + "\n")


def main() -> int:
    """Read the facts, write the folder, say what was made and what was left out."""
    parser = argparse.ArgumentParser(description="Make a grid folder out of facts and stated synthetic values.")
    parser.add_argument("facts", type=Path, help="folder with queues.json and network_metrics.json.gz")
    parser.add_argument("--output", type=Path, help="folder to write; default: grid or grid_full beside this script")
    parser.add_argument("--full", action="store_true", help="all queues and links instead of the example")
    options = parser.parse_args()
    files, left_out = make_grid(*read_facts(options.facts), options.full)
    folder = options.output or Path(__file__).parent / ("grid_full" if options.full else "grid")
    write_grid(files, folder, tuple(files) if options.full else ("network_metrics",))
    nuclei = sum("Nucleus" in site["datapolicies"] for site in files["sites"].values())
    print(
        f"{folder}: {len(files['queues'])} queues, {len(files['sites'])} sites, {nuclei} nuclei, "
        f"{len(files['storages'])} storages, {len(files['network_metrics'])} links"
    )
    for name in left_out:
        print(f"left out, no site: {name}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
