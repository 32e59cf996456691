import pickle

import pytest

from actors.accounts.api import OfAccount, shard_of_command
from actors.accounts.key_requests import ChangeKey, CreateKey, DeleteKey, ListKeys, RotateKey
from actors.accounts.named_keys import KeyLimits
from actors.units import shard_of
from tests.accounts.making import ALICE


@pytest.mark.parametrize(
    "command",
    [
        CreateKey(ALICE, "bot", KeyLimits(credits_a_day=5)),
        ListKeys(ALICE, 3),
        ChangeKey(ALICE, 1, limits={"credits_total": None}, is_frozen=True),
        RotateKey(ALICE, 1, 60),
        DeleteKey(ALICE, 1),
    ],
)
def test_a_command_travels_to_the_owner_of_its_account(command: OfAccount[object]) -> None:
    assert pickle.loads(pickle.dumps(command)) == command
    assert shard_of_command(command) == shard_of(ALICE)


def test_two_changes_share_no_limits() -> None:
    assert ChangeKey(ALICE, 1).limits is not ChangeKey(ALICE, 1).limits
