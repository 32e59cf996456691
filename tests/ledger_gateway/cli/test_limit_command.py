"""`limit`: shown by any credential, changed by the wallet."""

from collections.abc import Callable

from .conftest import Done


def test_a_limit_is_shown_set_and_lifted(cli: Callable[..., Done]) -> None:
    cli("wallet", "new")
    cli("key", "new")
    assert "no limit" in cli("limit").out
    assert cli("limit", "--set", "50", "--json").json["credits_an_hour"] == 50
    lifted = cli("limit", "--lift", "60")
    assert lifted.code == 0 and "lifted" in lifted.out and "50" in lifted.out
    assert cli("limit", "--none", "--json").json["setting"] is None
    assert cli("limit", "--learnt", "--json").json["setting"] == "learnt"
    assert cli("limit", "--set", "5", "--none").code == 2 and cli("limit", "--set", "0").code == 2
