"""The forms of parameters as JSON schemas."""

from jsonschema import Draft202012Validator

from actors.methods.forms import PUBKEY, UNSIGNED, MethodDocument, Parameter, an_object, choice, needed, params_schema


def test_what_need_not_be_given_may_be_null_or_left_out() -> None:
    """Positional parameters: null stands for a missing one, as nodes take it."""
    config = an_object("options", ("limit",), limit=UNSIGNED, encoding=choice("a", "b"))
    document = MethodDocument("Does it.", (needed("pubkey", PUBKEY), Parameter("configuration", config)), None)
    validator = Draft202012Validator(params_schema(document))
    key = "1" * 32
    for good in ([key], [key, None], [key, {"limit": 1}], [key, {"limit": 1, "encoding": None, "other": 5}]):
        assert validator.is_valid(good), good
    for bad in ([], [None], [key, {}], [key, {"limit": None}], [key, {"limit": 1, "encoding": "c"}], [key, None, 1]):
        assert not validator.is_valid(bad), bad
