"""Guards commands on operations: they go to the owner of their account, and an older sender releases nothing."""

from actors.accounts.api import shard_of_command
from actors.accounts.operations import ChargeOperations, HoldOperations
from actors.units import shard_of
from tests.accounts.making import ALICE, operation


def test_they_are_carried_out_by_the_owner_of_their_account() -> None:
    charge = ChargeOperations(ALICE, (operation(1),), "work", 1)
    assert shard_of_command(HoldOperations(ALICE, (operation(1),), 1)) == shard_of_command(charge) == shard_of(ALICE)
    assert charge.released == ()
