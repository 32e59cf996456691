"""The run over every method of the catalog, its rows, and the table in README.md beside this file."""

from dataclasses import dataclass
from pathlib import Path

from jsonschema import Draft202012Validator
from solders.keypair import Keypair

from actors.methods.catalog import DOCUMENTS, METHODS
from actors.methods.entries import MethodRow
from actors.methods.prices import BULK, RELAY, Availability, MethodClass
from actors.pricing_config import PricingConfig

from . import composed, trades
from .both import Both, Said
from .cases import Asked, Case, cases
from .people import Somebody

README = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- conformance: begin -->", "<!-- conformance: end -->"
_HEAD = (
    "| Method | Credits | Result | Charged | Errors, and what they cost |",
    "|---|---|---|---|---|",
)
_PRICING = PricingConfig()
_REFUSED = {Availability.NOT_BUILT: -32004, Availability.ARCHIVE: -32004, Availability.DENIED: -32601}
_RELAY_PATHS = {"sendTransaction": "/relay/transactions"}
_FORBIDDEN_HTTP, _FORBIDDEN_CODE = 403, -32601


@dataclass(frozen=True, slots=True)
class Row:
    """wrong: what is not as it must be, in words; empty when all is."""

    method: str
    cells: tuple[str, ...]
    wrong: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "| " + " | ".join((self.method, *self.cells)) + " |"


def run(both: Both, key: Keypair, somebody: Somebody, coin: trades.Coin) -> list[Row]:
    """Every method of the catalog in its order, then the bulk look-ups, then the block engine."""
    answered, wanted = cases(both, key, somebody), composed.asks(both, key, somebody)
    refusals = composed.refusals(somebody)
    rows = []
    for row in METHODS.values():
        if row.availability is Availability.NODE:
            assert row.name in answered, f"{row.name}: say in tests/conformance/cases.py what both are to be asked"
            rows.append(_from_node(both, row, answered[row.name]))
        elif row.method_class is MethodClass.TRADE_BUILD:
            rows.append(_traded(both, row.name, coin))
        elif row.availability in (Availability.COMPOSED, Availability.RELAY):
            assert row.name in wanted, f"{row.name}: say in tests/conformance/composed.py what it must answer"
            price = _PRICING.landing_credits if row.credits is None else row.credits
            rows.append(_composed(both, row.name, str(price), price, wanted[row.name], refusals))
        else:
            rows.append(_refused(both, row))
    for bulk in BULK:
        path, credits = f"/{bulk.name}", bulk.credits_per_item
        rows.append(_composed(both, path, f"{credits} per {bulk.item}", credits, wanted[path], {}))
    for relay in RELAY:
        path = _RELAY_PATHS.get(relay.method, f"/relay/{relay.method}")
        rows.append(_composed(both, path, str(relay.credits), relay.credits, wanted[path], {}))
    return rows


def _from_node(both: Both, row: MethodRow, case: Case) -> Row:
    wrong: list[str] = []
    price = row.credits or 0
    result, charged = "none at devnode", "-"
    if case.good is not None:
        compared = both.compare(row.name, case.good.params, case.good.at_node)
        result, charged = compared.equal, str(compared.gateway.charged)
        if not compared.equal or compared.gateway.error is not None:
            wrong.append(f"gateway {compared.gateway.body[:500]!r}, node {compared.node.body[:500]!r}")
        if compared.gateway.charged != price:
            wrong.append(f"charged {charged} instead of {price}")
        wrong += _unfit(row.name, compared.gateway)
    errors = [_error(both, row.name, asked, price, case.free, wrong) for asked in case.bad]
    return Row(row.name, (str(price), result, charged, "; ".join(errors) or "-"), tuple(wrong))


def _unfit(method: str, said: Said) -> list[str]:
    """Why a result does not fit the schema that the documents and the MCP tool of the method have."""
    if said.error is not None:
        return []
    validator = Draft202012Validator(dict(DOCUMENTS[method].result))
    return [f"result: {fault.json_path} {fault.message}"[:300] for fault in validator.iter_errors(said.value["result"])]


