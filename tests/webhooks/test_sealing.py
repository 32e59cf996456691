import pytest

from actors.webhooks.sealing import CannotUnseal, SecretSeal

SEAL = SecretSeal(b"c" * 32)


def test_a_sealed_secret_is_read_by_the_same_cluster_for_the_same_webhook_only() -> None:
    """At rest a secret is no use to whoever has the database alone, or moves it to another webhook."""
    sealed = SEAL.seal("whsec_abc", "wh_1", b"n" * 12)
    assert b"whsec" not in sealed
    assert SecretSeal(b"c" * 32).unseal(sealed, "wh_1") == "whsec_abc"
    changed = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for seal, text, webhook in (
        (SEAL, sealed, "wh_2"),
        (SecretSeal(b"d" * 32), sealed, "wh_1"),
        (SEAL, changed, "wh_1"),
    ):
        with pytest.raises(CannotUnseal):
            seal.unseal(text, webhook)
    with pytest.raises(CannotUnseal):
        SEAL.unseal(b"", "wh_1")
