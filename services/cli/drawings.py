"""Mermaid drawings of the contracts: which service tells which other what."""

from __future__ import annotations

from collections import defaultdict

from shared.events import ENTRIES


def service_map() -> str:
    """An arrow from each producer to each consumer of its events, labelled with what they say.

    News, which every replica receives, is left to the table: it would be an arrow from one to all. What the watchdog
    sends again for others (its reconciling sweep) is one dotted arrow to them all, for the same reason.
    """
    labels: dict[tuple[str, str], list[str]] = defaultdict(list)
    swept: set[str] = set()
    for entry in ENTRIES:
        for producer in entry.producers:
            for consumer in entry.consumers:
                if producer == "watchdog" and len(entry.producers) > 1:
                    swept.add(consumer)
                else:
                    labels[producer, consumer].append(entry.event.__name__)
    lines = ["flowchart TD"]
    lines += [
        f'    {producer} -- "{"<br/>".join(sorted(events))}" --> {consumer}'
        for (producer, consumer), events in sorted(labels.items())
    ]
    lines.append(f'    watchdog -. "sends again" .-> {" & ".join(sorted(swept))}')
    return "\n".join(lines)


def event_table() -> str:
    """A Markdown table: event, meaning, producers, consumers, listeners."""
    lines = ["| event | says | stated by | worked on by | heard by |", "|---|---|---|---|---|"]
    for entry in ENTRIES:
        meaning = (entry.event.__doc__ or "").strip().split("\n")[0].replace("``", "`")
        columns = (", ".join(names) for names in (entry.producers, entry.consumers, entry.listeners))
        lines.append(f"| `{entry.event.routing_key()}` | {meaning} | {' | '.join(columns)} |")
    return "\n".join(lines)
