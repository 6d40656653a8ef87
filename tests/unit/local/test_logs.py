"""`make logs`: what servers and services wrote, as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local.__main__ import main


def test_logs_are_shown_as_text_whatever_a_server_wrote_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "postgresql.log").write_bytes(b"first\nname \x1b]0;owned\x07 \xe2\x80\xae \x9b2J\tend\n")
    assert main(["logs", "--directory", str(tmp_path), "--lines", "5"]) == 0
    shown = capsys.readouterr().out
    assert "first" in shown and r"name \x1b]0;owned\x07 \u202e" in shown
    assert not any(one in shown for one in "\x1b\x07\u202e\x9b")
