"""Guards the map of a replica: which owner is asked about what."""

from actors.accounts.api import Describe, ListReferrals, ReadAccount
from actors.accounts.directory import ListAccounts
from actors.accounts.routes import OwnerRoutes
from actors.calls import DeliveredNotice, StreamTime
from actors.units import shard_of
from tests.accounts.making import ALICE, hold, key_proof, operation, settle


def table(mine: int) -> bytes:
    """Alice's shard is this owner's, all others are the first one's."""
    owners = bytearray(1024)
    owners[shard_of(ALICE)] = mine
    return bytes(owners)


def test_everything_of_an_account_goes_to_one_owner() -> None:
    """Money rule 5: keys, calls and commands alike."""
    routes = OwnerRoutes()
    assert routes.of_account(ALICE) == 0 and not routes.are_read
    assert routes.update(table(3), (1, 0, 0, 1)) == {0, 3}
    assert routes.are_read and routes.used == {0, 3}
    proof = key_proof(ALICE)
    requests = (hold(1, 5, proof=proof), settle(1, 5), StreamTime(operation(1), ALICE, None))
    commands = (ReadAccount(proof), Describe(ALICE))
    assert {*map(routes.of_request, requests), *map(routes.of_command, commands)} == {3}
    assert {routes.of_account(ALICE), routes.of_proof(proof)} == {3}
    assert routes.of_request(DeliveredNotice(())) is None
    assert routes.of_command(ListReferrals()) == 0


def test_lists_of_accounts_go_to_all_owners_in_turn() -> None:
    """Each may read the whole table; one owner alone would make its customers wait for all of them."""
    routes, others = OwnerRoutes(), OwnerRoutes(first_turn=1)
    assert routes.of_command(ListAccounts()) == 0
    routes.update(bytes((0, 2, 5, 2)) * 256, (1, 0, 1, 0, 0, 1))
    others.update(bytes((0, 2, 5, 2)) * 256, (1, 0, 1, 0, 0, 1))
    assert sorted(routes.of_command(ListAccounts()) for _ in range(6)) == [0, 0, 2, 2, 5, 5]
    assert others.of_command(ListAccounts()) == 5  # Another process begins at another one.


def test_an_owner_that_took_a_shard_back_is_told_apart() -> None:
    """The table looks as before; its epoch does not."""
    routes = OwnerRoutes()
    routes.update(table(1), (1, 2))
    assert routes.update(table(1), (1, 2)) == set()
    assert routes.update(table(1), (1, 5)) == {1}
    assert routes.update(b"", ()) == set() and routes.of_account(ALICE) == 1
