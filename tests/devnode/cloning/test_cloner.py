"""A chain that clones, in process: the other node is a second chain, or one that misbehaves."""

import asyncio
import base64
from collections.abc import Sequence
from pathlib import Path

import pytest
from solders.account import Account
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from devnode.chain import chain as chain_module
from devnode.chain.bus import AccountWritten
from devnode.chain.pacemaker import Pacemaker
from devnode.cloning import cloner as cloner_module
from devnode.cloning.cloner import CloneError, Cloner
from devnode.cloning.touched import Touched
from devnode.cloning.upstream import Fetched, TooMuch, Unusable, UpstreamError
from devnode.encoding.addresses import (
    ADDRESS_LOOKUP_TABLE_PROGRAM,
    NATIVE_LOADER,
    SYSTEM_PROGRAM,
    TOKEN_PROGRAM,
    UPGRADEABLE_LOADER,
)
from devnode.encoding.wire import Decoded
from devnode.records.commitment import Commitment
from tests.devnode.local_node import LocalNode, decoded, give

OWNER = Pubkey.from_bytes(b"\x09" * 32)
MEMO = Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")


class Other:
    """The other node: its accounts, and what it was asked."""

    origin = "http://other"

    def __init__(self, accounts: dict[Pubkey, Fetched] | None = None) -> None:
        self.held = accounts or {}
        self.asked: list[list[Pubkey]] = []
        self.fault: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.most = 100

    async def accounts(self, pubkeys: Sequence[Pubkey]) -> list[Fetched]:
        self.asked.append(list(pubkeys))
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        if len(pubkeys) > self.most:
            raise TooMuch("its answer is larger than 1 bytes")
        return [self.held.get(pubkey) for pubkey in pubkeys]

    async def close(self) -> None:
        return


def account(lamports: int = 5_000_000, data: bytes = b"", owner: Pubkey = SYSTEM_PROGRAM) -> Account:
    return Account(lamports, data, owner, False, 2**64 - 1)


def cloning(local: LocalNode, other: Other, known: dict[Pubkey, int] | None = None) -> Cloner:
    return Cloner(local.chain, other, local.clock, known)


def keys(*pubkeys: Pubkey) -> Touched:
    return Touched(pubkeys=set(pubkeys))


def sent(transaction: VersionedTransaction) -> Touched:
    return Touched(transactions=[decoded(transaction)])


async def test_an_account_is_fetched_once_and_was_always_here(local: LocalNode) -> None:
    """It shows at every level, in indexes, without an event; a second touch asks nobody."""
    wallet = Pubkey.new_unique()
    other = Other({wallet: account(data=b"abc", owner=OWNER)})
    cloner, heard = cloning(local, other), local.chain.bus.subscribe(AccountWritten)
    await cloner.bring(keys(wallet))
    await cloner.bring(keys(wallet))
    assert other.asked == [[wallet]] and heard.drain() == []
    for level in Commitment:
        held = local.chain.account(wallet, level)
        assert held is not None and (held.lamports, held.data, held.owner) == (5_000_000, b"abc", OWNER)
    assert wallet in local.chain.indexes.of_program(OWNER)


async def test_a_miss_is_remembered(local: LocalNode) -> None:
    nobody, other = Pubkey.new_unique(), Other()
    cloner = cloning(local, other)
    for _ in range(3):
        await cloner.bring(keys(nobody))
    assert other.asked == [[nobody]] and local.chain.vm.account(nobody) is None


async def test_what_is_written_here_wins(local: LocalNode) -> None:
    """An account that is here, that was created here while it was fetched, or that was closed here, is not replaced."""
    here, meanwhile = local.wallet().pubkey(), Pubkey.new_unique()
    other = Other({here: account(1), meanwhile: account(1)})
    cloner = cloning(local, other)
    await cloner.bring(keys(here))
    assert other.asked == []
    other.gate.clear()
    fetching = asyncio.create_task(cloner.bring(keys(meanwhile)))
    await asyncio.sleep(0)
    local.faucet.airdrop(meanwhile, 7 * 10**9)
    other.gate.set()
    await fetching
    held = local.chain.vm.account(meanwhile)
    assert held is not None and held.lamports == 7 * 10**9
    closed = Keypair()
    local.faucet.airdrop(closed.pubkey(), 10**9)
    other.held[closed.pubkey()] = account(2)
    local.land(local.transfer(closed, here, 10**9 - 5_000))
    await cloner.bring(keys(closed.pubkey()))
    assert local.chain.vm.account(closed.pubkey()) is None


