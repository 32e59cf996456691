from actors.accounts.store import AccountStore
from actors.accounts.store_parts import StoreParts


async def test_both_stores_have_every_part(store: AccountStore) -> None:
    """A part that a fake lacks would be tested by nobody."""
    parts = [name for name, value in vars(StoreParts).items() if isinstance(value, property)]
    assert len(parts) == 9 and all(getattr(store, name) is not None for name in parts)
