"""Methods that read accounts, tokens and validators' vote accounts from the node, and the question of a bulk look-up.

Implements: interface, JSON-RPC gateway rule 4, "Bulk endpoints"; limits of Agave's RPC, which answers -32602 beyond
them. Pure.
"""

from typing import Any

from actors.addresses import TOKEN_PROGRAMS
from actors.methods import forms, results
from actors.methods.entries import MethodRow, Question, appended, node, replaced
from actors.methods.forms import Form, Schema, an_object, checks_of, config, list_of, needed, up_to
from actors.methods.prices import MethodClass
from actors.methods.values import InvalidError, at, at_most, fields, one_of, pubkey

_ACCOUNTS_MAX = 100
_ACCOUNT_BYTES_MAX = 10 * 1024 * 1024  # An account is at most this long, so nobody needs the rent of a longer one.
_ACCOUNT_CHECKS = checks_of(forms.ACCOUNT)
_TOKEN_PROGRAM = one_of(*TOKEN_PROGRAMS)


class BulkQuestion(Question, frozen=True):
    """A bulk look-up of these addresses, owners or signatures, each once, at one commitment."""

    items: tuple[str, ...]
    commitment: str = "finalized"


def _token_accounts_by_owner(arguments: list[Any], raw: bytes) -> bytes:
    """Rule 4 of the interface: a configuration that is left out becomes {"encoding":"base64"}."""
    at_most(arguments, 3)
    pubkey(at(arguments, 0, "owner"), "parameter 1")
    wanted = at(arguments, 1, "mint or programId")
    if type(wanted) is not dict or ("mint" in wanted) == ("programId" in wanted):
        raise InvalidError('parameter 2 must be {"mint": ...} or {"programId": ...}')
    if "mint" in wanted:
        pubkey(wanted["mint"], "mint")
    else:
        pubkey(wanted["programId"], "programId")
        _TOKEN_PROGRAM(wanted["programId"], "programId")
    if len(arguments) == 2:
        return appended(raw, b'{"encoding":"base64"}')
    if arguments[2] is None:
        return replaced(raw, 2, b'{"encoding":"base64"}')
    fields(arguments[2], "parameter 3", _ACCOUNT_CHECKS)
    return raw


def _of_key(name: str, summary: str, when: str, result: Schema, **options: Form) -> MethodRow:
    return node(
        name,
        MethodClass.READ_CHEAP,
        summary,
        when,
        result,
        forms.KEY,
        config(**(options or forms.CONTEXT)),
        example=(forms.EXAMPLE_KEY,),
    )


METHODS = (
    _of_key(
        "getAccountInfo",
        "Returns one account: lamports, owner, data.",
        "Use it to read what an address holds, or whether it exists: `value` is null where it does not.",
        results.ACCOUNT,
        **forms.ACCOUNT,
    ),
    _of_key(
        "getBalance",
        "Returns the lamports of one account.",
        "Use it for the SOL of a wallet; 1 SOL is 1,000,000,000 lamports. For tokens use getTokenAccountsByOwner.",
        results.BALANCE,
    ),
    _of_key(
        "getTokenAccountBalance",
        "Returns the balance of one token account.",
        "Use it when you have the address of a token account, not of its owner.",
        results.TOKEN_AMOUNT,
    ),
    _of_key(
        "getTokenSupply",
        "Returns the supply of one token.",
        "Use it when you have a token's mint, and want its supply or its decimals.",
        results.TOKEN_AMOUNT,
    ),
    node(
        "getMultipleAccounts",
        MethodClass.READ_CHEAP,
        "Returns up to 100 accounts, null where there is none.",
        "Use it instead of several getAccountInfo: it costs as much as one.",
        results.ACCOUNTS,
        needed("pubkeys", list_of(forms.PUBKEY, _ACCOUNTS_MAX)),
        config(**forms.ACCOUNT),
        example=([forms.EXAMPLE_KEY],),
    ),
    node(
        "getTokenAccountsByOwner",
        MethodClass.READ_HEAVY,
        "Returns the token accounts of one owner, by mint or by token program.",
        "Use it to find a wallet's token accounts with their balances; ask with encoding jsonParsed to read them.",
        results.TOKEN_ACCOUNTS,
        needed("owner", forms.PUBKEY),
        needed("filter", an_object("either the mint or the token program", mint=forms.PUBKEY, programId=forms.PUBKEY)),
        config(**forms.ACCOUNT),
        example=(forms.EXAMPLE_KEY, {"mint": forms.EXAMPLE_KEY}),
        rule=_token_accounts_by_owner,
    ),
    node(
        "getMinimumBalanceForRentExemption",
        MethodClass.READ_CHEAP,
        "Returns the lamports that an account of this many bytes needs.",
        "Use it before you create an account; a token account has 165 bytes.",
        results.LAMPORTS,
        needed("data_length", up_to(_ACCOUNT_BYTES_MAX)),
        config(commitment=forms.COMMITMENT),
        example=(165,),
    ),
    node(
        "getStakeMinimumDelegation",
        MethodClass.READ_CHEAP,
        "Returns the least stake that can be delegated, in lamports.",
        "Use it before you delegate stake.",
        results.at_slot(results.LAMPORTS),
        config(**forms.CONTEXT),
    ),
    node(
        "getVoteAccounts",
        MethodClass.READ_CHEAP,
        "Returns the validators' vote accounts, current and delinquent.",
        "Use it to compare validators by stake and commission.",
        results.VOTE_ACCOUNTS,
        config(
            commitment=forms.COMMITMENT,
            votePubkey=forms.PUBKEY,
            keepUnstakedDelinquents=forms.BOOLEAN,
            delinquentSlotDistance=forms.UNSIGNED,
        ),
    ),
)
