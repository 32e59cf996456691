"""The table of landing by fee: what stands in the README was made by the command, in the command's form."""

from bench.landing_fees import BEGIN, END, HEAD, README, RULE, SOON_SLOTS, Fate, Row, row, table, with_table


def parsed(text: str) -> list[Row]:
    """Read back a table that `table` wrote. Raises ValueError for any other text."""
    head, rule, *lines = text.strip().splitlines()
    if (head, rule) != (HEAD, RULE):
        raise ValueError("another head")
    found = []
    for line in lines:
        urgency, fee, landed, *rest = (cell.strip() for cell in line.strip("|").split("|"))
        count, sends = landed.split(" of ")
        numbers = [int(cell) for cell in rest]
        found.append(Row(urgency.strip("`"), int(fee.replace(",", "")), int(sends), int(count), *numbers))
    return found


def between_marks(text: str) -> str:
    return text[text.index(BEGIN) + len(BEGIN) : text.index(END)].strip()


def test_the_table_of_the_readme_is_the_commands() -> None:
    """A table that was changed by hand does not read back as the same text, or misses an urgency."""
    text = between_marks(README.read_text(encoding="utf-8"))
    rows = parsed(text)
    assert table(rows) == text
    assert [each.urgency for each in rows] == ["low", "medium", "high", "critical"]
    assert all(each.next_slot <= each.soon <= each.landed <= each.sends for each in rows)


def test_fates_become_a_row() -> None:
    """What did not land counts as late, not as nothing."""
    fates = [Fate(5, 1), Fate(7, SOON_SLOTS), Fate(9, SOON_SLOTS + 1), Fate(9, None)]
    made = row("high", fates)
    assert (made.fee, made.sends, made.landed, made.next_slot, made.soon) == (9, 4, 3, 1, 2)
    assert made.slots_p90 > SOON_SLOTS + 1


def test_a_table_replaces_the_one_before() -> None:
    made = table([row("low", [Fate(1_234, 2)] * 3)])
    once = with_table(f"before\n{BEGIN}\nold\n{END}\nafter\n", made)
    assert once == f"before\n{BEGIN}\n{made}\n{END}\nafter\n" and with_table(once, made) == once
    assert table(parsed(between_marks(once))) == made
