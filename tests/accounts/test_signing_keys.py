"""Which keys are published and sign, whoever has written into their table.

Rules: decisions, "Signed roots".
"""

from pathlib import Path

import pytest
from nacl.signing import SigningKey

from actors.accounts.receipts import AcceptLedgerKey, ReadLedgerKeys, RotateLedgerKey, ShowLedgerKeys
from actors.accounts.store import AccountStore
from actors.accounts.stored import StoreUnavailable
from actors.errors import Err
from actors.receipts.root_keys import KeySeal, RootKey, name_of
from actors.receipts.roots_file import RootsFile, read_roots
from tests.accounts.shards import SHARDS
from tests.accounts.test_sealing import Ledger
from tests.receipts.test_root_keys import made_before

ATTACKER = SigningKey(b"x" * 32)


def planted_key(name: str = "") -> RootKey:
    public = bytes(ATTACKER.verify_key)
    return RootKey(name or name_of(public), public, b"x" * 60, 1, 2)


@pytest.fixture
async def ledger(store: AccountStore) -> Ledger:
    return Ledger(store, await store.take_over("a", SHARDS, False))


async def test_another_cluster_secret_signs_with_a_new_key(ledger: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    """What the old key signed is continued, and published, once the operator has said that it was this service's."""
    await ledger.write()
    await ledger.sealing(seal=KeySeal(b"another")).finish()
    (old,) = await ledger.store.seals.keys()
    await ledger.write()
    sealing = ledger.sealing()
    commands = ledger.commands(sealing)
    await sealing.finish()
    assert "not known to be this service's" in caplog.text and "not continued" in caplog.text
    assert {one.statement is None for one in (await ledger.receipts())[:3]} == {True}
    told = (await commands.answer(ShowLedgerKeys())).value
    assert told is not None and [key["id"] for key in told["unproven"]] == [old.id] and len(told["keys"]) == 1
    assert (await commands.answer(AcceptLedgerKey("0" * 16))).refusal == Err.INVALID_REQUEST.name
    accepted = (await commands.answer(AcceptLedgerKey(old.id))).value
    assert accepted is not None and [key["id"] for key in accepted["keys"]][2:] == [old.id]
    assert (await commands.answer(AcceptLedgerKey(old.id))).value == accepted, "once is enough"
    await sealing.finish()
    await ledger.check()


async def test_a_key_is_rotated_while_statements_are_made(ledger: Ledger, tmp_path: Path) -> None:
    """By one of several owners; the others take it over, and the file has both keys."""
    owners = [ledger.sealing(index, tmp_path) for index in range(2)]
    for sealing in owners:
        await ledger.write(told=sealing)
        await sealing.finish()
    commands = ledger.commands(owners[0])
    told = (await commands.answer(RotateLedgerKey())).value
    assert told is not None and [key["retired_at"] is None for key in told["keys"]] == [True, False]
    for sealing in (*owners, ledger.sealing(1, tmp_path)):
        await ledger.write(told=sealing)
        await sealing.finish()
    signed = [one.signed.key_id for one in read_roots(RootsFile(tmp_path, 0).path)]
    assert signed == [told["keys"][1]["id"], told["keys"][0]["id"]]
    assert len(list(read_roots(RootsFile(tmp_path, 1).path))) == 3
    await ledger.check()
    for command in (RotateLedgerKey(), ReadLedgerKeys()):
        none = await ledger.commands().answer(command)
        assert none.refusal == Err.SERVICE_TEMPORARILY_UNAVAILABLE.name, "only who signs knows the keys"


async def test_a_rotation_in_doubt_is_told_as_one(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database did the change, and its answer came too late. A text that says "repeat" alone would make one more
    key; the operator is told where to look."""
    sealing = ledger.sealing()
    await sealing.keys.refresh()
    change = ledger.store.seals.change_key

    async def late(old_id: str | None, new: RootKey) -> bool:
        await change(old_id, new)
        raise StoreUnavailable("TimeoutError: ")

    monkeypatch.setattr(ledger.store.seals, "change_key", late)
    told = await ledger.commands(sealing).answer(RotateLedgerKey())
    assert told.refusal == Err.SERVICE_TEMPORARILY_UNAVAILABLE.name
    assert told.detail.startswith("TimeoutError. The change may have been made") and "ledger-key show" in told.detail
    shown = (await ledger.commands(sealing).answer(ShowLedgerKeys())).value
    assert shown is not None and len(shown["keys"]) == 2, "as the text says"


async def test_two_rotations_at_one_moment_make_one_key(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is told that the first was there, and not that the ledger is away."""
    sealing, other = ledger.sealing(), ledger.sealing(1)
    await sealing.keys.refresh()
    change = ledger.store.seals.change_key

    async def beside(old_id: str | None, new: RootKey) -> bool:
        monkeypatch.setattr(ledger.store.seals, "change_key", change)
        await other.keys.rotate()
        return await change(old_id, new)

    monkeypatch.setattr(ledger.store.seals, "change_key", beside)
    told = await ledger.commands(sealing).answer(RotateLedgerKey())
    assert told.refusal == Err.SERVICE_TEMPORARILY_UNAVAILABLE.name and "another command or owner" in told.detail
    assert len((await sealing.keys.read()).keys) == 2


async def test_aplanted_key_does_not_stop_the_one_that_signs(ledger: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    """It claims to sign, in the place of the true one; a later owner makes a key of its own."""
    sealing = ledger.sealing()
    await ledger.write(told=sealing)
    await sealing.finish()
    key = sealing.keys.signing[0]
    assert await ledger.store.seals.change_key(key.id, planted_key()._replace(retired_ms=None, made_ms=10**13))
    sealing.keys.expire()
    await ledger.write(told=sealing)
    await sealing.finish()
    assert sealing.keys.signing[0].id == key.id and planted_key().id in caplog.text
    later = ledger.sealing()
    await ledger.write(told=later)
    await later.finish()
    assert later.keys.signing[0].id not in (key.id, planted_key().id)
    await ledger.check()


async def test_a_database_of_before_goes_on_with_its_key(ledger: Ledger, tmp_path: Path) -> None:
    """A row that the release before has made is proven by its box: no new key, no gap; a rotation names its times."""
    old = made_before(b"o", 1_700_000_000_000)
    assert await ledger.store.seals.change_key(None, old)
    for _ in range(2):
        sealing = ledger.sealing(folder=tmp_path)
        await ledger.write(told=sealing)
        await sealing.finish()
        assert sealing.keys.signing[0].id == old.id and len(await ledger.store.seals.keys()) == 1
    await ledger.check()
    await sealing.keys.rotate()
    await ledger.write(told=sealing)
    await sealing.finish()
    new, before = (await sealing.keys.read()).keys
    assert (before.id, before.retired_ms) == (old.id, new.made_ms)
    assert [one.signed.key_id for one in read_roots(RootsFile(tmp_path, 0).path)] == [old.id, old.id, new.id]
    await ledger.check()
