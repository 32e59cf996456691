"""Parameters of the methods that read accounts."""

import pytest

from tests.methods.asking import KEY, checked


@pytest.mark.parametrize(
    ("raw", "sent"),
    [
        (b'["%b",{"mint":"%b"}]', b'["%b",{"mint":"%b"},{"encoding":"base64"}]'),
        (b'[ "%b" , {"mint": "%b"} ]\n', b'[ "%b" , {"mint": "%b"} ,{"encoding":"base64"}]'),
        (b'["%b", {"mint" :"%b"},null]', b'["%b",{"mint" :"%b"},{"encoding":"base64"}]'),
        (b'["%b",{"mint":"%b"},{"encoding":"jsonParsed"}]', b'["%b",{"mint":"%b"},{"encoding":"jsonParsed"}]'),
        (b'["%b",{"mint":"%b"},{}]', b'["%b",{"mint":"%b"},{}]'),
    ],
)
def test_token_accounts_by_owner_gets_base64_when_no_configuration_is_given(raw, sent):
    """Interface rule 4: only where the third parameter is omitted; everything else keeps its bytes."""
    keys = (KEY.encode(), KEY.encode())
    assert checked("getTokenAccountsByOwner", raw=raw % keys) == sent % keys
