"""Settings of the operators' page: a token that can be guessed, or cannot be a header, starts nothing."""

import pytest

from actors.config import ConfigError
from actors.config_loader import load


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("TOKEN", "short", "32"),
        ("TOKEN", "x" * 257, "256"),
        ("TOKEN", "x" * 31 + " y", "visible"),
        ("TOKEN", "é" * 32, "visible"),
        ("ADDRESSES", "10.0.0.0/33", "neither an address nor a network"),
        ("ADDRESSES", "intranet", "neither an address nor a network"),
    ],
)
def test_a_setting_that_cannot_hold_is_refused_by_its_name(name: str, value: str, told: str) -> None:
    with pytest.raises(ConfigError, match=rf"operator\.{name.lower()}.*{told}") as refused:
        load({f"LEDGER_OPERATOR__{name}": value})
    assert name != "TOKEN" or value not in str(refused.value)


def test_the_token_is_hidden_and_the_page_is_on_by_default() -> None:
    config = load({"LEDGER_OPERATOR__TOKEN": "t" * 40, "LEDGER_OPERATOR__ADDRESSES": "10.0.0.0/8, ::1"}).config
    assert "t" * 40 not in repr(config) and config.operator.enabled
    assert config.operator.addresses == ("10.0.0.0/8", "::1")
