"""Which actors do not answer: those that were silent twice in a row when they were asked.

Implements: design, "Owners, for every kind of actor" (one that hangs). Pure. Once is no sign: a busy machine is late.
"""

from collections.abc import Iterable, Mapping

LOOK_SECONDS = 3.0  # Between two looks.
ANSWER_SECONDS = 3.0  # For an answer, at each look.
AGAIN_SECONDS = 1.0  # To the second look, after one at which somebody was silent. With all of them: within 10 s.
_LOOKS = 2


class Silence:
    def __init__(self) -> None:
        self._times: dict[str, int] = {}

    def heard(self, answered: Mapping[str, bool]) -> set[str]:
        """Take in one look at some actors. Returns those of them that are away."""
        for name, has_answered in answered.items():
            self._times[name] = 0 if has_answered else self._times.get(name, 0) + 1
        return {name for name in answered if self._times[name] >= _LOOKS}

    def is_in_doubt(self, names: Iterable[str]) -> bool:
        """Whether one of these was silent at the latest look, and not yet before."""
        return any(0 < self._times.get(name, 0) < _LOOKS for name in names)

    def forgive(self, names: Iterable[str]) -> None:
        """Begin anew with these: they were started just now."""
        self._times.update(dict.fromkeys(names, 0))
