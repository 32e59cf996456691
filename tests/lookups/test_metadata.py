"""Mints, their extensions and metadata accounts: honest ones of the embedded chain, and hostile bytes."""

import base64
import struct

from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from actors.addresses import SYSTEM_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_METADATA_PROGRAM, TOKEN_PROGRAM
from actors.lookups.metadata import CREATORS_MAX, Metadata, metadata_address, read_metadata, read_mint

from .scene import Scene
from .tokens import metadata_account, with_own_metadata

MINT, AUTHORITY = Pubkey(bytes([7]) * 32), Pubkey(bytes([9]) * 32)
LONGEST = 300


def mint_bytes(supply: int = 5, decimals: int = 2, authority: Pubkey | None = AUTHORITY) -> bytes:
    option = struct.pack("<I32s", 1, bytes(authority)) if authority else bytes(36)
    return option + struct.pack("<QBB", supply, decimals, 1) + bytes(36)


def extended(*extensions: tuple[int, bytes], kind: int = 1) -> bytes:
    values = b"".join(struct.pack("<HH", number, len(value)) + value for number, value in extensions)
    return mint_bytes().ljust(165, b"\0") + bytes([kind]) + values


def own(*texts: bytes, pairs: int = 0) -> bytes:
    body = bytes(AUTHORITY) + bytes(MINT) + b"".join(struct.pack("<I", len(text)) + text for text in texts)
    return body + struct.pack("<I", pairs)


def test_a_plain_mint_is_read_and_nothing_else_is_one():
    """A token account has the same owner, and so has a multisig."""
    data = mint_bytes()
    found = read_mint(TOKEN_PROGRAM, data, 82)
    assert (found.supply, found.decimals, found.mint_authority, found.freeze_authority) == (5, 2, str(AUTHORITY), None)
    assert (found.metadata, found.extensions, found.is_scaled) == (None, {}, False)
    assert read_mint(SYSTEM_PROGRAM, data, 82) is None
    assert read_mint(TOKEN_PROGRAM, data.ljust(165, b"\0"), 165) is None
    assert read_mint(TOKEN_PROGRAM, data[:81], 81) is None
    assert read_mint(TOKEN_PROGRAM, bytes(82), 82) is None
    assert read_mint(TOKEN_2022_PROGRAM, extended(kind=2), 200) is None


def test_a_mint_with_its_own_metadata_is_read_as_the_token_program_wrote_it(scene: Scene):
    """Executed by Token-2022 itself."""
    mint = with_own_metadata(scene, "Own name", "OWN", "https://x/own.json")
    account = scene.local.call("getAccountInfo", str(mint), {"encoding": "base64"})["value"]
    found = read_mint(TOKEN_2022_PROGRAM, base64.b64decode(account["data"][0]), account["space"])
    assert found is not None and found.metadata is not None
    assert (found.metadata.name, found.metadata.symbol, found.metadata.uri) == ("Own name", "OWN", "https://x/own.json")
    assert found.metadata.update_authority == str(scene.anna.pubkey()) and found.metadata.is_mutable
    assert found.extensions["metadata_pointer"]["metadata_address"] == str(mint)
    assert found.extensions["metadata"]["additionalMetadata"] == []
    assert not found.is_scaled


def test_extensions_are_shown_by_the_names_of_das():
    """Those that are not known, or too short, are left out."""
    fees = bytes(AUTHORITY) + bytes(32) + struct.pack("<QQQHQQH", 7, 1, 50, 10, 2, 60, 20)
    data = extended(
        *((1, fees), (3, bytes(AUTHORITY)), (6, b"\2"), (12, bytes(32)), (14, bytes(AUTHORITY) * 2)),
        *((99, b"unknown"), (18, bytes(63))),
    )
    shown = read_mint(TOKEN_2022_PROGRAM, data, len(data)).extensions
    assert shown["transfer_fee_config"] == {
        "transfer_fee_config_authority": str(AUTHORITY),
        "withdraw_withheld_authority": None,
        "withheld_amount": 7,
        "older_transfer_fee": {"epoch": 1, "maximum_fee": 50, "transfer_fee_basis_points": 10},
        "newer_transfer_fee": {"epoch": 2, "maximum_fee": 60, "transfer_fee_basis_points": 20},
    }
    assert shown["default_account_state"] == {"state": "frozen"}
    assert shown["permanent_delegate"] == {"delegate": None}
    assert shown["mint_close_authority"] == {"close_authority": str(AUTHORITY)}
    assert shown["transfer_hook"]["program_id"] == str(AUTHORITY)
    assert set(shown) == {
        "transfer_fee_config",
        "mint_close_authority",
        "default_account_state",
        "permanent_delegate",
        "transfer_hook",
    }


