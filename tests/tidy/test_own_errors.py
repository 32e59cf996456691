"""Errors of this service can be told from the node's: decisions, "Errors of this service"."""

import re

from tests.tidy.sources import product

# JSON-RPC errors are composed here and nowhere else; each says whose it is.
COMPOSERS = {
    "actors/gateway/calls/replies.py",
    "actors/launch/front/installation.py",
    "actors/errors.py",
    "actors/upstream/replies.py",
}
_COMPOSES = re.compile(r"""["']code["']: ?(?!name\b|refusal\.err\.name|err|referral)[a-z_%][^\n]*["']message["']""")


def test_every_error_that_is_composed_names_its_source() -> None:
    found = {source.path: source.text for source in product() if _COMPOSES.search(source.text)}
    assert set(found) == COMPOSERS
    for path, text in found.items():
        assert '"source": "gateway"' in text, path


def test_only_the_module_of_replies_makes_errors_without_a_source() -> None:
    """`made_error` is the form of a node; this service's own errors are `own_error` or a Refusal."""
    users = [source.path for source in product() if re.search(r"\bmade_error\(", source.text)]
    assert users == ["actors/upstream/replies.py"]
