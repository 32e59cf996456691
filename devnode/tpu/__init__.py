"""The TPU of devnode: transactions over QUIC, with the interface of a validator."""
