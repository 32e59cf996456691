"""Guards where legacy keys are looked for: at the owner that was named, and nothing of what a stranger made up."""

from actors.accounts.key_locations import LOCATIONS_MAX, KeyLocations
from actors.calls import KeyProof
from actors.units import routing_bytes
from tests.accounts.making import ALICE
from tests.accounts.test_api_keys import foreign_key


def test_only_keys_that_another_owner_has_are_located() -> None:
    """Threat 39: what a stranger makes up is not kept; what is kept is bounded, and the newest stays."""
    locations = KeyLocations()
    _, proof = foreign_key(ALICE)
    assert not locations.learn(proof, b"") and not locations
    assert not locations.learn(KeyProof(b"h" * 32, routing_bytes(ALICE)), ALICE)
    for number in range(LOCATIONS_MAX + 5):
        locations.learn(KeyProof(number.to_bytes(32, "big"), proof.routing), ALICE)
    assert locations.learn(proof, ALICE) and len(locations) == LOCATIONS_MAX
    located = locations.locate(proof)
    assert isinstance(located, KeyProof) and located.routing == routing_bytes(ALICE)
    assert not locations.learn(located, ALICE), "the right owner was asked: no second question"
