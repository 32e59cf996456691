"""Settings of the operators' page.

Implements: decisions, "The operators' page". Not here: who is an operator (identity/operator_token.py).
"""

from ipaddress import ip_network

from pydantic import Field, SecretStr, field_validator

from actors.provider_config import Branch


class OperatorConfig(Branch):
    enabled: bool = Field(True, description="whether the operators' page and /operator/* are served at all")
    token: SecretStr | None = Field(
        None, min_length=32, max_length=256, description="token of /operator/*; a local run makes one, else it is off"
    )
    addresses: tuple[str, ...] = Field((), description="addresses or networks that /operator/* answers; empty: all")

    @field_validator("addresses")
    @classmethod
    def _are_networks(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        for text in texts:
            try:
                ip_network(text, strict=False)
            except ValueError:
                raise ValueError(f"{text!r} is neither an address nor a network") from None
        return texts

    @field_validator("token")
    @classmethod
    def _can_be_a_header(cls, token: SecretStr | None) -> SecretStr | None:
        if token is not None and not all("!" <= each <= "~" for each in token.get_secret_value()):
            raise ValueError("wanted visible ASCII characters without spaces, as it travels in a header")
        return token
