import json
from decimal import Decimal

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import Err, Refusal
from actors.methods.rules import check
from actors.methods.trades import SellQuestion, SnipeQuestion

MINT = "So11111111111111111111111111111111111111112"
U64_MAX = 2**64 - 1


def ask(method: str, fields: str) -> bytes | Refusal:
    """fields: JSON text, as a client writes it."""
    raw = b'[{"mint":"%b",%b}]' % (MINT.encode(), fields.encode())
    return check(method, orjson.loads(raw), raw)


def snipe(fields: str) -> SnipeQuestion:
    found = ask("executeSnipe", fields)
    assert isinstance(found, bytes), found
    return msgspec.json.decode(found, type=SnipeQuestion)


def sell(fields: str) -> SellQuestion:
    found = ask("executeSell", fields)
    assert isinstance(found, bytes), found
    return msgspec.json.decode(found, type=SellQuestion)


@given(st.integers(1, 10**19), st.booleans())
def test_every_amount_in_plain_decimals_is_exact(lamports: int, is_text: bool) -> None:
    """As a number and as text, with any number of zeros at its end: no float is between the digits and the lamports."""
    whole, fraction = divmod(lamports, 10**9)
    text = f"{whole}.{fraction:09d}"
    for digits in {text, text.rstrip("0").rstrip(".")}:
        quoted = f'"{digits}"' if is_text else digits
        fields = f'"amount_sol":{quoted},"slippage_bps":0'
        assert snipe(fields) == SnipeQuestion(MINT, lamports, 0, 100_000)


@given(st.floats(1e-9, 1e10).map(lambda sol: round(sol, 9)))
def test_a_number_is_read_as_encoders_write_it(sol: float) -> None:
    """Interface: a number. Python's json writes 0.00005 as 5e-05; the value of the text counts, not of the float."""
    assert snipe(f'"amount_sol":{json.dumps(sol)},"slippage_bps":0').budget_lamports == Decimal(repr(sol)) * 10**9


@pytest.mark.parametrize(
    ("number", "lamports"),
    [("5e-05", 50_000), ("1E-9", 1), ("1.5e0", 1_500_000_000), ("1e3", 10**12), ("0.100000000000", 10**8)],
)
def test_exponents_and_zeros_at_the_end_are_taken(number: str, lamports: int) -> None:
    assert snipe(f'"amount_sol":{number}').budget_lamports == lamports
    assert isinstance(ask("executeSnipe", f'"amount_sol":"{number}"'), Refusal)


@given(st.integers(1, U64_MAX), st.booleans())
def test_every_number_of_base_units_is_exact(tokens: int, is_text: bool) -> None:
    assert sell(f'"token_amount":{orjson.dumps(str(tokens)).decode() if is_text else tokens}').tokens == tokens


@given(st.text(max_size=12))
def test_any_other_text_is_refused_and_never_crashes(text: str) -> None:
    """Digits of other scripts, signs, exponents and spaces included."""
    for method, name in (("executeSnipe", "amount_sol"), ("executeSell", "token_amount")):
        found = ask(method, f'"{name}":{orjson.dumps(text).decode()}')
        if isinstance(found, Refusal):
            assert found.err is Err.INVALID_PARAMS
        else:
            assert text.isascii() and text.replace(".", "", 1).isdigit()


def test_defaults_are_the_interfaces_and_null_is_absent() -> None:
    assert snipe('"amount_sol":1') == SnipeQuestion(MINT, 10**9, 500, 100_000)
    assert sell('"token_amount":1,"slippage_bps":null') == SellQuestion(MINT, 1, 500, 100_000)
    assert sell('"token_amount":"1","slippage_bps":10000,"priority_fee_micro_lamports":0').slippage_bps == 10_000


def test_a_budget_must_fit_with_its_slippage() -> None:
    """The instruction has 64 bits for the largest cost."""
    assert snipe('"amount_sol":"9223372036.854775807","slippage_bps":10000').budget_lamports == 2**63 - 1
    assert isinstance(ask("executeSnipe", '"amount_sol":"9223372036.854775808","slippage_bps":10000'), Refusal)


@pytest.mark.parametrize("fields", ['"amount_sol":1,"slipage_bps":5', '"amount_sol":1,"token_amount":1', '"x":1'])
def test_names_that_mean_nothing_are_refused(fields: str) -> None:
    """A misspelt slippage would cost its sender money."""
    found = ask("executeSnipe", fields)
    assert isinstance(found, Refusal) and "parameter 1" in found.detail


@pytest.mark.parametrize(
    "raw", [b"[]", b"[null]", b"[[]]", b'["x"]', b"[{}]", b'[{"mint":"%b"}]' % MINT.encode(), b"[{},{}]"]
)
@pytest.mark.parametrize("method", ["executeSnipe", "executeSell"])
def test_one_object_with_mint_and_amount_is_wanted(method: str, raw: bytes) -> None:
    found = check(method, orjson.loads(raw), raw)
    assert isinstance(found, Refusal) and found.err is Err.INVALID_PARAMS


def test_escapes_in_names_and_texts_are_read_as_json_means_them() -> None:
    """The exact text of a number is looked up by its name, however the name is written."""
    assert snipe('"\\u0061mount_sol":0.1').budget_lamports == 10**8
    assert snipe('"amount_sol":"\\u0030.1"').budget_lamports == 10**8
