from devnode.encoding import addresses


def test_sysvars_and_programs_are_never_writable() -> None:
    """Every sysvar and the programs that a transaction can name are in the reserved set."""
    assert set(addresses.SYSVARS) <= addresses.RESERVED
    assert addresses.PRECOMPILES <= addresses.RESERVED
    assert not addresses.TOKEN_PROGRAMS & addresses.RESERVED
    assert addresses.USDC_MINT not in addresses.RESERVED
