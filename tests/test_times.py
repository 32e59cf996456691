"""Times as clients write them, and as they are told."""

import pytest

from actors.times import iso_ms, iso_seconds, unix_micros, unix_ms


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0", 0),
        ("1795305600", 1_795_305_600_000),
        ("2026-11-22", 1_795_305_600_000),
        ("2026-11-22T00:00:00.123456Z", 1_795_305_600_123),
        ("2026-11-22T00:00+00:00", 1_795_305_600_000),
        ("2026-11-22T00:00 00:00", 1_795_305_600_000),
        ("999999999999", 100_000_000_000_000),
    ],
)
def test_a_time_is_iso_8601_in_utc_or_unix_seconds(text: str, wanted: int) -> None:
    assert unix_ms(text) == wanted


@pytest.mark.parametrize("text", ["", "-1", "1.5", "2026-13-01", "2026-11-22T00:00:00+01:00", "٣", "1" * 13, "now"])
def test_other_texts_are_no_time(text: str) -> None:
    assert unix_micros(text) is None


@pytest.mark.parametrize("at_ms", [0, 7, 1_795_305_600_123, 253_402_300_799_999])
def test_what_is_told_can_be_sent_back(at_ms: int) -> None:
    assert unix_ms(iso_ms(at_ms)) == at_ms


def test_a_whole_second_is_told_without_a_fraction() -> None:
    assert iso_seconds(1_701_388_800_000) == "2023-12-01T00:00:00Z" and unix_ms(iso_seconds(7_000)) == 7_000
