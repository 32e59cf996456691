"""The text of a wallet sign-in; what /auth/verify makes of it is in test_endpoints.py."""

from hypothesis import given
from hypothesis import strategies as st

from actors.identity.challenge import new_challenge
from actors.identity.wallet_sign_in import challenge_in, sign_in_fields, sign_in_text
from tests.identity.wallets import NOW, wallet


@given(st.integers(0, 2**32 - 1), st.integers(1, 86_400), st.sampled_from(["http://127.0.0.1:8080", "https://a.b"]))
def test_the_text_is_made_again_from_its_challenge(issued: int, seconds: int, origin: str) -> None:
    """Nothing is stored for it; each field stands on one line, as wallets write it."""
    challenge = new_challenge(b"secret", wallet().pubkey, issued, b"rand")
    fields = sign_in_fields(origin, wallet().pubkey_text, challenge, seconds)
    text = sign_in_text(fields)
    assert challenge_in(text) == challenge and len(text.splitlines()) == 10
    assert text.startswith(f"{origin.partition('//')[2]} wants you to sign in with your Solana account:\n")
    assert fields["issuedAt"] < fields["expirationTime"] and fields["issuedAt"].endswith("Z")


def test_a_text_of_somebody_else_has_no_challenge() -> None:
    challenge = new_challenge(b"secret", wallet().pubkey, NOW, b"rand")
    for text in ("", challenge, f"Nonce: {challenge}0", f" Nonce: {challenge}", f"Nonce: {challenge.upper()}"):
        assert challenge_in(text) is None, text
