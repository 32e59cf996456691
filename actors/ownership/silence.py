"""Decides which actors count as unavailable: those silent twice in a row.

Implements: design, "Owners, for every kind of actor" (one that hangs). Pure. One silence is not enough: a busy machine
answers late.
"""

from collections.abc import Iterable, Mapping

LOOK_SECONDS = 3.0  # Interval of checks.
ANSWER_SECONDS = 3.0  # Time limit of an answer at each check.
AGAIN_SECONDS = 1.0  # Pause before the second check after a silence. All together: within 10 s.
_LOOKS = 2


class Silence:
    def __init__(self) -> None:
        self._times: dict[str, int] = {}

    def heard(self, answered: Mapping[str, bool]) -> set[str]:
        """Record a check of some actors. Returns those that count as unavailable."""
        for name, has_answered in answered.items():
            self._times[name] = 0 if has_answered else self._times.get(name, 0) + 1
        return {name for name in answered if self._times[name] >= _LOOKS}

    def is_in_doubt(self, names: Iterable[str]) -> bool:
        """Return whether one of these was silent at the latest check, and not at the one before."""
        return any(0 < self._times.get(name, 0) < _LOOKS for name in names)

    def forgive(self, names: Iterable[str]) -> None:
        """Forget the silences of these, because they were just started."""
        self._times.update(dict.fromkeys(names, 0))
