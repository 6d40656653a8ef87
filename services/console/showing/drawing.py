"""Pictures as SVG without styles of their own: classes have the colours, texts say the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from services.console.policy.series import STATES, Series
from services.console.showing.texts import number

BAR_WIDTH, BAR_HEIGHT = 200, 12
WIDTH, HEIGHT = 640, 200
CLASS_OF = {
    **dict(zip(STATES, ("good", "bad", "over", "runs", "waits"), strict=True)),
    "in jobs": "runs",
    "used": "runs",
}


def bar(parts: Mapping[str, int], total: int) -> Markup:
    """A bar of parts of a whole: word -> number. What is left stays empty."""
    whole = max(total, sum(parts.values()), 1)
    said = ", ".join(f"{number(n)} {name}" for name, n in parts.items() if n) or "none"
    shapes, left = [], 0.0
    for name, n in parts.items():
        width = BAR_WIDTH * n / whole
        if n:
            shapes.append(
                Markup('<rect class="fill-{}" x="{:.2f}" y="0" width="{:.2f}" height="{}"/>').format(
                    CLASS_OF[name], left, width, BAR_HEIGHT
                )
            )
        left += width
    return Markup(
        '<svg class="bar" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img" aria-label="{2}, of {3}" '
        'preserveAspectRatio="none"><rect class="fill-none" width="{0}" height="{1}"/>{4}</svg>'
    ).format(BAR_WIDTH, BAR_HEIGHT, said, number(total), Markup("").join(shapes))


def stacked(series: Series) -> Markup:
    """Jobs by state over time, stacked; the table beside it has the same numbers."""
    if not series.times or not series.most:
        return Markup("")
    xs = [WIDTH * place / (len(series.times) - 1) for place in range(len(series.times))]
    below = [0] * len(xs)
    areas = []
    for state in STATES:
        above = [low + n for low, n in zip(below, series.numbers[state], strict=True)]
        if any(series.numbers[state]):
            points = [*_points(xs, above, series.most), *reversed(_points(xs, below, series.most))]
            areas.append(
                Markup('<polygon class="fill-{}" points="{}"><title>{}</title></polygon>').format(
                    CLASS_OF[state], " ".join(points), state
                )
            )
        below = above
    return Markup(
        '<svg class="series" viewBox="0 0 {0} {1}" role="img" aria-label="Jobs by state over time, up to {2} jobs. The '
        'table below has the numbers."><rect class="fill-none" width="{0}" height="{1}"/>{3}</svg>'
    ).format(WIDTH, HEIGHT, number(series.most), Markup("").join(areas))


SPARK_WIDTH, SPARK_HEIGHT, LINE_HEIGHT = 240, 40, 24


def day(hours: Sequence[Mapping[str, Any]]) -> Markup:
    """A bar for each hour of a day: jobs that finished, below those that failed or were stopped."""
    kinds = (("n_finished", "good", "finished"), ("n_failed", "bad", "failed"), ("n_stopped", "over", "stopped"))
    most = max((sum(one[name] for name, _, _ in kinds) for one in hours), default=0)
    if not most:
        return Markup("")
    width, shapes = SPARK_WIDTH / len(hours), []
    for place, one in enumerate(hours):
        below = 0.0
        for name, kind, _ in kinds:
            height = SPARK_HEIGHT * one[name] / most
            if one[name]:
                shapes.append(
                    Markup('<rect class="fill-{}" x="{:.1f}" y="{:.2f}" width="{:.1f}" height="{:.2f}"/>').format(
                        kind, place * width, SPARK_HEIGHT - below - height, width - 1, height
                    )
                )
            below += height
    said = ", ".join(f"{number(sum(one[name] for one in hours))} {word}" for name, _, word in kinds)
    return Markup(
        '<svg class="day" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img" '
        'aria-label="The last 24 hours: {2}"><rect class="fill-none" width="{0}" height="{1}"/>{3}</svg>'
    ).format(SPARK_WIDTH, SPARK_HEIGHT, said, Markup("").join(shapes))


def line(values: Sequence[float], said: str) -> Markup:
    """A line of values over time, from zero to the most of them; `said` is what it shows, in words."""
    most = max(values, default=0.0)
    if len(values) < 2 or most <= 0:
        return Markup("")
    step = SPARK_WIDTH / (len(values) - 1)
    points = " ".join(f"{place * step:.1f},{LINE_HEIGHT * (1 - one / most):.2f}" for place, one in enumerate(values))
    return Markup(
        '<svg class="line" viewBox="0 -1 {0} {2}" width="{0}" height="{2}" role="img" aria-label="{3}">'
        '<polyline points="{4}"/></svg>'
    ).format(SPARK_WIDTH, LINE_HEIGHT, LINE_HEIGHT + 2, said, points)


def _points(xs: Sequence[float], values: Sequence[int], most: int) -> list[str]:
    return [f"{x:.1f},{HEIGHT - HEIGHT * value / most:.1f}" for x, value in zip(xs, values, strict=True)]
