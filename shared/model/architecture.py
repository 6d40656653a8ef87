"""The software platform and hardware a task needs.

Source: PanDA brokerage, CPU and/or GPU hardware.

`sw_platform<@base_platform><#host_cpu_spec><&host_gpu_spec>`, where host_cpu_spec is `architecture<-vendor<-instr>>`
(several joined by `|`), and host_gpu_spec is `vendor<-model>` with requirements such as `:cuda>=12.0:vram>=40960`
and `:model=PATTERN` or `:model!=PATTERN` behind it; or the same as JSON: {"sw_platform", "base_platform", "cpu_specs",
"gpu_spec", "cpu_pref"}. The platform and each architecture may be regular expressions in RE2's syntax. Without
host_cpu_spec the first part of sw_platform is the architecture.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from shared.model.expression import InvalidExpression, parse_expression

ANY = "*"
_EXPRESSION_SIGNS = frozenset("*+?()[]{}|^$\\")
_STRING = re.compile(
    r"(?P<platform>[^@#&]*)(@(?P<base>[^#&]*))?(?P<has_cpu>#(?P<cpu>[^&]*))?(&(?P<gpu>.*))?", re.DOTALL
)
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z_]+)(?P<bound>(?:>=|<=|==|!=|>|<)[0-9.]+)")
_MODEL = re.compile(r"model(?P<excluded>!)?=(?P<model>.+)")
# an image behind a platform, and the option of a command line that names one
_IMAGE_BEHIND = re.compile(r"(?P<platform>.*?)\+(?P<image>[A-Za-z][\w.-]*:?/.+)", re.DOTALL)
_IMAGE_OPTION = re.compile(r"--containerImage[ =]+(?P<image>[^\s\"']+)")
# Names that the text form of a GPU requirement has for attributes.
_GPU_ATTRIBUTES = {"cuda": "version", "version": "version", "driver": "driver_version", "vram": "vram"}
_KEYS = {"sw_platform", "base_platform", "cpu_specs", "gpu_spec", "cpu_pref"}
#: what the field's client repeats beside the others, and nobody reads
_REPEATED = {"encoded_platform"}


class InvalidArchitecture(ValueError):
    """An architecture that cannot be understood; the message says which part and what is allowed."""


@dataclass(frozen=True)
class CpuSpec:
    """One kind of CPU that will do; `*` is any. `arch` may be a regular expression."""

    arch: str = ANY
    vendor: str = ANY
    instr: str = ANY


@dataclass(frozen=True)
class GpuSpec:
    """The GPU that is needed; `requirements` are (attribute, bound) such as ("vram", ">=40960")."""

    vendor: str = ANY
    model: str = ANY
    model_excluded: bool = False
    requirements: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Architecture:
    """`cpu_implied`: the CPU was not asked for but follows from the platform. No specs: any CPU."""

    sw_platform: str = ""
    base_platform: str = ""
    cpu_specs: tuple[CpuSpec, ...] = ()
    cpu_implied: bool = False
    gpu_spec: GpuSpec | None = None
    preferred_level: str = ""

    @property
    def is_expression(self) -> bool:
        """Whether sw_platform stands for several platforms: it has signs that no platform has in its name."""
        return not _EXPRESSION_SIGNS.isdisjoint(self.sw_platform)

    @property
    def platforms(self) -> str:
        """sw_platform<@base_platform>: what jobs are told."""
        return f"{self.sw_platform}@{self.base_platform}" if self.base_platform else self.sw_platform


@lru_cache(maxsize=4096)
def parse_architecture(text: str | None) -> Architecture:
    """Parse either form. Raises InvalidArchitecture."""
    text = (text or "").strip()
    if not text:
        return Architecture()
    found = _from_json(text) if text.startswith("{") else _from_string(text)
    for expression in (found.sw_platform, *(spec.arch for spec in found.cpu_specs if spec.arch != ANY)):
        _check_expression(expression)
    if found.gpu_spec is not None and found.gpu_spec.model != ANY:
        _check_expression(found.gpu_spec.model)
    return found


def platform_and_image(text: str) -> tuple[str, str | None]:
    """A platform and the image of a container that stands behind it.

    Example: "x86_64-el9-gcc13-opt+docker://repo/img:1" is ("x86_64-el9-gcc13-opt", "docker://repo/img:1").
    """
    found = None if text.startswith("{") else _IMAGE_BEHIND.fullmatch(text)
    return (text, None) if found is None else (found["platform"], found["image"])


def image_of_command_line(text: str) -> str | None:
    """The image that a command line names by its option (PanDA client: prun --containerImage)."""
    found = _IMAGE_OPTION.search(text)
    return None if found is None else found["image"]


def _check_expression(expression: str) -> None:
    try:
        parse_expression(expression)
    except InvalidExpression as error:
        raise InvalidArchitecture(str(error)) from error


def _from_string(text: str) -> Architecture:
    match = _STRING.fullmatch(text)
    if match is None:
        raise InvalidArchitecture(f"{text!r} is not sw_platform<@base_platform><#host_cpu_spec><&host_gpu_spec>")
    platform, cpu = match["platform"], match["cpu"]
    implied = not match["has_cpu"] and bool(platform)
    if implied:
        cpu = _first_part(platform)
    return Architecture(
        sw_platform=platform,
        base_platform=match["base"] or "",
        cpu_specs=tuple(_cpu_spec(one) for one in _alternatives(cpu)) if cpu else (),
        cpu_implied=implied,
        gpu_spec=_gpu_spec(match["gpu"]) if match["gpu"] else None,
    )


def _first_part(platform: str) -> str:
    """Up to the first hyphen outside brackets."""
    depth = 0
    for place, letter in enumerate(platform):
        depth += (letter in "([") - (letter in ")]")
        if letter == "-" and depth == 0:
            return platform[:place]
    return platform


def _alternatives(text: str) -> list[str]:
    """`a|b` and `(a|b)` are two specifications; bars within an expression are left alone."""
    if text.startswith("(") and text.endswith(")") and ")" not in text[:-1]:
        text = text[1:-1]
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "|" and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def _cpu_spec(text: str) -> CpuSpec:
    arch = _first_part(text)
    vendor, _, instr = text[len(arch) + 1 :].partition("-")
    return CpuSpec(arch or ANY, vendor or ANY, instr or ANY)


def _gpu_spec(text: str) -> GpuSpec:
    name, *bounds = text.split(":")
    vendor, _, model = name.partition("-")
    requirements, excluded = [], False
    for bound in bounds:
        pattern = _MODEL.fullmatch(bound)
        if pattern is not None:
            model, excluded = pattern["model"], bool(pattern["excluded"])
            continue
        match = _REQUIREMENT.fullmatch(bound)
        if match is None or match["name"] not in _GPU_ATTRIBUTES:
            allowed = ", ".join([*(f"{one}>=NUMBER" for one in _GPU_ATTRIBUTES), "model=PATTERN", "model!=PATTERN"])
            raise InvalidArchitecture(f"GPU requirement {bound!r} is unknown; allowed: {allowed}")
        requirements.append((_GPU_ATTRIBUTES[match["name"]], match["bound"]))
    return GpuSpec(vendor or ANY, model or ANY, excluded, tuple(requirements))


def _from_json(text: str) -> Architecture:
    try:
        given = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidArchitecture(f"is not JSON: {error}") from error
    unknown = sorted(given.keys() - _KEYS - _REPEATED)
    if unknown:
        raise InvalidArchitecture(f"keys {', '.join(unknown)} are unknown; allowed: {', '.join(sorted(_KEYS))}")
    gpu, preference = given.get("gpu_spec"), given.get("cpu_pref") or {}
    specs = given.get("cpu_specs") or []
    if not isinstance(specs, list) or not all(isinstance(one, Mapping) for one in specs):
        raise InvalidArchitecture(f"cpu_specs {specs!r} must be a list of objects with arch, vendor, instr")
    if not isinstance(preference, Mapping) or not (gpu is None or isinstance(gpu, Mapping)):
        raise InvalidArchitecture("gpu_spec and cpu_pref must be objects")
    return Architecture(
        sw_platform=str(given.get("sw_platform") or ""),
        base_platform=str(given.get("base_platform") or ""),
        cpu_specs=tuple(CpuSpec(*(str(one.get(name) or ANY) for name in ("arch", "vendor", "instr"))) for one in specs),
        gpu_spec=_gpu_from_json(gpu) if gpu is not None else None,
        preferred_level=str(preference.get("preferred_architecture_level") or ""),
    )


def _gpu_from_json(given: Mapping[str, Any]) -> GpuSpec:
    """`model` may be a name, or {"pattern": ..., "excl": true} for anything but these."""
    model: Any = given.get("model")
    excluded = False
    if isinstance(model, Mapping):
        excluded, model = bool(model.get("excl")), model.get("pattern")
    rest = {name: value for name, value in given.items() if name not in ("vendor", "model") and value is not None}
    return GpuSpec(
        vendor=str(given.get("vendor") or ANY),
        model=str(model or ANY),
        model_excluded=excluded,
        requirements=tuple(sorted((name, _bound(value)) for name, value in rest.items())),
    )


def _bound(value: Any) -> str:
    """A list of names stays a list, in text."""
    return "|".join(str(one) for one in value) if isinstance(value, list) else str(value)
