import base58
from solders.pubkey import Pubkey

from actors.launch_programs.addresses import MINT_AUTHORITY, PUMP, TOKEN_2022_PROGRAM
from devnode.launchpad import calls
from tests.launch_programs.samples import sample

A, B, C = (Pubkey.from_bytes(bytes([number]) * 32) for number in (1, 2, 3))


def test_calls_equal_those_of_a_landed_launch() -> None:
    """The instruction data of each call is equal byte for byte."""
    inner = sample("pump_create_v2_buy_blocksubscribe")["payload"]["meta"]["innerInstructions"]
    shown = [base58.b58decode(call["data"]) for group in inner for call in group["instructions"]]
    mint = Pubkey.from_string("7YD6ZHb39jGb33ki2iFd7kHK11yMkSFCc9kvjJscpump")
    program, uri = (
        TOKEN_2022_PROGRAM,
        "https://ipfs.io/ipfs/bafkreiguttiiufcl24xtnzgxvvonh7b535a3dh6txrjgwax2hyecsyj46i",
    )
    made = [
        calls.create_account(A, mint, 2_519_520, 234, program),
        calls.initialize_metadata_pointer(program, mint),
        calls.initialize_mint(program, mint, 6, MINT_AUTHORITY),
        calls.create_account(A, B, 1_691_280, 115, PUMP),
        calls.create_token_account(A, B, C, mint, program),
        calls.transfer_lamports(A, mint, 1_224_960),
        calls.initialize_token_metadata(program, mint, MINT_AUTHORITY, "NYXORA", "NYXORA", uri),
        calls.give_up_token_metadata(program, mint, MINT_AUTHORITY),
        calls.mint_to(program, mint, B, MINT_AUTHORITY, 10**15),
        calls.give_up_minting(program, mint, MINT_AUTHORITY),
    ]
    assert [call.data for call in made] == [*shown[:5], *shown[9:14]]
    assert calls.transfer_tokens(program, A, mint, B, C, 3_520_371_073_923, 6).data in shown


def test_owners_of_moved_assets_must_sign() -> None:
    """Without the signature, a call would move assets that the owner did not agree to move."""
    for made, signer in (
        (calls.transfer_lamports(A, B, 1), A),
        (calls.transfer_tokens(PUMP, A, B, A, C, 1, 6), C),
        (calls.burn(PUMP, A, B, C, 1), C),
        (calls.mint_to(PUMP, A, B, C, 1), C),
        (calls.give_up_minting(PUMP, A, C), C),
        (calls.assign(A, PUMP), A),
        (calls.allocate(A, 5), A),
    ):
        assert [meta.pubkey for meta in made.accounts if meta.is_signer] == [signer]
    assert not any(meta.is_signer for meta in calls.sync_native(PUMP, A).accounts)
