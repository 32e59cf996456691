"""What composed methods and bulk look-ups must say, put together here from the node's own answers in other code."""

import hashlib
from collections.abc import Callable
from typing import Any

import base58
import orjson
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from . import people
from .both import Both, Said, rpc
from .people import Somebody

_FINAL = {"commitment": "finalized"}  # A node's own default, which bulk look-ups name.
Ask = Callable[[], tuple[Said, Any]]
_PROGRAMS = ("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb")
_PARSED = {"encoding": "jsonParsed"}
_COMPUTE_BUDGET = "ComputeBudget111111111111111111111111111111"


def asks(both: Both, key: Keypair, somebody: Somebody) -> dict[str, Ask]:
    """By method: the gateway's answer beside the one wanted; the next call of each looks at the chain anew."""
    wallet = somebody.wallet
    recent = people.blockhash(both)
    smart, raced = (people.signed(key, recent, people.given(key, lamports)) for lamports in (10**6 + 4, 10**6 + 5))
    landed = [str(raced.signatures[0]), "confirmed", True]
    return (
        _of_engine(both, key)
        | _of_tokens(both, wallet)
        | {
            "sendSmartTransaction": lambda: (
                both.gateway("sendSmartTransaction", [people.text(smart), {"simulate": True}]),
                str(smart.signatures[0]),
            ),
            "sendAndConfirm": lambda: _shown(both.gateway("sendAndConfirm", [people.text(raced)]), _outcome_of, landed),
            "getSendStatus": lambda: _shown(both.gateway("getSendStatus", [landed[0]]), _outcome_of, landed),
            "rpc.discover": lambda: (both.gateway("rpc.discover", []), both.public("/openrpc.json")),
            "suggestPriorityFee": lambda: (
                both.gateway("suggestPriorityFee", [{"urgency": "critical", "accounts": [wallet]}]),
                _suggestion(both, wallet),
            ),
            "getPriorityFeeEstimate": lambda: _shown(
                both.gateway(
                    "getPriorityFeeEstimate", [{"accountKeys": [wallet], "options": {"priorityLevel": "High"}}]
                ),
                lambda result: result["priorityFeeEstimate"] in _estimates(both, wallet, result["basis"]["source"]),
                True,
            ),
            "getTransactionHistory": lambda: _shown(
                both.gateway("getTransactionHistory", [wallet, {"commitment": "finalized"}]),
                _history_of,
                _history(both, wallet),
            ),
            "/bulk/getBalances": lambda: (
                _without_slot(_bulk(both, "getBalances", {"addresses": [wallet]})),
                {
                    "results": [{"address": wallet, "lamports": both.node_result("getBalance", wallet)["value"]}],
                    "errors": [],
                }
                | _FINAL,
            ),
            "/bulk/getTokenBalances": lambda: (
                _bulk(both, "getTokenBalances", {"owners": [wallet]}),
                {"results": [{"owner": wallet, "tokens": _tokens(both, wallet)}], "errors": []} | _FINAL,
            ),
            "/bulk/getTransactions": lambda: (
                _bulk(both, "getTransactions", {"signatures": [somebody.signature]}),
                {
                    "results": [{"signature": somebody.signature, "transaction": _transaction(both, somebody)}],
                    "errors": [],
                }
                | {"commitment": "confirmed"},
            ),
        }
    )


def _of_tokens(both: Both, wallet: str) -> dict[str, Ask]:
    return {
        "getAssetsByOwner": lambda: _shown(
            both.gateway("getAssetsByOwner", [{"ownerAddress": wallet}]), _assets_of, _assets(both, wallet)
        ),
        "getAsset": lambda: _shown(both.gateway("getAsset", [_mint(both, wallet)]), _asset_of, _asset(both, wallet)),
        "getAssetBatch": lambda: _shown(
            both.gateway("getAssetBatch", [[_mint(both, wallet)]]),
            lambda result: _asset_of(result[0]),
            _asset(both, wallet),
        ),
        "getAssets": lambda: _shown(
            both.gateway("getAssets", [{"ids": [_mint(both, wallet)]}]),
            lambda result: _asset_of(result[0]),
            _asset(both, wallet),
        ),
        "getTokenAccounts": lambda: _shown(
            both.gateway("getTokenAccounts", [{"owner": wallet}]), _accounts_of, _accounts(both, wallet)
        ),
    }


