"""One method of one path: its name is taken apart into the two."""

from actors.documents.operation import Access, Operation


def test_an_endpoint_is_a_method_and_a_path() -> None:
    """As GET /capabilities lists it; public and free unless told otherwise."""
    row = Operation("PATCH /webhooks/{id}", "webhooks", "Changes a webhook.", {})
    assert (row.method, row.path, row.access, row.price) == ("PATCH", "/webhooks/{id}", Access.PUBLIC, "")