def _error(both: Both, method: str, asked: Asked, price: int, free: frozenset[int], wrong: list[str]) -> str:
    compared = both.compare(method, asked.params, asked.at_node)
    error = compared.gateway.error
    if not compared.equal or error is None:
        wrong.append(f"error: gateway {compared.gateway.body[:500]!r}, node {compared.node.body[:500]!r}")
        return "unequal"
    if compared.gateway.charged != (0 if error["code"] in free else price):
        wrong.append(f"{error['code']}: charged {compared.gateway.charged}")
    data = " with data" if "data" in error else ""
    return f"{error['code']}{data}: {compared.equal}, {compared.gateway.charged or 'free'}"


def _composed(
    both: Both,
    name: str,
    shown_price: str,
    price: int,
    ask: composed.Ask,
    refusals: dict[str, tuple[list[object], str, list[object]]],
) -> Row:
    said, agrees = both.agree(ask)
    wrong = [] if agrees else [f"gateway {said.body[:700]!r}, wanted {ask()[1]!r}"]
    if said.charged != price:
        wrong.append(f"charged {said.charged} instead of {price}")
    errors = "-"
    if name in refusals:
        params, method, direct = refusals[name]
        gateway, node = both.gateway(name, params), both.node(method, *direct)
        same = gateway.error is not None and gateway.error == node.error and gateway.charged == 0
        if not same:
            wrong.append(f"error: gateway {gateway.body[:500]!r} for {gateway.charged}, node {node.body[:500]!r}")
        errors = f"{gateway.error['code']}: JSON, free" if gateway.error is not None else "unequal"
    return Row(name, (shown_price, "as computed" if agrees else "", str(said.charged), errors), tuple(wrong))


def _traded(both: Both, name: str, coin: trades.Coin) -> Row:
    """A built trade costs what its result says, and a trade that cannot be built nothing."""
    ask = trades.asks(both, coin)[name]
    said, agrees = both.agree(ask)
    amounts = said.value["result"]
    wrong = [] if agrees else [f"gateway {amounts}, wanted {ask()[1]}"]
    if said.charged != amounts[2]:
        wrong.append(f"charged {said.charged} instead of {amounts[2]}")
    refusal = trades.refused(both, name, coin)
    code = (refusal.error or {}).get("code")
    if code != -32602 or refusal.charged:
        wrong.append(f"refusal: {refusal.body[:300]!r} for {refusal.charged}")
    result = "as computed" if agrees else ""
    return Row(name, (trades.PRICE_TEXT, result, str(said.charged), f"{code}: free"), tuple(wrong))


def _refused(both: Both, row: MethodRow) -> Row:
    said = both.gateway(row.name, [])
    error = said.error or {}
    code, http = error.get("code"), 200
    if row.availability is Availability.FORBIDDEN:
        http, expected = _FORBIDDEN_HTTP, _FORBIDDEN_CODE
    else:
        expected = _REFUSED[row.availability]
    wrong = []
    if (code, said.status, said.charged) != (expected, http, 0):
        wrong.append(f"{said.status} {said.body[:300]!r} for {said.charged}")
    if error.get("data", {}).get("source") != "gateway":
        wrong.append("the refusal does not say that it is the gateway's")
    shown = "denied" if row.availability in (Availability.DENIED, Availability.FORBIDDEN) else "not offered"
    status = f", HTTP {http}" if http != 200 else ""
    return Row(row.name, ("-", shown, "-", f"{code}{status}: free"), tuple(wrong))


def complaints(rows: list[Row]) -> list[str]:
    return [f"{row.method}: {fault}" for row in rows for fault in row.wrong]


def text(rows: list[Row]) -> str:
    return "\n".join((BEGIN, *_HEAD, *(str(row) for row in rows), END))


def in_readme() -> str:
    """What stands there now, marks included."""
    whole = README.read_text(encoding="utf-8")
    return BEGIN + whole.partition(BEGIN)[2].partition(END)[0] + END


def write(table: str) -> None:
    whole = README.read_text(encoding="utf-8")
    assert BEGIN in whole and END in whole, "README.md has no marks for the table"
    README.write_text(whole.replace(in_readme(), table), encoding="utf-8")
