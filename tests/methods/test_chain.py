"""Parameters of the methods that read blocks."""

import pytest

from tests.methods.asking import SIGNATURE, checked, refused


@pytest.mark.parametrize(
    ("raw", "sent"),
    [
        (b"[5]", b'[5,{"maxSupportedTransactionVersion":0}]'),
        (b"[ 5\n]", b'[ 5\n,{"maxSupportedTransactionVersion":0}]'),
        (b"[5,null]", b'[5,{"maxSupportedTransactionVersion":0}]'),
        (b'[5,"base64"]', b'[5,{"encoding":"base64","maxSupportedTransactionVersion":0}]'),
        (b"[5,{}]", b'[5,{"maxSupportedTransactionVersion":0}]'),
        (b'[5,{"rewards":false}]', b'[5,{"rewards":false,"maxSupportedTransactionVersion":0}]'),
        (b'[5,{"maxSupportedTransactionVersion":null}]', b'[5,{"maxSupportedTransactionVersion":0}]'),
        (b'[5, {"maxSupportedTransactionVersion":1} ]', b'[5, {"maxSupportedTransactionVersion":1} ]'),
        (b'[5,{"maxSupportedTransactionVersion":0}]', b'[5,{"maxSupportedTransactionVersion":0}]'),
    ],
)
def test_transaction_version_zero_is_put_in_where_it_is_left_out(raw, sent):
    """Decisions, "maxSupportedTransactionVersion": to the node, leaving it out means legacy only; the interface's
    default is 0."""
    assert checked("getBlock", raw=raw) == sent
    quoted = b'"' + SIGNATURE.encode() + b'"'
    assert checked("getTransaction", raw=raw.replace(b"5", quoted, 1)) == sent.replace(b"5", quoted, 1)


@pytest.mark.parametrize("version", [-1, 256, "0", 0.0, True, [0]])
def test_a_transaction_version_is_a_small_whole_number(version):
    """Anything else would be refused by the node, for money."""
    assert "maxSupportedTransactionVersion" in refused("getBlock", 5, {"maxSupportedTransactionVersion": version})
