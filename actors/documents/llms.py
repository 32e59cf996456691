"""The text for language models, in the form of llmstxt.org: a title, a summary, and links with one line each.

Implements: README.md. Pure.
"""

from collections.abc import Iterator

from actors.documents import guide
from actors.documents.guide import Chapter
from actors.documents.offer import SUMMARY, TITLE, Offer
from actors.documents.operations import operations_of

_START = """\
Send JSON-RPC 2.0 to `POST {url}/rpc` with the header `X-Api-Key`. `params` is an array. A batch holds up to 100 calls.
A request without a credential is answered with 402 and the terms of payment: deposit USDC, or pay by x402.
Every paid answer tells its cost in `X-Credits-Cost`; send `X-Max-Credits: n` to refuse what can cost more.
Errors of this service have `data.source` = "gateway" and `data.constant`; errors of the node come as it sent them.
"""


def text(offer: Offer) -> str:
    url = offer.public_url
    parts = [f"# {TITLE}\n\n> {SUMMARY}\n", _START.format(url=url), "## Documents\n"]
    parts += [
        f"- [OpenRPC]({url}/openrpc.json): every JSON-RPC method with its parameters and price",
        f"- [OpenAPI]({url}/openapi.json): every HTTP path with its answers",
        f"- [Reference]({url}/docs): both for readers",
        f"- [Prices]({url}/pricing): every price, live",
        f"- [Capabilities]({url}/capabilities): what is offered here, and what is not",
        *(line for chapter in guide.chapters(offer) for line in _chapter(chapter)),
        "\n## JSON-RPC methods\n",
        *(
            f"- {method.row.name}({', '.join(parameter.name for parameter in method.document.parameters)}): "
            f"{method.document.summary} {'Free' if method.price == 'free' else f'Costs {method.price}'}."
            for method in offer.methods
        ),
        "\n## HTTP paths\n",
        *(f"- {row.endpoint}: {row.summary or 'no description'}" for row in operations_of(offer.served)),
    ]
    return "\n".join(parts) + "\n"


def _chapter(chapter: Chapter) -> Iterator[str]:
    yield f"\n## {chapter.title}\n"
    yield from (f"- {point}" for point in chapter.points)
    if chapter.example:
        yield f"\n```\n{chapter.example}\n```"
    for columns, rows in chapter.tables:
        yield f"\n{': '.join((columns[0], ', '.join(columns[1:])))}\n"
        yield from (f"- {row[0]}: {'; '.join(row[1:])}" for row in rows)
