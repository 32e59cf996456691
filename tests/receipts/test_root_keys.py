import pytest

from actors.receipts.root_keys import CannotOpen, KeySeal, published

KEY = KeySeal(b"secret").make(b"s" * 32, b"n" * 12, 1_700_000_000_000)


def test_a_key_opens_with_the_secret_that_sealed_it() -> None:
    signing = KeySeal(b"secret").open(KEY)
    signing.verify_key.verify(signing.sign(b"text"))
    assert bytes(signing.verify_key) == KEY.public and b"s" * 8 not in KEY.sealed


@pytest.mark.parametrize(
    "changed",
    [
        KEY._replace(id="0" * 16),
        KEY._replace(public=b"p" * 32),
        KEY._replace(sealed=KEY.sealed[:-1] + b"\0"),
        KEY._replace(sealed=b""),
    ],
)
def test_a_changed_row_opens_nothing(changed: object) -> None:
    with pytest.raises(CannotOpen):
        KeySeal(b"secret").open(changed)  # type: ignore[arg-type]
    with pytest.raises(CannotOpen):
        KeySeal(b"another").open(KEY)


def test_all_keys_are_published_and_no_private_half() -> None:
    told = published([KEY, KEY._replace(id="old", retired_ms=1_700_000_001_000)])
    assert told == {
        "keys": [
            {"id": KEY.id, "algorithm": "Ed25519", "public_key": KEY.public.hex(), "made_at": 1_700_000_000}
            | {"retired_at": None},
            {"id": "old", "algorithm": "Ed25519", "public_key": KEY.public.hex(), "made_at": 1_700_000_000}
            | {"retired_at": 1_700_000_001},
        ]
    }
