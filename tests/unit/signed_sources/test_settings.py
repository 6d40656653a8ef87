"""The services that sign source URLs and verify them start with the same file, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.config.settings import Settings, SettingsError
from shared.runtime.believed import source_keys_of
from shared.signed_sources.keys import create_file


def settings(path: Path) -> Settings:
    return Settings(database_url="postgresql://h/n", source_key_file=path)


def test_what_one_process_signs_another_verifies(tmp_path: Path) -> None:
    path = tmp_path / "source_key"
    create_file(path)
    signer, verifier = (source_keys_of(settings(path), [name]) for name in ("job-dispatch", "task-definition"))
    assert verifier.task_of(signer.permission(7, 2000), 1000) == 7


@pytest.mark.parametrize("service", ["job-dispatch", "task-definition"])
def test_without_its_file_neither_starts(tmp_path: Path, service: str) -> None:
    with pytest.raises(
        SettingsError, match=r"ORRERY_SOURCE_KEY_FILE=.*: No such file.*shared.signed_sources.keys FILE"
    ):
        source_keys_of(settings(tmp_path / "none"), [service])
    (tmp_path / "empty").touch()
    with pytest.raises(SettingsError, match=r"ORRERY_SOURCE_KEY_FILE=.*: it is empty"):
        source_keys_of(settings(tmp_path / "empty"), [service])


def test_the_other_services_need_none(tmp_path: Path) -> None:
    assert source_keys_of(settings(tmp_path / "none"), ["job-brokerage"]) is not None
