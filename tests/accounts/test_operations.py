"""Guards commands on operations: they go to the owner of their account, and an older sender releases nothing."""

from actors.accounts.api import owner_of
from actors.accounts.operations import ChargeOperations, HoldOperations
from actors.units import owner_index_of
from tests.accounts.making import ALICE, operation


def test_they_are_carried_out_by_the_owner_of_their_account() -> None:
    charge = ChargeOperations(ALICE, (operation(1),), "work", 1)
    assert owner_of(HoldOperations(ALICE, (operation(1),), 1), 7) == owner_of(charge, 7) == owner_index_of(ALICE, 7)
    assert charge.released == ()
