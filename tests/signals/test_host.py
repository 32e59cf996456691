"""The programs are shared among classifiers, each once."""

import pytest

from actors.signals.classify import PROGRAMS
from actors.signals.host import programs_of


@pytest.mark.parametrize("classifiers", [1, 2, 5, 12])
def test_every_program_has_one_classifier(classifiers: int) -> None:
    """Decisions: partitioned by program; none has nothing to do."""
    parts = [programs_of(index, classifiers) for index in range(classifiers)]
    assert sorted(program for part in parts for program in part) == sorted(PROGRAMS)
    assert all(parts)
