"""What commands print on samples is what it was: ``make golden`` makes the files anew."""

from __future__ import annotations

import pytest

from tests.golden import COMMANDS, FOLDER, same_as_golden, text_of


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_prints_its_golden_text(name: str) -> None:
    same_as_golden(name, text_of(name))


def test_each_golden_file_is_of_a_command_or_a_test() -> None:
    tests = "".join(path.read_text() for path in FOLDER.parent.rglob("test_*.py"))
    unused = [path.stem for path in FOLDER.glob("*.txt") if path.stem not in COMMANDS and f'"{path.stem}"' not in tests]
    assert not unused