def _of_engine(both: Both, key: Keypair) -> dict[str, Ask]:
    recent = people.blockhash(both)
    tip = Pubkey.from_string(both.engine_result("getTipAccounts")[0])

    def tipping(lamports: int) -> VersionedTransaction:
        to_tip = TransferParams(from_pubkey=key.pubkey(), to_pubkey=tip, lamports=lamports)
        return people.signed(key, recent, transfer(to_tip))

    called, relayed, alone = ([tipping(lamports)] for lamports in (10_001, 10_002, 10_003))
    return {
        "sendBundle": lambda: (both.gateway("sendBundle", _bundle(called)), _bundle_id(called)),
        "/relay/sendBundle": lambda: (
            both.post("/relay/sendBundle", rpc("sendBundle", _bundle(relayed))),
            _bundle_id(relayed),
        ),
        "/relay/getBundleStatuses": lambda: _states(both, "getBundleStatuses", _bundle_id(called)),
        "/relay/getInflightBundleStatuses": lambda: _states(both, "getInflightBundleStatuses", _bundle_id(called)),
        "/relay/getTipAccounts": lambda: (
            both.get("/relay/getTipAccounts"),
            {"ok": True, "tip_accounts": both.engine_result("getTipAccounts")},
        ),
        "/relay/tipFloor": lambda: _floor(both),
        "/relay/transactions": lambda: (
            both.post("/relay/transactions", rpc("sendTransaction", [people.text(alone[0]), {"encoding": "base64"}])),
            str(alone[0].signatures[0]),
        ),
    }


def refusals(somebody: Somebody) -> dict[str, tuple[list[Any], str, list[Any]]]:
    """By method: parameters, and the node's own call whose error must come through."""
    listing = [
        "getSignaturesForAddress",
        [somebody.wallet, {"limit": 10, "commitment": "confirmed", "before": "5" * 87}],
    ]
    return {"getTransactionHistory": ([somebody.wallet, {"before": "5" * 87}], listing[0], listing[1])}


def _bundle(transactions: list[VersionedTransaction]) -> list[Any]:
    return [[people.text(one) for one in transactions], {"encoding": "base64"}]


def _bundle_id(transactions: list[VersionedTransaction]) -> str:
    return hashlib.sha256(",".join(str(one.signatures[0]) for one in transactions).encode()).hexdigest()


def _states(both: Both, method: str, bundle_id: str) -> tuple[Said, Any]:
    """Without the slot of the answer, as the chain moves on between two of them."""
    said = both.post(f"/relay/{method}", rpc(method, [[bundle_id]]))
    return _shown(said, lambda result: result["value"], both.engine_result(method, [bundle_id])["value"])


def _floor(both: Both) -> tuple[Said, Any]:
    """The names of its fields: the figures change with each tip, and are kept for some seconds."""
    said = both.get("/relay/tipFloor")
    shown = Said(said.status, orjson.dumps({"fields": list(said.value["tip_floor"])}), said.charged)
    return shown, {"fields": list(both.tip_floor())}


def _bulk(both: Both, name: str, body: dict[str, Any]) -> Said:
    return both.post(f"/bulk/{name}", orjson.dumps(body))


def _window(both: Both, wallet: str) -> list[int]:
    entries = both.node_result("getRecentPrioritizationFees", [wallet])
    newest = max(entry["slot"] for entry in entries)
    return [entry["prioritizationFee"] for entry in entries if newest - entry["slot"] < 150]


def _paid(fees: list[int]) -> list[int]:
    paid = [fee for fee in fees if fee]
    return paid if len(paid) >= 3 else fees


def _percentile(values: list[int], percent: int) -> int:
    return min(v for v in values if 100 * sum(other <= v for other in values) >= percent * len(values))


def _estimates(both: Both, wallet: str, source: str) -> set[int]:
    """The figure of the node's slots; or, where blocks were read, all that their transactions paid."""
    if source != "landed_transactions":
        return {_percentile(_paid(_window(both, wallet)), 75)}
    newest = both.node_result("getSlot")
    options = {"encoding": "json", "maxSupportedTransactionVersion": 1, "commitment": "confirmed", "rewards": False}
    paid = {0}
    for slot in both.node_result("getBlocks", max(0, newest - 200), newest, {"commitment": "confirmed"}):
        for entry in both.node_result("getBlock", slot, options)["transactions"]:
            message = entry["transaction"]["message"]
            for instruction in message["instructions"]:
                program = message["accountKeys"][instruction["programIdIndex"]]
                data = base58.b58decode(instruction["data"])
                if program == _COMPUTE_BUDGET and data[:1] == b"\3":
                    paid.add(int.from_bytes(data[1:], "little"))
    return paid


def _suggestion(both: Both, wallet: str) -> dict[str, Any]:
    fees = _window(both, wallet)
    counted = _paid(fees)
    levels = {"low": 25, "medium": 50, "high": 75, "veryHigh": 90}
    return {
        "suggested_fee_microlamports": _percentile(counted, 90),
        "urgency": "critical",
        "all_levels": {name: _percentile(counted, percent) for name, percent in levels.items()}
        | {
            "sample_count": len(fees),
            "paid_slot_count": sum(fee > 0 for fee in fees),
            "basis": "paid_slots" if sum(fee > 0 for fee in fees) >= 3 else "all_slots",
        },
        "scoped_to_accounts": True,
    }


