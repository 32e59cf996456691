"""The shapes are those of UiExtension in Agave's account-decoder-client-types."""

import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from devnode.encoding.addresses import TOKEN_ACCOUNT_BYTES
from devnode.parsing.token_extensions import with_extensions

A, B = (Pubkey.from_bytes(bytes([number]) * 32) for number in (1, 2))


def shown(kind: int, value: bytes) -> dict[str, object]:
    data = bytes(TOKEN_ACCOUNT_BYTES) + b"\x01" + struct.pack("<HH", kind, len(value)) + value
    (extension,) = with_extensions({}, data)["extensions"]
    return dict(extension)


def text(fill: int, size: int) -> str:
    return base64.b64encode(bytes([fill]) * size).decode()


def filled(*sizes: int) -> bytes:
    """Fields one after the other; the first is all ones, the second all twos."""
    return b"".join(bytes([number]) * size for number, size in enumerate(sizes, start=1))


@pytest.mark.parametrize(
    ("kind", "value", "name", "state"),
    [
        (
            4,
            bytes(A) + b"\x01" + bytes(32),
            "confidentialTransferMint",
            {"authority": str(A), "autoApproveNewAccounts": True, "auditorElgamalPubkey": None},
        ),
        (
            5,
            filled(1, 32, 64, 64, 64, 36) + b"\x01\x00" + struct.pack("<4Q", 1, 2, 3, 4),
            "confidentialTransferAccount",
            {
                "approved": True,
                "elgamalPubkey": text(2, 32),
                "pendingBalanceLo": text(3, 64),
                "pendingBalanceHi": text(4, 64),
                "availableBalance": text(5, 64),
                "decryptableAvailableBalance": text(6, 36),
                "allowConfidentialCredits": True,
                "allowNonConfidentialCredits": False,
                "pendingBalanceCreditCounter": 1,
                "maximumPendingBalanceCreditCounter": 2,
                "expectedPendingBalanceCreditCounter": 3,
                "actualPendingBalanceCreditCounter": 4,
            },
        ),
        (
            16,
            filled(32, 32) + b"\x01" + b"\x07" * 64,
            "confidentialTransferFeeConfig",
            {
                "authority": str(A),
                "withdrawWithheldAuthorityElgamalPubkey": text(2, 32),
                "harvestToMintEnabled": True,
                "withheldAmount": text(7, 64),
            },
        ),
        (17, filled(64), "confidentialTransferFeeAmount", {"withheldAmount": text(1, 64)}),
        (
            21,
            bytes(32) + bytes(B) + struct.pack("<QQ", 3, 9),
            "tokenGroup",
            {"updateAuthority": None, "mint": str(B), "size": 3, "maxSize": 9},
        ),
        (
            23,
            bytes(A) + bytes(B) + struct.pack("<Q", 5),
            "tokenGroupMember",
            {"mint": str(A), "group": str(B), "memberNumber": 5},
        ),
        (
            24,
            filled(64, 36, 32, 64),
            "confidentialMintBurn",
            {
                "confidentialSupply": text(1, 64),
                "decryptableSupply": text(2, 36),
                "supplyElgamalPubkey": text(3, 32),
                "pendingBurn": text(4, 64),
            },
        ),
        (
            25,
            bytes(A) + struct.pack("<dqd", 1.0, -7, 1e-7),
            "scaledUiAmountConfig",
            {
                "authority": str(A),
                "multiplier": "1",
                "newMultiplierEffectiveTimestamp": -7,
                "newMultiplier": "0.0000001",
            },
        ),
        (26, bytes(32) + b"\x01", "pausableConfig", {"authority": None, "paused": True}),
        (28, bytes(A), "permissionedBurnConfig", {"authority": str(A)}),
    ],
)
def test_the_state_of_an_extension(kind: int, value: bytes, name: str, state: dict[str, object]) -> None:
    assert shown(kind, value) == {"extension": name, "state": state}


def test_an_extension_without_a_state() -> None:
    assert shown(27, b"") == {"extension": "pausableAccount"}


@pytest.mark.parametrize("kind", [1, 2, 3, 4, 5, 6, 8, 10, 11, 12, 14, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 28])
def test_an_extension_that_is_too_short_is_unparseable(kind: int) -> None:
    """No number of zeros is made up for bytes that are not there."""
    assert shown(kind, b"") == {"extension": "unparseableExtension"}


@given(data=st.binary(max_size=600))
def test_any_bytes_are_answered(data: bytes) -> None:
    with_extensions({}, bytes(TOKEN_ACCOUNT_BYTES) + b"\x01" + data)
