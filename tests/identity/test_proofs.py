"""Which credential counts. Interface, "Priority and failure"."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.calls import KeyProof, Proof, SessionProof, WalletProof
from actors.config import IdentityConfig
from actors.errors import Err, Refusal
from actors.identity.keys import new_api_key, new_session_token
from actors.identity.proofs import Accept, prove, uses_url_key

from .wallets import NOW, wallet

CONFIG = IdentityConfig()
KEY = new_api_key(wallet().pubkey, b"k" * 24)
TOKEN = new_session_token(wallet().pubkey, b"t" * 24)
API_KEY = (b"x-api-key", KEY.encode())
BAD_API_KEY = (b"x-api-key", b"srpc_live_nonsense")
BEARER = (b"authorization", b"Bearer " + TOKEN.encode())
BAD_BEARER = (b"authorization", b"Bearer nonsense")
SIGNED = list(wallet().headers().items())
BADLY_SIGNED = [*list(wallet(2).headers().items())[:1], *SIGNED[1:]]
URL_KEY = b"api-key=" + KEY.encode()
ORDINARY = [(b"host", b"example"), (b"user-agent", b"x"), (b"content-type", b"application/json")]


def proof_of(
    headers: list[tuple[bytes, bytes]], query: bytes = b"", accept: Accept = Accept.ANY
) -> Proof | Refusal | None:
    return prove(ORDINARY + headers, query, "POST", b"/rpc", b"{}", NOW, CONFIG, accept)


def assert_failed(result: Proof | Refusal | None) -> None:
    assert isinstance(result, Refusal)
    assert result.err is Err.AUTH_FAILED
    assert KEY not in result.detail
    assert TOKEN not in result.detail


def test_no_credentials_is_not_a_failure() -> None:
    """Interface: no credentials at all is 402 with terms, so that a payment client can onboard."""
    assert proof_of([]) is None
    assert proof_of([], b"limit=5&offset=1") is None
    assert proof_of([(b"x-timestamp", b"1")]) is None


def test_each_kind_alone() -> None:
    """Interface, "Priority and failure": a key in header or URL, a signature and a bearer token each suffice alone."""
    assert isinstance(proof_of([API_KEY]), KeyProof)
    assert isinstance(proof_of([], URL_KEY), KeyProof)
    assert isinstance(proof_of(SIGNED), WalletProof)
    assert isinstance(proof_of([BEARER]), SessionProof)


def test_hostile_8_the_order_is_key_wallet_bearer() -> None:
    """API key, bad signature and valid bearer together: the first kind that is present decides, whatever follows."""
    assert isinstance(proof_of([BEARER, *BADLY_SIGNED, API_KEY]), KeyProof)
    assert isinstance(proof_of([BEARER, *BADLY_SIGNED], URL_KEY), KeyProof)
    assert isinstance(proof_of([BAD_BEARER, *SIGNED]), WalletProof)


def test_hostile_8_a_bad_higher_credential_never_falls_through() -> None:
    for order in itertools.permutations([BAD_API_KEY, BEARER, *SIGNED[:1]]):
        assert_failed(proof_of([*order, *SIGNED[1:]]))
    assert_failed(proof_of([BEARER, *BADLY_SIGNED]))
    assert_failed(proof_of([BEARER, *SIGNED], b"api-key=nonsense"))
    assert_failed(proof_of([BAD_API_KEY], URL_KEY))
    assert_failed(proof_of([BEARER, *SIGNED[:1]]))
    assert_failed(proof_of([(b"x-api-key", b"")], URL_KEY))


def test_the_key_header_is_checked_before_the_url() -> None:
    """Interface: the header is checked first; the parameter is then not looked at."""
    other = new_api_key(wallet(2).pubkey, b"o" * 24)
    assert proof_of([API_KEY], b"api-key=" + other.encode()) == proof_of([API_KEY])
    assert proof_of([API_KEY], b"api-key=nonsense") == proof_of([API_KEY])


@pytest.mark.parametrize("header", [API_KEY, BEARER, *SIGNED], ids=lambda header: header[0].decode())
def test_a_credential_header_sent_twice_is_refused(header: tuple[bytes, bytes]) -> None:
    """Two readers could pick different ones; equal values make no difference."""
    assert_failed(proof_of([API_KEY, *SIGNED, BEARER, header]))
    assert_failed(proof_of([header, header]))


def test_the_url_parameter() -> None:
    """One api-key parameter, percent-decoded, is the header; repeated, empty or huge fails; no other name counts."""
    expected = proof_of([API_KEY])
    assert proof_of([], b"a=1&" + URL_KEY + b"&b=2") == expected
    assert proof_of([], URL_KEY.replace(b"_", b"%5F")) == expected
    assert_failed(proof_of([], URL_KEY + b"&" + URL_KEY))
    assert_failed(proof_of([], b"api-key="))
    assert_failed(proof_of([], b"api-key"))
    assert_failed(proof_of([], b"api-key=" + b"%41" * 1_000_000))
    assert proof_of([], b"x-api-key=" + KEY.encode()) is None
    assert proof_of([], b"API-KEY=" + KEY.encode()) is None
    assert proof_of([], b"api%2Dkey=" + KEY.encode()) is None


def test_hostile_9_a_key_in_the_url_is_noticed() -> None:
    """So that the reply can carry a deprecation warning; only when it is the key that counts."""
    assert uses_url_key(ORDINARY, URL_KEY)
    assert uses_url_key(ORDINARY, b"a=1&api-key=nonsense")
    assert not uses_url_key([*ORDINARY, API_KEY], URL_KEY)
    assert not uses_url_key(ORDINARY, b"")
    assert not uses_url_key(ORDINARY, b"x-api-key=1&y=api-key")


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"Bearer",
        b"Bearer ",
        b"Basic dXNlcjpwYXNz",
        TOKEN.encode(),
        b"Bearer" + TOKEN.encode(),
        b"Bearer " + TOKEN.encode() + b", Bearer x",
        b"Bearer " + TOKEN.encode()[:-1],
        b"Bearer " + KEY.encode(),
        b"Bearer " + b"a" * 10_000_000,
    ],
)
def test_other_authorization_values_are_refused(value: bytes) -> None:
    """Hostile input 5 among them: 10 MB costs no more than a good one."""
    assert_failed(proof_of([(b"authorization", value)]))


def test_the_scheme_is_case_insensitive() -> None:
    """RFC 9110, 11.1."""
    assert proof_of([(b"authorization", b"bearer  " + TOKEN.encode())]) == proof_of([BEARER])


def test_a_signature_without_its_key_is_told_so() -> None:
    assert_failed(proof_of([header for header in SIGNED if header[0] != b"x-pubkey"]))
    without_key = [header for header in SIGNED if header[0] != b"x-pubkey"]
    assert isinstance(proof_of([*without_key, BEARER]), SessionProof)


def test_only_the_wallet_may_replace_the_key() -> None:
    """Interface: POST /account/api-key requires a wallet signature; other kinds beside it are passed over."""
    assert isinstance(proof_of(SIGNED, accept=Accept.WALLET), WalletProof)
    assert isinstance(proof_of([API_KEY, BAD_BEARER, *SIGNED], URL_KEY, Accept.WALLET), WalletProof)
    assert_failed(proof_of([API_KEY], accept=Accept.WALLET))
    assert_failed(proof_of([BEARER], accept=Accept.WALLET))
    assert_failed(proof_of([], URL_KEY, Accept.WALLET))
    assert_failed(proof_of([BEARER, API_KEY, *BADLY_SIGNED], accept=Accept.WALLET))
    assert proof_of([], accept=Accept.WALLET) is None


def test_logout_takes_the_bearer_token_alone() -> None:
    """Interface: /auth/logout needs the bearer token."""
    assert isinstance(proof_of([BEARER], accept=Accept.SESSION), SessionProof)
    assert isinstance(proof_of([API_KEY, BEARER, *BADLY_SIGNED], accept=Accept.SESSION), SessionProof)
    assert_failed(proof_of([API_KEY], accept=Accept.SESSION))
    assert_failed(proof_of(SIGNED, accept=Accept.SESSION))
    assert_failed(proof_of([BAD_BEARER], accept=Accept.SESSION))
    assert proof_of([], accept=Accept.SESSION) is None


names = st.sampled_from([b"x-api-key", b"x-pubkey", b"x-signature", b"x-timestamp", b"x-nonce", b"authorization", b"a"])


@given(
    headers=st.lists(st.tuples(names, st.binary(max_size=100))),
    query=st.binary(max_size=100),
    accept=st.sampled_from(Accept),
)
def test_hostile_5_any_bytes_are_judged_without_an_exception(
    headers: list[tuple[bytes, bytes]], query: bytes, accept: Accept
) -> None:
    """Random bytes are no credential; the form of a legacy key is the one thing chance could meet."""
    assert not isinstance(proof_of(headers, query, accept), WalletProof)


def test_hostile_2_a_bad_signature_leaves_no_trace() -> None:
    """Proving is pure: the same nonce is good after any number of bad attempts; the owner alone takes it."""
    for _ in range(3):
        assert_failed(proof_of(BADLY_SIGNED))
    assert proof_of(SIGNED) == proof_of(SIGNED)


def test_hostile_4_and_39_each_fresh_key_pair_is_checked_at_the_door() -> None:
    """A hundred key pairs: the properly signed prove their own key and nonce, the others reach no owner."""
    for number in range(1, 101):
        good = proof_of(list(wallet(number).headers(nonce=f"n-{number}").items()))
        assert good == WalletProof(wallet(number).pubkey, f"n-{number}", NOW)
        stolen = wallet(number).headers() | {b"x-pubkey": wallet(number + 1).pubkey_text.encode()}
        assert_failed(proof_of(list(stolen.items())))