async def test_a_restart_keeps_what_was_cloned_and_what_was_closed(tmp_path: Path) -> None:
    local = LocalNode(tmp_path)
    wallet, spent = Pubkey.new_unique(), Keypair()
    other = Other({wallet: account(data=b"x"), spent.pubkey(): account(10**9)})
    cloner = cloning(local, other)
    pacemaker = Pacemaker(local.chain, local.journal, local.clock, 400, local.node.faults)
    await cloner.bring(keys(wallet, spent.pubkey()))
    local.land(local.transfer(spent, wallet, 10**9 - 5_000))
    await pacemaker.stop()
    local.close()
    local = LocalNode(tmp_path)
    held = local.chain.vm.account(wallet)
    assert held is not None and (held.lamports, held.data) == (5_000_000 + 10**9 - 5_000, b"x")
    past = local.journal.restore()
    assert past is not None and past.cloned == {wallet: 1, spent.pubkey(): 0}
    again = cloning(local, other, past.cloned)
    other.asked.clear()
    await again.bring(keys(wallet, spent.pubkey()))
    assert other.asked == [] and local.chain.vm.account(spent.pubkey()) is None
    local.close()


async def test_a_lost_fork_keeps_what_was_cloned_on_it(tmp_path: Path) -> None:
    """The account stays as the other node had it; what the fork wrote into it is undone, on disk as well."""
    local, payer = LocalNode(tmp_path), Keypair()
    cloner = cloning(local, Other({payer.pubkey(): account(10**9)}))
    pacemaker = Pacemaker(local.chain, local.journal, local.clock, 400, local.node.faults)
    await cloner.bring(keys(payer.pubkey()))
    local.land(local.transfer(payer, Pubkey.new_unique(), 10**8))
    local.lose()
    held = local.chain.vm.account(payer.pubkey())
    assert held is not None and held.lamports == 10**9
    await pacemaker.stop()
    local.close()
    local = LocalNode(tmp_path)
    held = local.chain.vm.account(payer.pubkey())
    assert held is not None and held.lamports == 10**9
    local.close()


async def test_a_transaction_of_cloned_accounts_lands(local: LocalNode) -> None:
    """Payer, program and the program's code come with one touch; the code is asked for after the program."""
    payer, program = Keypair(), Pubkey.new_unique()
    code = Pubkey.find_program_address([bytes(program)], UPGRADEABLE_LOADER)[0]
    elf = local.chain.vm.account(MEMO)
    assert elf is not None
    state = (3).to_bytes(4, "little") + (350_000_000).to_bytes(8, "little") + b"\x01" + bytes(32)
    other = Other(
        {
            payer.pubkey(): account(10**9),
            program: Account(10**7, (2).to_bytes(4, "little") + bytes(code), UPGRADEABLE_LOADER, True, 0),
            code: account(10**9, state + elf.data, UPGRADEABLE_LOADER),
        }
    )
    cloner = cloning(local, other)
    transaction = local.signed(payer, Instruction(program, b"hello", []))
    await cloner.bring(sent(transaction))
    assert other.asked[1] == [code] and len(other.asked) == 2
    record = local.land(transaction)
    assert record.meta.err is None and any("hello" in line for line in record.meta.logs)


async def test_a_token_account_brings_its_mint(local: LocalNode) -> None:
    mint, holder = Pubkey.new_unique(), Pubkey.new_unique()
    data = bytes(mint) + bytes(OWNER) + (42).to_bytes(8, "little") + bytes(36) + b"\x01" + bytes(56)
    minted = bytes(36) + (42).to_bytes(8, "little") + b"\x02\x01" + bytes(36)
    other = Other({holder: account(data=data, owner=TOKEN_PROGRAM), mint: account(data=minted, owner=TOKEN_PROGRAM)})
    await cloning(local, other).bring(keys(holder))
    shown = local.call("getTokenAccountBalance", str(holder))["value"]
    assert (shown["amount"], shown["uiAmountString"]) == ("42", "0.42")


