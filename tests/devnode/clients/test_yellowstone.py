"""@triton-one/yellowstone-grpc, unmodified, newest and 4.x, straight at a devnode's gRPC ports."""

import json
from pathlib import Path
from typing import Any

import pytest
from solders.keypair import Keypair
from solders.signature import Signature

from actors.geyser_proto import geyser_pb2
from devnode.geyser.storage_messages import _INSTRUCTION_NUMBER, _TRANSACTION_NUMBER, error_bytes
from tests.devnode.conftest import Process, StartDevnode
from tests.npm import Npm

_FLOWS = Path(__file__).parent / "yellowstone_flows.mjs"
LAMPORTS = 3_000_000
PACKAGES = ("yellowstone-grpc-4", "yellowstone-grpc-7")
# How each client is told of an authority, for want of an option: both are read when it connects.
ROOTS = {"yellowstone-grpc-4": "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "yellowstone-grpc-7": "SSL_CERT_FILE"}


def every_error() -> list[Any]:
    simple = [name for name in _TRANSACTION_NUMBER if name not in _WITH_FIELDS]
    inside = [name for name in _INSTRUCTION_NUMBER if name != "Custom"]
    return [
        *simple,
        *({"InstructionError": [index % 256, name]} for index, name in enumerate(inside)),
        {"InstructionError": [3, {"Custom": 6_000}]},
        {"DuplicateInstruction": 9},
        {"InsufficientFundsForRent": {"account_index": 4}},
        {"ProgramExecutionTemporarilyRestricted": {"account_index": 5}},
    ]


_WITH_FIELDS = {
    *("InstructionError", "DuplicateInstruction", "InsufficientFundsForRent", "ProgramExecutionTemporarilyRestricted")
}


def run(npm: Npm, process: Process, package: str, url: str, mine: Keypair, **settings: str) -> dict[str, Any]:
    others = [str(Keypair().pubkey()) for _ in range(2)]
    found: dict[str, Any] = npm.run(
        _FLOWS,
        {
            "PACKAGE": package,
            "GRPC_URL": url,
            "RPC_URL": process.url,
            "MINE": str(mine.pubkey()),
            "OTHERS": ",".join(others),
            "LAMPORTS": str(LAMPORTS),
            "ERRORS": json.dumps([error_bytes(err).hex() for err in every_error()]),
            **settings,
        },
    )
    return found


def of_kind(updates: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [one for one in updates if one["kind"] in kinds]


@pytest.mark.parametrize("package", PACKAGES)
def test_it_gets_what_it_asked_for_and_nothing_else(start_devnode: StartDevnode, npm: Npm, package: str) -> None:
    """One payment to the wallet that it asked about, between payments to others."""
    process = start_devnode("chain", "--slot-ms", "100", "--grpc-port", "0")
    mine = Keypair()
    found = run(npm, process, package, process.facts["grpc_url"], mine)
    updates, payment = found["updates"], bytes(Signature.from_string(found["payment"])).hex()
    slot = str(found["transaction"]["slot"])
    assert {(one["kind"], *one["filters"]) for one in updates} == {
        *(("account", "mine"), ("transaction", "mine"), ("transactionStatus", "mine")),
        *(("block", "mine"), ("slot", "every"), ("pong",)),
    }
    (account,) = of_kind(updates, "account")
    assert account == {
        "kind": "account",
        "filters": ["mine"],
        "slot": slot,
        "pubkey": bytes(mine.pubkey()).hex(),
        "lamports": str(LAMPORTS),
        "signature": payment,
    }
    (transaction,) = of_kind(updates, "transaction")
    assert (transaction["slot"], transaction["signature"]) == (slot, payment)
    (status,) = of_kind(updates, "transactionStatus")
    assert (status["slot"], status["signature"], status["failed"]) == (slot, payment, False)
    assert [one["id"] for one in of_kind(updates, "pong")] == [42]
    check_blocks_and_slots(updates, slot, payment, mine)
    check_json(transaction["json"], found["transaction"])
    check_replay(found["again"], slot, payment, package)
    check_errors(found["errors"], package)
    check_calls(found["calls"])


def check_blocks_and_slots(updates: list[dict[str, Any]], slot: str, payment: str, mine: Keypair) -> None:
    """Every block and every slot once at each level, in order; of the blocks, only what concerns the wallet."""
    blocks = of_kind(updates, "block")
    for one in blocks:
        concerns = one["slot"] == slot
        assert one["transactions"] == ([payment] if concerns else [])
        assert one["accounts"] == ([bytes(mine.pubkey()).hex()] if concerns else [])
        assert int(one["executed"]) >= len(one["transactions"])
    numbers = [int(one["slot"]) for one in blocks]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    slots = of_kind(updates, "slot")
    assert {one["status"] for one in slots} == {
        *(geyser_pb2.SLOT_PROCESSED, geyser_pb2.SLOT_CONFIRMED, geyser_pb2.SLOT_FINALIZED)
    }
    assert len({(one["slot"], one["status"]) for one in slots}) == len(slots)
    assert all(int(one["parent"]) == int(one["slot"]) - 1 for one in slots)


def check_json(encoded: dict[str, Any], asked: dict[str, Any]) -> None:
    """What the client's own encoder makes of the stream's transaction is what JSON-RPC says of it."""
    assert encoded["version"] == asked["version"]
    assert encoded["transaction"]["signatures"] == asked["transaction"]["signatures"]
    message, wanted = encoded["transaction"]["message"], asked["transaction"]["message"]
    for field in ("header", "accountKeys", "recentBlockhash"):
        assert message[field] == wanted[field], field
    for field in (
        "err",
        "fee",
        "preBalances",
        "postBalances",
        "logMessages",
        "computeUnitsConsumed",
        "loadedAddresses",
    ):
        assert encoded["meta"][field] == asked["meta"][field], field


def check_replay(again: list[dict[str, Any]], slot: str, payment: str, package: str) -> None:
    """Told again, in upstream's order: writes, the transaction twice, the block; then the next block."""
    of_slot = [one for one in again if one["slot"] == slot]
    names = [one["filters"] for one in of_kind(of_slot, "account") if "mine" in one["filters"]]
    # The newest client asked by a compressed set as well, for this wallet and the others.
    assert names == [["mine"] if package == PACKAGES[0] else ["compressed", "mine"]]
    of_slot = [one for one in of_slot if "mine" in one["filters"]]
    assert [one["kind"] for one in of_slot] == ["account", "transaction", "transactionStatus", "block"]
    assert of_slot[1]["signature"] == payment and of_slot[3]["transactions"] == [payment]
    assert [one["slot"] for one in of_kind(again, "block")] == [slot, str(int(slot) + 1)]


def check_errors(decoded: list[Any], package: str) -> None:
    """Every error of the runtime, read by the client's own decoder. 4.x knows one of them in its older form, with a
    text."""
    differ = [err for err, found in zip(every_error(), decoded, strict=True) if found != err]
    assert [err["InstructionError"][1] for err in differ] == (["BorshIoError"] if package == PACKAGES[0] else [])


def check_calls(calls: dict[str, Any]) -> None:
    def value(shown: dict[str, Any], field: str) -> Any:
        return shown.get("value", shown.get(field))

    assert int(value(calls["slot"], "slot")) >= int(calls["latest"]["slot"]) > 0
    height = int(value(calls["height"], "blockHeight"))
    assert 0 < int(calls["latest"]["lastValidBlockHeight"]) - 300 <= height
    assert calls["valid"] is True
    assert value(calls["ping"], "count") == 7
    assert "devnode" in json.loads(value(calls["version"], "version"))["version"]["package"]


@pytest.mark.parametrize("package", PACKAGES)
def test_over_tls_and_with_a_token(start_devnode: StartDevnode, npm: Npm, package: str) -> None:
    """The node's own certificate, trusted by its authority's file; the token as their option."""
    process = start_devnode("chain", "--slot-ms", "100", "--grpc-port", "0", "--grpc-token", "secret")
    settings = {ROOTS[package]: process.facts["grpc_ca_file"], "TOKEN": "secret"}
    found = run(npm, process, package, process.facts["grpc_tls_url"], Keypair(), **settings)
    assert len(of_kind(found["updates"], "account", "transaction")) == 2
