"""Errors of the imitated program.

Implements: the platform's error numbers with their names and texts, Anchor's errors for wrong accounts, and the log
line of each. Pure.
A Fault is raised inside the imitation and caught where the instruction ends (imitation.py).
"""

from collections.abc import Mapping
from typing import Any

_PROGRAM = {
    6000: ("NotAuthorized", "The given account is not authorized to execute this instruction."),
    6002: ("TooMuchSolRequired", "slippage: Too much SOL required to buy the given amount of tokens."),
    6003: ("TooLittleSolReceived", "slippage: Too little SOL received to sell the given amount of tokens."),
    6004: ("MintDoesNotMatchBondingCurve", "The mint does not match the bonding curve."),
    6005: ("BondingCurveComplete", "The bonding curve has completed and liquidity migrated to raydium."),
    6006: ("BondingCurveNotComplete", "The bonding curve has not completed."),
    6009: ("NewSizeShouldBeGreaterThanCurrentSize", "new_size should be > current_size"),
    6010: ("AccountTypeNotSupported", "Account type not supported"),
    6018: ("DisabledMigrate", "Migrate instruction is disabled"),
    6020: ("BuyZeroAmount", "Buy zero amount"),
    6021: ("NotEnoughTokensToBuy", "Not enough tokens to buy"),
    6022: ("SellZeroAmount", "Sell zero amount"),
    6023: ("NotEnoughTokensToSell", "Not enough tokens to sell"),
    6024: ("Overflow", "Overflow"),
    6026: ("DivisionByZero", "Division by zero"),
    6030: ("CreatorShouldNotBeZero", "Creator should not be zero"),
    6041: ("BuyNotEnoughSolToCoverFees", "Buy: Not enough SOL to cover for fees."),
    6042: ("BuySlippageBelowMinTokensOut", "Slippage: Would buy less tokens than expected min_tokens_out"),
    6043: ("NameTooLong", "NameTooLong"),
    6044: ("SymbolTooLong", "SymbolTooLong"),
    6045: ("UriTooLong", "UriTooLong"),
    6046: ("CreateV2Disabled", "CreateV2Disabled"),
    6048: ("MayhemModeDisabled", "MayhemModeDisabled"),
    6056: ("CashbackNotEnabled", "Cashback is not enabled"),
    6057: ("BuybackFeeRecipientNotAuthorized", "Buyback fee recipient not authorized"),
    6062: ("BuybackFeeRecipientMissing", "BuybackFeeRecipientMissing"),
    6063: ("UnsupportedQuoteMint", "Unsupported quote mint"),
    6064: ("InvalidQuoteTokenProgram", "Create v2: quote token program must be SPL Token or Token-2022"),
    6065: (
        "InvalidAssociatedQuoteBondingCurve",
        "Create v2: associated quote bonding curve address does not match derivation",
    ),
    6071: ("MayhemModeQuoteMintNotAllowed", "Mayhem mode quote mint not allowed"),
    6074: ("InvalidBondingCurveV2", "bonding_curve_v2 remaining account is missing or invalid"),
    6075: ("InvalidQuoteControl", "quote_control remaining account does not match derivation or is uninitialized"),
    6077: ("CreatorFeeNotConfigurable", "Configurable creator fees are disabled"),
    6078: ("CreatorFeeBpsOutOfRange", "Creator fee basis points must be between 1 and the configured maximum"),
    6081: ("BondingCurveAlreadyMigrated", "Bonding curve has already migrated"),
    6082: ("CashbackDeprecated", "Cashback coins can no longer be created"),
    6084: ("HolderRewardDisabled", "Holder-reward coins are disabled"),
    6094: ("CashbackNotSupported", "Cashback coins are not supported by this instruction"),
}
_ANCHOR = {
    101: ("InstructionFallbackNotFound", "Fallback functions are not supported"),
    102: ("InstructionDidNotDeserialize", "The program could not deserialize the given instruction"),
    2000: ("ConstraintMut", "A mut constraint was violated"),
    2006: ("ConstraintSeeds", "A seeds constraint was violated"),
    2009: ("ConstraintAssociated", "An associated constraint was violated"),
    2012: ("ConstraintAddress", "An address constraint was violated"),
    3005: ("AccountNotEnoughKeys", "Not enough account keys given to the instruction"),
    3007: ("AccountOwnedByWrongProgram", "The given account is owned by a different program than expected"),
    3008: ("InvalidProgramId", "Program ID was not as expected"),
    3010: ("AccountNotSigner", "The given account did not sign"),
    3012: ("AccountNotInitialized", "The program expected this account to be already initialized"),
}
NAMES = _PROGRAM | _ANCHOR
# Of the platform's AMM, and of Raydium's constant-product program.
POOL_NAMES = _ANCHOR | {
    6001: ("ZeroBaseAmount", "ZeroBaseAmount"),
    6002: ("ZeroQuoteAmount", "ZeroQuoteAmount"),
    6004: ("ExceededSlippage", "ExceededSlippage"),
    6013: ("InvalidProtocolFeeRecipient", "InvalidProtocolFeeRecipient"),
    6016: ("BuyMoreBaseAmountThanPoolReserves", "BuyMoreBaseAmountThanPoolReserves"),
    6040: (
        "BuySlippageBelowMinBaseAmountOut",
        "buy: slippage - would buy less tokens than expected min_base_amount_out",
    ),
}
CPMM_NAMES = _ANCHOR | {
    6000: ("NotApproved", "Not approved"),
    6005: ("ExceededSlippage", "Exceeds desired slippage limit"),
    6006: ("ZeroTradingTokens", "Given pool token amount results in zero trading tokens"),
}


class Fault(Exception):
    """The failure of an instruction. cause: its error in RPC's JSON form; lines: log lines of the error."""

    def __init__(self, cause: Any, lines: tuple[str, ...] = (), whole: Any = None) -> None:
        super().__init__(cause)
        self.cause, self.lines = cause, lines
        self.whole = whole  # The transaction's error, if it is not an instruction error (missing rent).

    @classmethod
    def number(cls, code: int, account: str = "", table: Mapping[int, tuple[str, str]] = NAMES) -> "Fault":
        """The fault with a known number. account: the wrong account, by its name in the instruction."""
        name, text = table[code]
        caused = f"caused by account: {account}" if account else "occurred"
        line = f"Program log: AnchorError {caused}. Error Code: {name}. Error Number: {code}. Error Message: {text}."
        return cls({"Custom": code}, (line,))