async def test_the_addresses_of_a_lookup_table(local: LocalNode) -> None:
    """They are fetched after the table, and can be used at once though the table grew in a slot far ahead of here."""
    payer, table, receiver = Keypair(), Pubkey.new_unique(), Pubkey.new_unique()
    head = (1).to_bytes(4, "little") + b"\xff" * 8 + (400_000_000).to_bytes(8, "little") + b"\x00" + bytes(35)
    other = Other(
        {
            payer.pubkey(): account(10**9),
            table: account(data=head + bytes(receiver), owner=ADDRESS_LOOKUP_TABLE_PROGRAM),
            receiver: account(10**7),
        }
    )
    lookup = AddressLookupTableAccount(table, [receiver])
    message = MessageV0.try_compile(payer.pubkey(), [give(payer, receiver, 5)], [lookup], local.blockhash())
    transaction = VersionedTransaction(message, [payer])
    await cloning(local, other).bring(sent(transaction))
    assert {*other.asked[0]} == {payer.pubkey(), table} and other.asked[1] == [receiver]
    assert local.land(transaction).meta.err is None
    held = local.chain.vm.account(receiver)
    assert held is not None and held.lamports == 10**7 + 5


async def test_native_programs_and_sysvars_do_not_travel(local: LocalNode) -> None:
    strange = Pubkey.new_unique()
    other = Other({strange: account(1, b"new_native_program", NATIVE_LOADER)})
    cloner = cloning(local, other)
    await cloner.bring(keys(strange, SYSTEM_PROGRAM, TOKEN_PROGRAM, UPGRADEABLE_LOADER))
    assert other.asked == [[strange]] and local.chain.vm.account(strange) is None


@pytest.mark.parametrize(
    ("pointer", "code", "said"),
    [
        ("another", "good", "its program data account is not the one of this program"),
        ("own", "absent", "its program data account is missing or has no code"),
        ("own", "buffer", "its program data account is missing or has no code"),
        ("own", "bytes", "it is no program that can be loaded"),
        ("short", "good", "its program data account is not the one of this program"),
    ],
)
async def test_a_program_that_cannot_be_used(local: LocalNode, pointer: str, code: str, said: str) -> None:
    """Nothing of a false program is taken for one; the answer for another program is seen by its code's address."""
    program, elf = Pubkey.new_unique(), local.chain.vm.account(MEMO)
    assert elf is not None
    own = Pubkey.find_program_address([bytes(program)], UPGRADEABLE_LOADER)[0]
    named = Pubkey.new_unique() if pointer == "another" else own
    state = (1 if code == "buffer" else 3).to_bytes(4, "little") + bytes(8) + b"\x01" + bytes(32)
    body = (2).to_bytes(4, "little") + (b"" if pointer == "short" else bytes(named))
    other = Other({program: Account(10**7, body, UPGRADEABLE_LOADER, True, 0)})
    if code != "absent":
        other.held[named] = account(10**9, state + (b"no code" if code == "bytes" else elf.data), UPGRADEABLE_LOADER)
    cloner = cloning(local, other)
    with pytest.raises(CloneError, match=f"account {program} of http://other cannot be used: {said}"):
        await cloner.bring(keys(program))
    assert local.chain.vm.account(program) is None
    calls = len(other.asked)
    with pytest.raises(CloneError, match=said):
        await cloner.bring(keys(program))
    assert len(other.asked) == calls, "an unusable account is not fetched again at once"


async def test_a_node_that_is_away(local: LocalNode) -> None:
    """The error names the account and the reason; for a second the node is left alone; then it may be back."""
    wallet = Pubkey.new_unique()
    other = Other({wallet: account()})
    other.fault = UpstreamError("it cannot be reached (ClientConnectorError)")
    cloner = cloning(local, other)
    for _ in range(2):
        with pytest.raises(CloneError, match=f"cannot fetch account {wallet} from http://other: it cannot be reached"):
            await cloner.bring(keys(wallet))
    assert len(other.asked) == 1
    other.fault = None
    local.clock.advance(1.1)
    await cloner.bring(keys(wallet))
    assert local.chain.vm.account(wallet) is not None


async def test_a_node_that_never_answers(local: LocalNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloner_module, "FETCH_SECONDS_MAX", 0.01)
    other = Other()
    other.gate.clear()
    with pytest.raises(CloneError, match="no answer within 0 seconds"):
        await cloning(local, other).bring(keys(Pubkey.new_unique()))


async def test_unusable_accounts_do_not_stop_the_others(local: LocalNode) -> None:
    good, bad = Pubkey.new_unique(), Pubkey.new_unique()
    other = Other({good: account(), bad: Unusable("its data are not valid base64")})
    with pytest.raises(
        CloneError, match=f"account {bad} of http://other cannot be used: its data are not valid base64"
    ):
        await cloning(local, other).bring(keys(good, bad))
    assert local.chain.vm.account(good) is not None and local.chain.vm.account(bad) is None


