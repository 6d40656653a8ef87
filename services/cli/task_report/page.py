"""Makes the file of a report: one page with its styles, pictures and tables in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from services.cli.task_report.efficiency import efficiencies
from services.console.policy import reasons
from services.console.policy.sentences import meaning_of
from services.console.policy.series import series_of
from services.console.showing.drawing import bar, stacked
from services.console.showing.texts import FILTERS

HERE = Path(__file__).resolve().parent
STYLES = HERE.parents[1] / "console" / "static" / "console.css"
#: nothing is loaded or run, wherever the file is opened
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def report_of(found: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """What is on the page, for programs."""
    task, explanation = found["task"], found["explanation"]
    decisions = explanation.get("decisions") or []
    picture = series_of(found["jobs"], now)
    return {
        "task": {name: value for name, value in task.items() if name != "task_parameters"},
        "parameters": task.get("task_parameters"),
        "meaning": meaning_of(task, explanation),
        "decisions": [_decision(one) for one in decisions],
        "queues": explanation.get("queues") or [],
        "failures": explanation.get("failures") or [],
        "history": explanation.get("history") or [],
        "efficiency": [asdict(one) for one in efficiencies(found["measured"])],
        "series": picture.rows(),
        "n_jobs": len(found["jobs"]),
    }


def _decision(decision: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("decision_id", "kind", "decided_at", "outcome", "chosen", "summary")
    return {
        **{name: decision[name] for name in kept},
        "groups": [{**asdict(one), "queues": one.queues[:10]} for one in reasons.grouped(decision)],
    }


def html_of(found: Mapping[str, Any], now: datetime) -> str:
    """The page for people."""
    templates = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    templates.filters |= FILTERS
    templates.globals |= {"bar": bar, "stacked": stacked}
    return templates.get_template("report.html").render(
        {
            **report_of(found, now),
            "now": now,
            "picture": series_of(found["jobs"], now),
            "styles": Markup(STYLES.read_text(encoding="utf-8")),  # noqa: S704 (our own file)
            "policy": POLICY,
            "task_id": found["task"]["task_id"],
        }
    )
