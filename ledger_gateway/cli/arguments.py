"""Names of variables, and the command line without its key. Pure; imports nothing, so that the help is quick."""

URL_VARIABLE, KEY_VARIABLE = "LEDGER_GATEWAY_URL", "LEDGER_GATEWAY_API_KEY"
KEYPAIR_VARIABLE, PROFILE_VARIABLE = "LEDGER_GATEWAY_KEYPAIR", "LEDGER_GATEWAY_PROFILE"
NODE_VARIABLE = "LEDGER_GATEWAY_NODE_URL"
VARIABLES = frozenset((URL_VARIABLE, KEY_VARIABLE, KEYPAIR_VARIABLE, PROFILE_VARIABLE, NODE_VARIABLE))


def without_key(arguments: list[str]) -> tuple[list[str], str | None]:
    """Take `--key VALUE` out of a command line, and return both; what follows `--` is not looked at.

    Everybody on a machine can read the command lines of its processes.
    """
    kept: list[str] = []
    key = None
    given = iter(arguments)
    for argument in given:
        if argument == "--":
            return [*kept, argument, *given], key
        if argument == "--key":
            key = next(given, None)
            if key is None:
                kept.append(argument)  # Its value is missing, which the parser reports.
        elif argument.startswith("--key="):
            key = argument.removeprefix("--key=")
        else:
            kept.append(argument)
    return kept, key