def test_amounts_that_the_node_must_be_asked_for_are_told():
    """Interest and multipliers; and a mint that goes on behind the slice may have either."""
    interest = bytes(32) + struct.pack("<qhqh", 1, 2, 3, 4)
    data = extended((10, interest))
    found = read_mint(TOKEN_2022_PROGRAM, data, len(data))
    assert found.is_scaled and found.extensions["interest_bearing_config"]["current_rate"] == 4
    assert read_mint(TOKEN_2022_PROGRAM, extended((25, bytes(56))), 230).is_scaled
    assert read_mint(TOKEN_2022_PROGRAM, extended((3, bytes(32))), 202).is_scaled is False
    assert read_mint(TOKEN_2022_PROGRAM, extended((3, bytes(32))), 5_000).is_scaled


def test_hostile_texts_are_shown_harmless_or_not_at_all():
    """Invalid UTF-8 is replaced, what is longer than any honest text is null, and what is cut off is null."""
    for texts, wanted in (
        ((b"\xff\xfe", b"S\0\0", b"javascript:alert(1)"), ("��", "S", "javascript:alert(1)")),
        ((b"n" * LONGEST, b"S", b"u"), (None, "S", "u")),
        ((b"n", b"s" * 65, b"u" * 513), ("n", None, None)),
        ((b"", b"", b""), ("", "", "")),
    ):
        data = extended((19, own(*texts)))
        found = read_mint(TOKEN_2022_PROGRAM, data, len(data)).metadata
        assert (found.name, found.symbol, found.uri) == wanted
    cut = extended((19, own(b"n", b"s" * 60, b"u")))[:-40]
    found = read_mint(TOKEN_2022_PROGRAM, cut, 9_999).metadata
    assert (found.name, found.symbol, found.uri) == ("n", None, None)
    lying = extended((19, bytes(64) + struct.pack("<I", 2**32 - 1) + b"n"))
    assert read_mint(TOKEN_2022_PROGRAM, lying, len(lying)).metadata.name is None


def test_a_metadata_account_is_read_to_its_collection():
    """With creators, flags, the token standard and the collection."""
    data = metadata_account(MINT, "Name", "SYM", "https://x", AUTHORITY, creators=2, standard=4, collection=AUTHORITY)
    found = read_metadata(TOKEN_METADATA_PROGRAM, data, bytes(MINT))
    assert (found.name, found.symbol, found.uri, found.basis_points) == ("Name", "SYM", "https://x", 250)
    assert [creator.share for creator in found.creators] == [50, 50]
    assert (found.standard, found.collection, found.collection_verified) == (
        "ProgrammableNonFungible",
        str(AUTHORITY),
        True,
    )
    assert (found.is_mutable, found.primary_sale_happened, found.update_authority) == (True, False, str(AUTHORITY))
    assert metadata_address(bytes(MINT)) == str(
        Pubkey.find_program_address(
            [b"metadata", bytes(Pubkey.from_string(TOKEN_METADATA_PROGRAM)), bytes(MINT)],
            Pubkey.from_string(TOKEN_METADATA_PROGRAM),
        )[0]
    )


def test_an_account_that_only_looks_like_metadata_is_none():
    """Of another program, of another kind, or of another mint: anybody can make such accounts."""
    data = metadata_account(MINT, "Name", "SYM", "u", AUTHORITY)
    assert read_metadata(TOKEN_PROGRAM, data, bytes(MINT)) is None
    assert read_metadata(TOKEN_METADATA_PROGRAM, b"\6" + data[1:], bytes(MINT)) is None
    assert read_metadata(TOKEN_METADATA_PROGRAM, data, bytes(AUTHORITY)) is None
    assert read_metadata(TOKEN_METADATA_PROGRAM, data[:64], bytes(MINT)) is None


def test_more_creators_than_there_can_be_are_not_read():
    """A count of four billion must not become work."""
    data = metadata_account(MINT, "Name", "SYM", "u", AUTHORITY, creators=CREATORS_MAX + 1, standard=0)
    found = read_metadata(TOKEN_METADATA_PROGRAM, data, bytes(MINT))
    assert (found.name, found.creators, found.is_mutable, found.standard) == ("Name", (), None, None)


@given(data=st.binary(max_size=400), size=st.integers(0, 10_000), cut=st.integers(0, 300))
def test_no_bytes_raise(data: bytes, size: int, cut: int):
    """Whatever an owner writes behind an honest beginning."""
    read_mint(TOKEN_2022_PROGRAM, extended()[:165] + b"\1" + data, size)
    read_mint(TOKEN_PROGRAM, data, size)
    honest = metadata_account(MINT, "Name", "SYM", "u", AUTHORITY, creators=2, standard=1, collection=AUTHORITY)
    found = read_metadata(TOKEN_METADATA_PROGRAM, honest[:cut] + data, bytes(MINT))
    assert found is None or isinstance(found, Metadata)
    read_metadata(TOKEN_METADATA_PROGRAM, honest[:65] + data, bytes(MINT))
