"""Well-known addresses and fixed numbers of the chain that this node presents.

Implements: decisions, "devnode's network" (genesis hash and USDC mint of devnet). Pure constants; no rules live here.
"""

from solders.pubkey import Pubkey

GENESIS_HASH = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG"  # Devnet's, so that no client takes this for mainnet.
USDC_MINT = Pubkey.from_string("4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU")
USDC_DECIMALS = 6
NATIVE_MINT = Pubkey.from_string("So11111111111111111111111111111111111111112")
NATIVE_DECIMALS = 9
# Mainnet's tip accounts, because clients have these addresses as constants. Here they are wallets without known keys.
TIP_ACCOUNTS = tuple(
    Pubkey.from_string(text)
    for text in (
        "96gYZGLnJYVFmbjzopPSU6QiEV5fGqZNyN9nmNhvrZU5",
        "HFqU5x63VTqvQss8hp11i4wVV8bD44PvwucfZ2bU7gRe",
        "Cw8CFyM9FkoMi7K7Crf6HNQqf4uEMzpKw6QNghXLvLkY",
        "ADaUMid9yfUytqMBgopwjb2DTLSokTSzL1zt6iGPaS49",
        "DfXygSm4jCyNCybVYYK6DwvWqjKee8pbDmJGcLWNDXjh",
        "ADuUkR4vqLUMWXxW9gh6D6L8pMSawimctcNZ5pGwDcEt",
        "DttWaMuVvTiduZRnguLF7jNxTgiMBZ1hyAumKUiL2KRL",
        "3AVi9Tg9Uo68tJfuvoKvqKNWKkC5wPdSSdeBnizKZ6jT",
    )
)

SYSTEM_PROGRAM = Pubkey.from_string("11111111111111111111111111111111")
TOKEN_PROGRAM = Pubkey.from_string("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA")
TOKEN_2022_PROGRAM = Pubkey.from_string("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb")
TOKEN_PROGRAMS = frozenset({TOKEN_PROGRAM, TOKEN_2022_PROGRAM})
ASSOCIATED_TOKEN_PROGRAM = Pubkey.from_string("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL")
COMPUTE_BUDGET_PROGRAM = Pubkey.from_string("ComputeBudget111111111111111111111111111111")
ADDRESS_LOOKUP_TABLE_PROGRAM = Pubkey.from_string("AddressLookupTab1e1111111111111111111111111")
STAKE_PROGRAM = Pubkey.from_string("Stake11111111111111111111111111111111111111")
VOTE_PROGRAM = Pubkey.from_string("Vote111111111111111111111111111111111111111")
CONFIG_PROGRAM = Pubkey.from_string("Config1111111111111111111111111111111111111")
NATIVE_LOADER = Pubkey.from_string("NativeLoader1111111111111111111111111111111")
UPGRADEABLE_LOADER = Pubkey.from_string("BPFLoaderUpgradeab1e11111111111111111111111")
MEMO_PROGRAMS = frozenset(
    {
        Pubkey.from_string("Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo"),
        Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr"),
    }
)
# Native signature checks; each signature they verify costs the same fee as a signature of the transaction.
PRECOMPILES = frozenset(
    {
        Pubkey.from_string("Ed25519SigVerify111111111111111111111111111"),
        Pubkey.from_string("KeccakSecp256k11111111111111111111111111111"),
        Pubkey.from_string("Secp256r1SigVerify1111111111111111111111111"),
    }
)

SYSVAR_OWNER = Pubkey.from_string("Sysvar1111111111111111111111111111111111111")
SYSVAR_CLOCK = Pubkey.from_string("SysvarC1ock11111111111111111111111111111111")
SYSVAR_EPOCH_REWARDS = Pubkey.from_string("SysvarEpochRewards1111111111111111111111111")
SYSVAR_EPOCH_SCHEDULE = Pubkey.from_string("SysvarEpochSchedu1e111111111111111111111111")
SYSVAR_FEES = Pubkey.from_string("SysvarFees111111111111111111111111111111111")
SYSVAR_INSTRUCTIONS = Pubkey.from_string("Sysvar1nstructions1111111111111111111111111")
SYSVAR_LAST_RESTART_SLOT = Pubkey.from_string("SysvarLastRestartS1ot1111111111111111111111")
SYSVAR_RECENT_BLOCKHASHES = Pubkey.from_string("SysvarRecentB1ockHashes11111111111111111111")
SYSVAR_RENT = Pubkey.from_string("SysvarRent111111111111111111111111111111111")
SYSVAR_REWARDS = Pubkey.from_string("SysvarRewards111111111111111111111111111111")
SYSVAR_SLOT_HASHES = Pubkey.from_string("SysvarS1otHashes111111111111111111111111111")
SYSVAR_SLOT_HISTORY = Pubkey.from_string("SysvarS1otHistory11111111111111111111111111")
SYSVAR_STAKE_HISTORY = Pubkey.from_string("SysvarStakeHistory1111111111111111111111111")
SYSVARS = (
    SYSVAR_CLOCK,
    SYSVAR_EPOCH_REWARDS,
    SYSVAR_EPOCH_SCHEDULE,
    SYSVAR_LAST_RESTART_SLOT,
    SYSVAR_RECENT_BLOCKHASHES,
    SYSVAR_RENT,
    SYSVAR_SLOT_HASHES,
    SYSVAR_SLOT_HISTORY,
    SYSVAR_STAKE_HISTORY,
)

# Accounts that a transaction never write-locks, even if it names them as writable: the runtime makes them read-only.
RESERVED = frozenset(
    {
        SYSTEM_PROGRAM,
        COMPUTE_BUDGET_PROGRAM,
        ADDRESS_LOOKUP_TABLE_PROGRAM,
        STAKE_PROGRAM,
        VOTE_PROGRAM,
        CONFIG_PROGRAM,
        UPGRADEABLE_LOADER,
        SYSVAR_OWNER,
        SYSVAR_FEES,
        SYSVAR_INSTRUCTIONS,
        SYSVAR_REWARDS,
        Pubkey.from_string("BPFLoader1111111111111111111111111111111111"),
        Pubkey.from_string("BPFLoader2111111111111111111111111111111111"),
        Pubkey.from_string("LoaderV411111111111111111111111111111111111"),
        NATIVE_LOADER,
        Pubkey.from_string("Feature111111111111111111111111111111111111"),
        Pubkey.from_string("StakeConfig11111111111111111111111111111111"),
        *PRECOMPILES,
        *SYSVARS,
    }
)
# The VM's built-in programs and sysvars.
BUILT_IN = RESERVED | TOKEN_PROGRAMS | MEMO_PROGRAMS | {ASSOCIATED_TOKEN_PROGRAM, ADDRESS_LOOKUP_TABLE_PROGRAM}

TOKEN_ACCOUNT_BYTES = 165
MINT_BYTES = 82
MULTISIG_BYTES = 355
NONCE_ACCOUNT_BYTES = 80
RENT_EPOCH_EXEMPT = 2**64 - 1  # The runtime's value for every rent-exempt account.
LAMPORTS_PER_SOL = 1_000_000_000
