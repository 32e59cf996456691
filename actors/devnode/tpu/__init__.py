"""The embedded chain's transaction port over QUIC, as a validator presents it."""
