"""Integers only, where amounts of other people's money are computed (money rule 7)."""

import ast

from tests.tidy.sources import Source, over, product

# Tells how long to wait, not how much to pay.
SECONDS = {"actors/trades/endpoints.py:asyncio.timeout(timeout_ms / 1000)"}
FLOATING = ("float", "Decimal", "Fraction", "round")
SUBJECTS = tuple(s for s in product() if s.path.startswith(("actors/trades/", "actors/launch_programs/")))


def floats(source: Source) -> list[str]:
    """Divisions that give a float, float constants, and calls and annotations that name one."""
    allowed = {entry.partition(":")[2] for entry in SECONDS if entry.startswith(f"{source.path}:")}
    excused = {
        id(inner)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and ast.unparse(node) in allowed
        for inner in ast.walk(node)
    }
    found = []
    for node in ast.walk(source.tree):
        is_division = isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div)
        is_constant = isinstance(node, ast.Constant) and isinstance(node.value, float | complex)
        is_named = isinstance(node, ast.Name) and node.id in FLOATING
        if (is_division or is_constant or is_named) and id(node) not in excused:
            found.append(f"line {node.lineno}")  # type: ignore[attr-defined]
    return found


@over(SUBJECTS)
def test_no_float_touches_a_trade(source: Source) -> None:
    """A quote that is off by one base unit is a transaction that fails, or money lost."""
    assert floats(source) == []


def test_the_rule_has_its_subjects_and_finds_floats() -> None:
    """A rule that never says no guards nothing."""
    assert {"actors/trades/quotes.py", "actors/launch_programs/curve_math.py"} <= {source.path for source in SUBJECTS}
    for text in ("x = 1 / 2", "x = 0.5", "x = float(y)", "x /= 2", "def f() -> float: ..."):
        assert floats(Source("x.py", text, ast.parse(text)))
