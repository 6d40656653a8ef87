import pytest

from services.cli.readme import README, regenerated


def test_the_generated_parts_of_the_readme_are_as_the_code_says():
    text = README.read_text(encoding="utf-8")
    assert regenerated(text) == text, "run `python -m services.cli.readme`"


def test_a_missing_mark_is_an_error_and_not_a_silent_loss():
    with pytest.raises(ValueError, match="generated: services"):
        regenerated("no marks here")


def test_the_readme_names_no_path_of_a_machine():
    text = README.read_text(encoding="utf-8")
    assert not [word for word in ("/home/", "/root", "/tmp", "/work") if word in text]
