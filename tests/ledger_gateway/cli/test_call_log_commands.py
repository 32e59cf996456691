"""`calls`: the table, the search by a request id, and wrong usage."""

from collections.abc import Callable

from .conftest import Done, Site


def test_a_call_is_found_by_its_request_id(cli: Callable[..., Done], site: Site) -> None:
    key = site.key(100)
    assert cli("call", "getSlot", key=key).code == 0
    refused = cli("call", "getBalance", '"x"', key=key)
    assert refused.code == 1
    site.run(site.log.write())
    (wrong, good) = cli("calls", "--json", key=key).json
    assert [good["method"], good["outcome"], good["credits"]] == ["getSlot", "result", 1]
    assert [wrong["method"], wrong["outcome"], wrong["credits"]] == ["getBalance", "INVALID_PARAMS", 0]
    assert cli("calls", "--request-id", good["request_id"], "--json", key=key).json == [good]
    shown = cli("calls", "--outcome", "refused", key=key)
    assert "INVALID_PARAMS" in shown.out and "getSlot" not in shown.out and "--request-id" in shown.err
    bad = cli("calls", "--outcome", "good", key=key)
    assert bad.code == 1 and "outcome" in bad.err
