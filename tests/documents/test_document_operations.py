"""Documents for anybody: where a reader's copy may still be good, the description says so."""

from actors.documents.document_operations import DOCUMENTS


def test_documents_with_an_etag_tell_of_304() -> None:
    """The service answers 304 to If-None-Match for these, and for no other one."""
    may_be_unchanged = {each.endpoint for each in DOCUMENTS if 304 in each.successes}
    assert may_be_unchanged == {"GET /openapi.json", "GET /openrpc.json", "GET /llms.txt", "GET /docs"}


def test_each_is_described_once_and_costs_nothing() -> None:
    endpoints = [each.endpoint for each in DOCUMENTS]
    assert len(set(endpoints)) == len(endpoints)
    assert all(each.endpoint.startswith("GET /") and each.tag == "documents" for each in DOCUMENTS)