async def test_two_calls_share_a_fetch_and_a_client_may_go(local: LocalNode) -> None:
    wallet = Pubkey.new_unique()
    other = Other({wallet: account()})
    other.gate.clear()
    cloner = cloning(local, other)
    first, second = (asyncio.create_task(cloner.bring(keys(wallet))) for _ in range(2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    other.gate.set()
    await second
    assert other.asked == [[wallet]] and first.cancelled() and local.chain.vm.account(wallet) is not None


async def test_large_answers_are_asked_for_in_halves(local: LocalNode) -> None:
    wallets = [Pubkey.new_unique() for _ in range(9)]
    other = Other({wallet: account() for wallet in wallets})
    other.most = 2
    await cloning(local, other).bring(keys(*wallets))
    assert all(local.chain.vm.account(wallet) is not None for wallet in wallets)
    other.most = 0
    with pytest.raises(CloneError, match="larger than"):
        await cloning(local, other).bring(keys(Pubkey.new_unique()))


async def test_limits(local: LocalNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes, accounts, misses and fetches under way are bounded."""
    other = Other({Pubkey.new_unique(): account(data=bytes(600)) for _ in range(3)})
    first, second, third = other.held
    monkeypatch.setattr(cloner_module, "CLONED_BYTES_MAX", 1_000)
    cloner = cloning(local, other)
    await cloner.bring(keys(first))
    with pytest.raises(CloneError, match="more than 1000 bytes would have been taken over"):
        await cloner.bring(keys(second))
    monkeypatch.setattr(cloner_module, "CLONED_BYTES_MAX", 10_000)
    monkeypatch.setattr(cloner_module, "CLONED_ACCOUNTS_MAX", 1)
    with pytest.raises(CloneError, match="1 accounts have been taken over, which is the most"):
        await cloner.bring(keys(third))
    monkeypatch.setattr(cloner_module, "PENDING_MAX", 5)
    with pytest.raises(CloneError, match="and 5 more from http://other: too many accounts are being fetched"):
        await cloner.bring(keys(*(Pubkey.new_unique() for _ in range(6))))
    monkeypatch.setattr(cloner_module, "MISSES_MAX", 2)
    for wallet in [Pubkey.new_unique() for _ in range(4)]:
        await cloner.bring(keys(wallet))
    assert len(cloner._misses) == 2
    monkeypatch.setattr(chain_module, "CLOSED_HERE_MAX", 0)
    local.chain.place(first, None)
    assert local.chain.closed_here == set()


async def test_a_transaction_without_an_answer_waits_or_is_dropped(
    local: LocalNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a TPU port: it runs when its accounts are here; without them it is lost, as on the network."""
    payer = Keypair()
    other = Other({payer.pubkey(): account(10**9)})
    cloner, ran = cloning(local, other), list[Decoded]()
    transaction = decoded(local.transfer(payer, Pubkey.new_unique(), 5))
    cloner.bring_before(transaction, lambda: ran.append(transaction))
    assert ran == []
    await asyncio.gather(*cloner._later)
    cloner.bring_before(transaction, lambda: ran.append(transaction))
    assert len(ran) == 2, "at once, because everything is here"
    other.fault = UpstreamError("away")
    lost = decoded(local.transfer(Keypair(), Pubkey.new_unique(), 5))
    cloner.bring_before(lost, lambda: ran.append(lost))
    await asyncio.gather(*cloner._later)
    assert len(ran) == 2
    monkeypatch.setattr(cloner_module, "LATER_MAX", 0)
    cloner.bring_before(lost, lambda: ran.append(lost))
    assert len(ran) == 2


async def test_a_simulation_at_finalized_sees_what_came_now(local: LocalNode) -> None:
    payer, receiver = Keypair(), Pubkey.new_unique()
    other = Other({payer.pubkey(): account(10**9), receiver: account(10**7)})
    transaction = local.transfer(payer, receiver, 5)
    await cloning(local, other).bring(sent(transaction))
    text = base64.b64encode(bytes(transaction)).decode()
    config = {"encoding": "base64", "commitment": "finalized", "replaceRecentBlockhash": True}
    shown = local.call("simulateTransaction", text, config)["value"]
    assert shown["err"] is None and shown["preBalances"][:2] == [10**9, 10**7]
