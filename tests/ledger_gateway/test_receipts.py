"""The verifier of the Python client and the README's script agree: receipts hold, and no change of one does."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from nacl.signing import SigningKey

from actors.accounts import ledger
from actors.accounts.ledger import Entry
from actors.accounts.receipts import Receipt as MadeReceipt
from actors.gateway.pages.receipts import receipt_body
from actors.receipts.root_keys import KeySeal, published
from actors.receipts.statements import AccountPaths, SignedStatement, Statement, leaf_of, root_of
from ledger_gateway.receipts import (
    Chain,
    NotProven,
    PublishedKey,
    check,
    check_continued,
    digest_of,
    public_keys,
    read_receipts,
)
from tests.tidy.sources import ROOT

SEAL, SIGNING = KeySeal(b"secret"), SigningKey(b"k" * 32)
KEY = SEAL.make(b"k" * 32, b"n" * 12, 1_700_000_000_000)
# A later key signs by now; what this one signs is of the time before, or of little after it.
RETIRED_MS = 1_700_000_060_000
LATER = SEAL.make(b"l" * 32, b"m" * 12, RETIRED_MS, SEAL.proven([KEY]).keys)
PROVEN = SEAL.proven([KEY, LATER]).keys
KEYS = published(PROVEN)
ACCOUNTS = [sha256(bytes([number])).digest() for number in range(5)]
ENTRIES = [
    Entry(
        seq=number,
        at_ms=1_700_000_000_000 + number,
        type=2 if number > 1 else 0,
        amount=-number if number > 1 else 1_000,
        balance=1_000 - number,
        operation=bytes([number]) * 16,
        method="getSlot" if number % 2 else "getBlöck",
        outcome=0,
        description=f"r=abc-{number} d=dig",
        parcels=f"1:-{number}",
    )
    for number in range(1, 12)
]


def chain_of(pubkey: bytes) -> list[bytes]:
    """The hash before each entry, and the last one."""
    hashes = [ledger.genesis(pubkey)]
    for entry in ENTRIES:
        hashes.append(ledger.chain(hashes[-1], entry))
    return hashes


def receipts(account: int = 2, first: int = 4, at_ms: int = 1_700_000_001_000) -> list[dict[str, Any]]:
    """Of one statement with five accounts, of which each has its entries from `first` on in it; made at this time."""
    chains = {pubkey: chain_of(pubkey) for pubkey in ACCOUNTS}
    order = sorted(ACCOUNTS)
    packed = b"".join(leaf_of(pubkey, first, chains[pubkey][first:]).packed() for pubkey in order)
    text = Statement(0, 7, at_ms, b"p" * 32, 5, 40, root_of(packed)).text()
    signed = SignedStatement(text, KEY.id, SIGNING.sign(text.encode()).signature, packed)
    pubkey = order[account]
    leaf = leaf_of(pubkey, first, chains[pubkey][first:])
    made, paths = [], AccountPaths(packed, account, leaf, chains[pubkey][first:])
    for entry in ENTRIES[first - 1 :]:
        path = paths.of(entry.seq)
        made.append(receipt_body(pubkey, MadeReceipt(entry, chains[pubkey][entry.seq - 1], path, signed)))
    return made


def other(value: Any) -> Any:
    """Another value of the same form."""
    if isinstance(value, int):
        return value + 1
    if isinstance(value, list):
        return value[1:] if value else ["00" * 32]
    if value and set(value) <= set("0123456789abcdef"):
        return value[:-1] + ("0" if value[-1] != "0" else "1")
    return value + "x"


def signed_at(at_ms: int, *, with_entry: bool = False) -> Callable[[dict[str, Any]], None]:
    """A whole receipt whose statement was signed at this time, and whose entry says so too."""

    def change(receipt: dict[str, Any]) -> None:
        if not with_entry:
            return receipt.update(receipts(at_ms=at_ms)[2])
        entry = msgspec.structs.replace(ENTRIES[0], at_ms=at_ms)
        before = ledger.genesis(ACCOUNTS[0])
        after = ledger.chain(before, entry)
        leaf = leaf_of(ACCOUNTS[0], 1, [after])
        text = Statement(0, 7, at_ms, b"p" * 32, 1, 1, root_of(leaf.packed())).text()
        signed = SignedStatement(text, KEY.id, SIGNING.sign(text.encode()).signature, leaf.packed())
        path = AccountPaths(leaf.packed(), 0, leaf, [after]).of(1)
        return receipt.update(receipt_body(ACCOUNTS[0], MadeReceipt(entry, before, path, signed)))

    return change


def mutations() -> Iterator[tuple[str, Callable[[dict[str, Any]], None]]]:
    """Each field of a receipt and of its entry, and parts of its texts."""

    def changed(*names: str, to: Callable[[Any], Any] = other) -> Callable[[dict[str, Any]], None]:
        def change(receipt: dict[str, Any]) -> None:
            inside = receipt if len(names) == 1 else receipt[names[0]]
            inside[names[-1]] = to(inside[names[-1]])

        return change

    whole = receipts()[2]
    for name in whole:
        if name not in ("entry", "version"):
            yield name, changed(name)
    for name in whole["entry"]:
        yield f"entry.{name}", changed("entry", name)
    yield "a digit of the statement", changed("statement", to=lambda text: text.replace("at_ms 17", "at_ms 18"))
    yield "the paths exchanged", lambda one: one.update(entry_path=one["account_path"], account_path=one["entry_path"])
    yield "a path reversed", changed("account_path", to=lambda path: path[::-1])
    yield (
        "a comma moved",
        lambda one: one["entry"].update(method="getSlot,", description=one["entry"]["description"][1:]),
    )
    yield "another account's", lambda one: one.update({name: receipts(3)[2][name] for name in ("account", "head")})
    yield "made before its key was", signed_at(RETIRED_MS - 10_000_000)
    yield "made after its key was retired", signed_at(RETIRED_MS + 62_000)
    yield "made after its key was retired, and so the entry", signed_at(RETIRED_MS + 62_000, with_entry=True)
    yield "made before its entry", signed_at(1_700_000_000_001)
    yield "the receipt of the next entry", lambda one: one["entry"].update(receipts()[3]["entry"])


MUTATIONS = dict(mutations())


def held(receipt: dict[str, Any]) -> bytes:
    (read,) = read_receipts(receipt)
    return check(read, public_keys(KEYS))


@pytest.mark.parametrize("account", range(5))
@pytest.mark.parametrize("first", [1, 4, 11])
def test_every_entry_of_every_account_is_proven(account: int, first: int) -> None:
    for receipt in receipts(account, first):
        number = receipt["entry"]["number"]
        assert held(receipt) == chain_of(sorted(ACCOUNTS)[account])[number]


@pytest.mark.parametrize("at_ms", [1_700_000_000_011, RETIRED_MS, RETIRED_MS + 60_000])
def test_a_retired_key_proves_what_it_signed_while_it_was_in_use(at_ms: int) -> None:
    """And for a minute, within which every owner has taken the change over."""
    assert PROVEN[1].retired_ms == RETIRED_MS and PROVEN[0].retired_ms is None
    for receipt in receipts(at_ms=at_ms):
        held(receipt)


@pytest.mark.parametrize("name", MUTATIONS)
def test_no_changed_receipt_is_proven(name: str) -> None:
    receipt = receipts()[2]
    MUTATIONS[name](receipt)
    with pytest.raises(NotProven):
        held(receipt)


@pytest.mark.parametrize(
    "document", [{}, {"receipts": [{}]}, [], "x", {**receipts()[0], "more": 1}, {**receipts()[0], "version": 2}]
)
def test_what_is_no_receipt_is_refused(document: Any) -> None:
    with pytest.raises(NotProven):
        check(read_receipts(document)[0], public_keys(KEYS))


def test_a_key_that_is_not_published_proves_nothing() -> None:
    for keys in ({}, {KEY.id: PublishedKey(b"p" * 32, 0, None)}):
        with pytest.raises(NotProven):
            check(read_receipts(receipts()[0])[0], keys)
    for document in ({}, {"keys": [{"id": "x"}]}, None):
        with pytest.raises(NotProven):
            public_keys(document)


def test_a_later_receipt_continues_an_earlier_one() -> None:
    made = read_receipts({"receipts": receipts()})
    entries = [one.entry for one in made[1:]]
    check_continued(made[0], made[-1], Chain(made[0].account, 4, entries))
    changed = [msgspec.structs.replace(entries[0], amount=-1), *entries[1:]]
    for wrong in (changed, entries[:-1], [*entries, entries[-1]]):
        with pytest.raises(NotProven):
            check_continued(made[0], made[-1], Chain(made[0].account, 4, wrong))
    with pytest.raises(NotProven):
        check_continued(made[0], read_receipts(receipts(3)[-1])[0], Chain(made[0].account, 4, entries))


def test_the_digest_is_over_parameters_and_answer() -> None:
    answer = b'{"jsonrpc":"2.0","result":1082,"id":1}'
    assert digest_of(b"[]", answer) == "boqZPddNHeBOr4ZV41ls7w"  # Of a running gateway.
    assert digest_of(b"[ ]", answer) != digest_of(b"[]", answer)


def the_script() -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.partition("<!-- example: verify-receipts -->\n```js\n")[2].partition("```")[0]


def test_the_script_has_forty_lines_at_most() -> None:
    assert 10 < the_script().count("\n") <= 40


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed here")
def test_the_script_takes_receipts_and_no_changed_one(tmp_path: Path) -> None:
    """Each file in one run of node: a process for each would take half a minute."""
    script = tmp_path / "verify.mjs"
    script.write_text(the_script())
    (tmp_path / "keys.json").write_text(json.dumps(KEYS))

    def runs(document: Any) -> subprocess.CompletedProcess[str]:
        (tmp_path / "receipts.json").write_text(json.dumps(document))
        return subprocess.run(
            ["node", script, tmp_path / "receipts.json", tmp_path / "keys.json"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    every = [one for account in range(5) for first in (1, 4, 11) for one in receipts(account, first)]
    done = runs({"receipts": every})
    assert done.returncode == 0 and done.stdout.count("holds") == len(every), done.stderr
    for name in MUTATIONS:
        receipt = receipts()[2]
        MUTATIONS[name](receipt)
        assert runs({"receipts": [receipt]}).returncode != 0, name
