import io
import json

import pytest

from services.cli.failures import WrongUsage
from services.cli.identifiers import ids_in_text, read_ids


def test_ids_are_read_from_arguments_once_each_in_order():
    assert read_ids(["7", "3,7", "5 3"]) == [7, 3, 5]


def test_a_dash_reads_ids_from_standard_input_one_per_line():
    assert read_ids(["1", "-"], io.StringIO("2\n3\n\n4 5\n")) == [1, 2, 3, 4, 5]


def test_the_first_column_of_a_table_is_taken_as_the_id():
    assert ids_in_text("12  running  50%\n13  done  100%\n") == ["12", "13"]


@pytest.mark.parametrize(
    "content", [[1, 2], [{"task_id": 1}, {"task_id": 2}], {"task_id": [1, 2]}, ["1", {"PandaID": 2}]]
)
def test_json_as_other_verbs_print_it_is_understood(content):
    assert read_ids(["-"], io.StringIO(json.dumps(content))) == [1, 2]


@pytest.mark.parametrize("text", ["x", "-3", "0", "1.5", "9" * 30])
def test_what_is_not_an_id_is_refused_with_its_value(text):
    with pytest.raises(WrongUsage, match="value"):
        read_ids([text])


@pytest.mark.parametrize("text", ["", "{}", "[true]", "[null]", "{broken"])
def test_standard_input_without_a_usable_id_is_refused(text):
    with pytest.raises(WrongUsage):
        read_ids(["-"], io.StringIO(text))
