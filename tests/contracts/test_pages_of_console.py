"""Templates of the console have nothing that its content security policy refuses, and load nothing from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOM = Path(__file__).parents[2] / "services" / "console"
TEMPLATES = sorted((ROOM / "templates").glob("*.html"))
STATEMENT = re.compile(r"{%.*?%}|{#.*?#}", re.DOTALL)
EXPRESSION = re.compile(r"{{.*?}}", re.DOTALL)
#: they turn escaping off, or say that something is markup
UNESCAPED = re.compile(r"\|\s*safe\b|autoescape|Markup\(")


class Forbidden(HTMLParser):
    """Collects what the policy refuses, or what comes from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        if tag == "style" or (tag == "script" and "src" not in names):
            self.found.append(f"<{tag}> inline")
        if tag in ("iframe", "object", "embed", "base"):
            self.found.append(f"<{tag}>")
        for name, value in names.items():
            if name == "style" or name.startswith(("on", "hx-on")):
                self.found.append(f"attribute {name}")
            if re.match(r"\s*(javascript|data|https?):|\s*//", value or "", re.IGNORECASE):
                self.found.append(f"{name}={value}")


def forbidden_in(text: str) -> list[str]:
    parser = Forbidden()
    parser.feed(EXPRESSION.sub("x", STATEMENT.sub("", text)))
    return parser.found + UNESCAPED.findall(text)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_a_template_has_no_script_or_style_of_its_own_and_escapes_everything(template: Path) -> None:
    assert forbidden_in(template.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_a_form_that_changes_something_carries_its_token(template: Path) -> None:
    text = template.read_text(encoding="utf-8")
    forms = re.findall(r'<form[^>]*method="post".*?</form>', text, re.DOTALL)
    assert text.count('method="post"') == len(forms)
    assert [one for one in forms if not re.search(r'name="form" value="{{ (form|word) }}"', one)] == []


def test_the_style_sheet_loads_nothing() -> None:
    text = (ROOM / "static" / "console.css").read_text(encoding="utf-8")
    assert "url(" not in text and "@import" not in text and "prefers-color-scheme: dark" in text


def test_the_check_finds_what_it_looks_for() -> None:
    bad = (
        '<script>x</script><p style="a" onclick="b"><a href="javascript:c">{{ d | safe }}</a>'
        '<img src="https://elsewhere/e"><script src="{{ static }}"></script><a href="{{ home }}tasks">f</a>'
    )
    found = forbidden_in(bad)
    assert found == [
        "<script> inline", "attribute style", "attribute onclick", "href=javascript:c", "src=https://elsewhere/e",
        "| safe",
    ]  # fmt: skip