def _rows(both: Both, wallet: str) -> list[dict[str, Any]]:
    found = []
    for program in _PROGRAMS:
        found += both.node_result("getTokenAccountsByOwner", wallet, {"programId": program}, _PARSED)["value"]
    return found


def _tokens(both: Both, wallet: str) -> list[dict[str, Any]]:
    tokens = []
    for row in _rows(both, wallet):
        info = row["account"]["data"]["parsed"]["info"]
        held = info["tokenAmount"]
        tokens.append(
            {
                "mint": info["mint"],
                "token_account": row["pubkey"],
                "program": row["account"]["owner"],
                "amount": held["amount"],
                "decimals": held["decimals"],
                "ui_amount_string": held["uiAmountString"],
            }
        )
    return tokens


def _transaction(both: Both, somebody: Somebody) -> Any:
    config = {"encoding": "json", "commitment": "confirmed", "maxSupportedTransactionVersion": 1}
    return both.node_result("getTransaction", somebody.signature, config)


def _outcome_of(result: Any) -> Any:
    return [result["signature"], result["status"], result["confirmed"]]


def _shown(said: Said, of: Callable[[Any], Any], wanted: Any) -> tuple[Said, Any]:
    """The part of a richer answer that the node's own answers can be held against."""
    return Said(said.status, orjson.dumps({"jsonrpc": "2.0", "result": of(said.value["result"])}), said.charged), wanted


def _without_slot(said: Said) -> Said:
    """The slot of the balances is another one at each question."""
    told = said.value
    assert type(told.pop("slot")) is int, said
    return Said(said.status, orjson.dumps(told), said.charged)


def _assets_of(result: Any) -> Any:
    return sorted([item["id"], item["amount"], item["decimals"], item["supply"]] for item in result["items"])


def _assets(both: Both, wallet: str) -> Any:
    found = []
    for token in _tokens(both, wallet):
        supply = both.node_result("getTokenSupply", token["mint"])["value"]["amount"]
        found.append([token["mint"], token["amount"], token["decimals"], supply])
    return sorted(found)


def _mint(both: Both, wallet: str) -> str:
    mint: str = _tokens(both, wallet)[0]["mint"]
    return mint


def _asset_of(result: Any) -> Any:
    info = result["token_info"]
    return [result["id"], info["decimals"], str(info["supply"]), info["token_program"]]


def _asset(both: Both, wallet: str) -> Any:
    token = _tokens(both, wallet)[0]
    supply = both.node_result("getTokenSupply", token["mint"])["value"]["amount"]
    return [token["mint"], token["decimals"], supply, token["program"]]


def _accounts_of(result: Any) -> Any:
    found = result["token_accounts"]
    return sorted([one["address"], one["mint"], one["owner"], str(one["amount"])] for one in found)


def _accounts(both: Both, wallet: str) -> Any:
    return sorted([token["token_account"], token["mint"], wallet, token["amount"]] for token in _tokens(both, wallet))


def _history_of(result: Any) -> Any:
    return [
        [entry["signature"], entry["slot"], entry["block_time"], entry["fee"], entry["error"], _gains(entry)]
        for entry in result["transactions"]
    ]


def _gains(entry: dict[str, Any]) -> dict[str, int]:
    """Lamports that each account has more or less by the listed transfers."""
    gains: dict[str, int] = {}
    for move in entry["enriched"]["sol_transfers"]:
        gains[move["from"]] = gains.get(move["from"], 0) - move["lamports"]
        gains[move["to"]] = gains.get(move["to"], 0) + move["lamports"]
    return {address: change for address, change in gains.items() if change}


def _history(both: Both, wallet: str) -> Any:
    found = []
    for listed in both.node_result("getSignaturesForAddress", wallet, {"limit": 10}):
        config = {"encoding": "jsonParsed", "maxSupportedTransactionVersion": 1}
        transaction = both.node_result("getTransaction", listed["signature"], config)
        meta = transaction["meta"]
        keys = [key["pubkey"] for key in transaction["transaction"]["message"]["accountKeys"]]
        gains = {
            key: after - before
            for key, before, after in zip(keys, meta["preBalances"], meta["postBalances"], strict=True)
        }
        gains[keys[0]] += meta["fee"]
        gains = {address: change for address, change in gains.items() if change}
        time = transaction["blockTime"]
        found.append([listed["signature"], transaction["slot"], time, meta["fee"], meta["err"], gains])
    return found
