from __future__ import annotations

from pathlib import Path

from deploy.local.records import read_record, write_record
from deploy.local.servers import DATABASE_URL, RECORD, Servers


def test_a_server_named_for_once_does_not_cost_the_private_one_its_password_and_so_its_data(tmp_path: Path) -> None:
    directory = tmp_path.resolve()
    private = {"port": 24000, "password": "the only key"}
    write_record(directory / RECORD, directory, {"postgresql": private})
    Servers(directory, named={DATABASE_URL: "postgresql://somewhere/else"}).save()
    record = read_record(directory / RECORD, directory)
    assert record["postgresql"] == private
    assert record["named"] == {DATABASE_URL: "postgresql://somewhere/else"}
