from actors.accounts.api import shard_of_command
from actors.accounts.listings import LedgerFilter
from actors.accounts.receipts import ReadChain, ReadLedgerKeys, ReadReceipts
from actors.units import shard_of
from tests.accounts.making import ALICE


def test_receipts_are_asked_of_the_accounts_owner_and_keys_of_any() -> None:
    for command in (ReadReceipts(ALICE, LedgerFilter(), 1), ReadChain(ALICE, (0, 0), 1)):
        assert shard_of_command(command) == shard_of(ALICE)
    assert shard_of_command(ReadLedgerKeys()) is None
