"""An agent without a model: it knows what its user wants and has, and reads tools' descriptions, schemas and errors.

It chooses the tool whose first two lines have the most of the wish's words in common, fills in arguments by the titles
and names of the tool's schema, and follows what an error says: a form of arguments, a wait, another tool, an option.
Where an error says that only a person can help, it ends with that text. Anything else is a dead end.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Ask = Callable[[str, dict[str, Any], dict[str, Any]], Awaitable[dict[str, Any]]]
_STEPS_MAX = 6
_DULL = frozenset(
    re.findall(
        r"\w+", "an and as at be by for from has have how in is it its my no of on one or that the this to use what"
    )
) | {"which", "with", "you"}
_FORM = re.compile(r"Arguments of this form are taken: (\{.*\})", re.DOTALL)
_NAMED = re.compile(r"^invalid params: (\w+): ")
_WAIT = re.compile(r"Wait (\d+) s before the next call")
_ENCODING = re.compile(r"Ask for encoding (\w+)")
_FOR_A_PERSON = (
    "correct the transaction, then sign again",
    "ask your user",
    "unless your user asks",
    "deposit USDC",
)


class DeadEndError(Exception):
    """An error of which the agent can make nothing."""


@dataclass(frozen=True, slots=True)
class Done:
    """value: of the call. told: the text of an error that only a person can act on. tools: called, in order."""

    value: Any
    told: str
    tools: tuple[str, ...]
    spent: int


@dataclass(slots=True)
class Agent:
    """ask: makes a tools/call, with what is beside the name and the arguments. wait: lets seconds pass. confirms: what
    its user says when asked; None: its host cannot ask. ceiling: credits for one call; None: there is none."""

    tools: list[dict[str, Any]]
    ask: Ask
    wait: Callable[[int], None]
    confirms: bool | None = None
    ceiling: int | None = None
    _weights: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = [set(_words(_purpose(tool))) for tool in self.tools]
        counts = Counter(word for words in known for word in words)
        self._weights = {word: math.log(1 + len(known) / count) for word, count in counts.items()}

    def choose(self, wish: str) -> dict[str, Any]:
        """The tool for a wish: a share of its own words counts too, so that long descriptions do not win by length."""
        wanted = set(_words(wish))

        def score(tool: dict[str, Any]) -> float:
            words = set(_words(_purpose(tool)))
            common = sum(self._weights[word] for word in wanted & words)
            return common / math.sqrt(sum(self._weights[word] for word in words))

        return max(self.tools, key=score)

    def price(self, wish: str) -> str:
        return self.choose(wish)["description"].split("\n")[2]

    async def fulfil(self, wish: str, facts: Mapping[str, Any], tool: dict[str, Any] | None = None) -> Done:
        """Raises DeadEndError. facts: what the user has, by plain names as `public key` or `slot`."""
        tool, facts, called, spent = tool or self.choose(wish), dict(facts), [], 0
        arguments = arguments_by_schema(tool, facts)
        more: dict[str, Any] = {} if self.ceiling is None else {"ceiling": self.ceiling}
        for _ in range(_STEPS_MAX):
            called.append(tool["name"])
            result = await self.ask(tool["name"], arguments, more)
            if result.get("resultType") == "input_required":
                (key,) = result["inputRequests"]
                (name,) = result["inputRequests"][key]["params"]["requestedSchema"]["required"]
                says = {"action": "accept", "content": {name: True}} if self.confirms else {"action": "decline"}
                more = {"requestState": result["requestState"], "inputResponses": {key: says}}
                continue
            spent += result["_meta"]["ledger-gateway/credits"]["spent"]
            if not result["isError"]:
                return Done(value_of(result), "", tuple(called), spent)
            told = "\n".join(block["text"] for block in result["content"])
            if "accepts" in result.get("structuredContent", {}) or any(words in told for words in _FOR_A_PERSON):
                return Done(None, told, tuple(called), spent)
            if (named := _NAMED.search(told)) and arguments_by_told(tool, told, facts) == arguments:
                # The form is right, and the value of what is named is not: its user has to give another one.
                if named[1] not in json.dumps(arguments):
                    raise DeadEndError(told)
                return Done(None, told, tuple(called), spent)
            arguments, more_spent = await self._mended(tool, arguments, facts, told, called)
            spent += more_spent
        raise DeadEndError(f"{wish}: {called}")

    async def _mended(
        self, tool: dict[str, Any], arguments: dict[str, Any], facts: dict[str, Any], told: str, called: list[str]
    ) -> tuple[dict[str, Any], int]:
        """Arguments by what an error says, and what it cost to find them."""
        if found := _WAIT.search(told):
            self.wait(int(found[1]))
            return arguments, 0
        if by_form := arguments_by_told(tool, told, facts):
            return by_form, 0
        if found := _ENCODING.search(told):
            params = list(arguments["params"])
            place = _place_of(tool, "configuration")
            params += [None] * (place + 1 - len(params))
            encoded = {**(params[place] or {}), "encoding": found[1]}
            return {"params": [*params[:place], encoded, *params[place + 1 :]]}, 0
        other = next((one for one in self.tools if re.search(rf"\b{re.escape(one['name'])}\b", told)), None)
        if other is None or other["name"] in called:
            raise DeadEndError(told)
        asked = await self.fulfil(other["name"], facts, other)
        called += asked.tools
        slots = asked.value if isinstance(asked.value, list) else [asked.value]
        if not slots or not isinstance(slots[0], int):
            raise DeadEndError(told)
        facts["slot"] = slots[-1]
        return arguments_by_schema(tool, facts), asked.spent


def value_of(result: Mapping[str, Any]) -> Any:
    """The value of a result, as the output schemas say where it is."""
    structured = result["structuredContent"]
    if structured.get("textOnly") is True:
        return json.loads(result["content"][0]["text"])
    return structured["result"] if set(structured) == {"result"} else structured


def arguments_by_schema(tool: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """What is required, and what the facts have a value for."""
    schema = tool["inputSchema"]["properties"]["params"]
    filled = [_filled(item, facts) for item in schema.get("prefixItems", ())]
    while filled and filled[-1] is None:
        filled.pop()
    return {"params": filled} if filled else {}


def arguments_by_told(tool: Mapping[str, Any], told: str, facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """Arguments of the form that an error shows, with the user's own values in place of the example's."""
    found = _FORM.search(told)
    if found is None:
        return None
    form = json.loads(found[1])
    items = tool["inputSchema"]["properties"]["params"].get("prefixItems", ())
    filled = []
    for value, item in zip(form.get("params", ()), items, strict=False):
        if isinstance(value, dict):
            filled.append({name: _fact(name, facts, value[name]) for name in value})
        else:
            filled.append(_fact(item["title"], facts, value))
    return {"params": filled}


def _filled(schema: Mapping[str, Any], facts: Mapping[str, Any]) -> Any:
    if schema.get("type") == "object" or "object" in schema.get("type", ()):
        names = schema.get("properties", {})
        found = {name: _fact(name, facts) for name in names}
        given = {name: value for name, value in found.items() if value is not None}
        return given or ({} if schema.get("required") else None)
    value = _fact(schema["title"], facts)
    if value is not None and "array" in (schema.get("type"), *schema.get("type", ())) and not isinstance(value, list):
        return [value]
    return value


def _fact(name: str, facts: Mapping[str, Any], otherwise: Any = None) -> Any:
    """The user's value for a name of a schema: by the name itself, or by what such a thing is."""
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name).lower()
    kinds = {
        "pubkey": "public key",
        "pubkeys": "public keys",
        "address": "public key",
        "owner": "public key",
        "signatures": "signature",
        "start slot": "slot",
        "program id": "token program",
    }
    for one in (plain, kinds.get(plain, plain)):
        if one in facts:
            return facts[one]
    return otherwise


def _place_of(tool: Mapping[str, Any], title: str) -> int:
    titles = [item["title"] for item in tool["inputSchema"]["properties"]["params"]["prefixItems"]]
    return titles.index(title)


def _purpose(tool: Mapping[str, Any]) -> str:
    return "\n".join(tool["description"].split("\n")[:2])


def _words(text: str) -> list[str]:
    found = (word.rstrip("s") for word in re.findall(r"[a-z]+", text.lower()) if word not in _DULL)
    return [word for word in found if len(word) > 1]
