"""The reference page: every method, path, price and error on one page of HTML, without a script.

Pure. The page loads nothing, follows the reader's colour scheme, and folds its details, so that it can be read on a
small screen and worked with by keyboard alone. Every text is escaped, wherever it comes from.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from actors.documents import forms, guide, openapi
from actors.documents.guide import Chapter
from actors.documents.offer import SUMMARY, TITLE, Method, Offer
from actors.documents.operation import Operation
from actors.documents.operations import TAGS, operations_of
from actors.documents.schemas import ref
from actors.errors import Err
from actors.methods.forms import Parameter
from actors.release import RELEASE

_STYLE = """
:root{color-scheme:light dark;--fg:#1b1f24;--bg:#fff;--soft:#57606a;--line:#d0d7de;--card:#f6f8fa;--link:#0550ae}
@media (prefers-color-scheme:dark){:root{--fg:#e6edf3;--bg:#0d1117;--soft:#9aa4af;--line:#30363d;--card:#161b22;
--link:#79b8ff}}
*{box-sizing:border-box}html{scroll-padding-top:1rem}
body{margin:0 auto;max-width:60rem;padding:1rem;font:1rem/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);
overflow-wrap:anywhere}
a{color:var(--link)}a:focus-visible,summary:focus-visible,pre:focus-visible{outline:3px solid var(--link);
outline-offset:2px}
.skip{position:absolute;left:-100rem}.skip:focus{position:static}
h1{margin:.5rem 0}h2{margin:2.5rem 0 .5rem;border-bottom:1px solid var(--line)}h3{margin:1.5rem 0 .25rem}
h4{margin:.75rem 0 0}
nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1rem;padding:0;list-style:none}
code,pre{font:.875rem/1.45 ui-monospace,SFMono-Regular,Menlo,monospace}
pre{overflow-x:auto;padding:.75rem;background:var(--card);border:1px solid var(--line);border-radius:.375rem}
details{border:1px solid var(--line);border-radius:.375rem;margin:.375rem 0;background:var(--card)}
summary{cursor:pointer;padding:.5rem .75rem;display:flex;flex-wrap:wrap;gap:0 .75rem;align-items:baseline}
summary::-webkit-details-marker{display:none}summary::before{content:"+";color:var(--soft)}
details[open]>summary::before{content:"\\2212"}
.price{color:var(--soft);margin-left:auto}details>div{padding:0 .75rem .5rem}details p{margin:.25rem 0}
dl{display:grid;grid-template-columns:minmax(6rem,max-content) 1fr;gap:.25rem .75rem;margin:.5rem 0}
dt{font-weight:600}dd{margin:0}table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.25rem .5rem;border-bottom:1px solid var(--line)}
.fields :is(th,td){overflow-wrap:break-word}.fields td:last-child{width:50%}
.soft{color:var(--soft)}
@media (max-width:30rem){dl{grid-template-columns:1fr}dd{padding-left:1rem}.price{margin-left:0;width:100%}
th,td{padding:.25rem}.fields thead{display:none}.fields :is(tbody,tr,td){display:block;border:0;padding:0;width:auto}
.fields td:last-child{width:auto}.fields td{overflow-wrap:anywhere}
.fields tr{padding:.375rem 0;border-bottom:1px solid var(--line)}}
@media print{details>div{display:block}}
"""
_COLUMNS = ("Field", "", "Form")


def page(offer: Offer) -> str:
    rows = operations_of(offer.served)
    tags = [tag for tag in TAGS if any(row.tag == tag for row in rows)]
    chapters = guide.chapters(offer)
    links = [("start", "Start"), *((chapter.name, chapter.title) for chapter in chapters), ("methods", "Methods")]
    links += [*((f"paths-{tag}", tag.capitalize()) for tag in tags), ("errors", "Errors")]
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f'<title>{escape(TITLE)}: reference</title><link rel="icon" href="data:,"><style>{_STYLE}</style></head><body>',
        '<a class="skip" href="#main">Skip to the content</a>',
        f"<header><h1>{escape(TITLE)}</h1><p>{escape(SUMMARY)} Version {escape(RELEASE)}.</p></header>",
        '<nav aria-label="Sections"><ul>',
        *(f'<li><a href="#{name}">{escape(text)}</a></li>' for name, text in links),
        "</ul></nav><main id=main>",
        _start(offer),
        *map(_chapter, chapters),
        f'<section id="methods"><h2>JSON-RPC methods</h2><p>{len(offer.methods)} methods. A price is of one call. '
        "What a method of the chain returns is the node's own result, untouched.</p>",
        *map(_method, offer.methods),
        "</section>",
    ]
    for tag in tags:
        parts.append(f'<section id="paths-{tag}"><h2>{escape(tag.capitalize())}</h2><p>{escape(TAGS[tag])}.</p>')
        parts += [_path(row) for row in rows if row.tag == tag]
        parts.append("</section>")
    parts += [_errors(), "</main></body></html>"]
    return "".join(parts)


def _start(offer: Offer) -> str:
    url = offer.public_url
    example = (
        f'curl {url}/rpc -H "X-Api-Key: $API_KEY" -H "X-Max-Credits: 1" \\\n'
        '  -d \'{"jsonrpc":"2.0","id":1,"method":"getSlot"}\''
    )
    points = (
        "A request without a credential is answered with 402 and the terms of payment. How to get a key: below.",
        "X-Api-Key, a bearer token or a wallet's signature names the account; an x402 payment buys one request.",
        "X-Credits-Cost on an answer tells its cost. X-Max-Credits on a request refuses what can cost more.",
        "POST /quote tells the price of calls before they are made.",
    )
    documents = ("/openapi.json", "/openrpc.json", "/llms.txt", "/pricing", "/capabilities")
    listed = ", ".join(f'<a href="{path}"><code>{path}</code></a>' for path in documents)
    return (
        f'<section id="start"><h2>Start</h2>{_pre(example)}<ul>'
        + "".join(f"<li>{escape(point)}</li>" for point in points)
        + f"</ul><p>For machines: {listed}.</p></section>"
    )


def _chapter(chapter: Chapter) -> str:
    points = "".join(f"<li>{_text(point)}</li>" for point in chapter.points)
    example = _pre(chapter.example) if chapter.example else ""
    tables = "".join(_table(columns, rows) for columns, rows in chapter.tables)
    return f'<section id="{chapter.name}"><h2>{escape(chapter.title)}</h2><ul>{points}</ul>{example}{tables}</section>'


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    lines = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<table class="fields"><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>'


def _method(method: Method) -> str:
    row, described = method.row, method.document
    example = json.dumps({"jsonrpc": "2.0", "id": 1, "method": row.name, "params": list(described.example or ())})
    parameters = "".join(map(_parameter, described.parameters))
    return (
        f'<details id="{escape(row.name)}"><summary><code>{escape(row.name)}</code>'
        f'<span class="price">{escape(method.price)}</span></summary><div><p>{escape(described.summary)}</p>'
        + (f"<dl>{parameters}</dl>" if parameters else '<p class="soft">No parameters.</p>')
        + (_pre(example) if described.example is not None else "")
        + f'<p class="soft">Class {escape(row.method_class.value)}, at most {row.timeout_ms // 1000} s.</p>'
        + "</div></details>"
    )


def _parameter(parameter: Parameter) -> str:
    needed = "required" if parameter.is_required else "optional"
    return f"<dt><code>{escape(parameter.name)}</code></dt><dd>{needed}: {escape(_in_words(parameter.schema))}</dd>"


def _in_words(schema: Mapping[str, Any]) -> str:
    """Describe a parameter of a method, with the names of its fields."""
    fields = schema.get("properties")
    return forms.in_words(schema) + (f" with {', '.join(fields)}" if fields else "")


def _path(row: Operation) -> str:
    answers = ", ".join(str(status) for status in sorted(openapi.statuses(row)))
    facts = (("Credential", row.access.value), ("Price", row.price or "free"), ("Statuses", answers))
    query = [(f"`{name}`", "optional", forms.in_words(schema)) for name, schema in row.query]
    parts = [
        f"<details><summary><code>{escape(row.endpoint)}</code>",
        f'<span class="price">{escape(row.price or "free")}</span></summary><div><p>{escape(row.summary)}</p><dl>',
        *(f"<dt>{name}</dt><dd>{escape(value)}</dd>" for name, value in facts),
        "</dl>",
        f"<h4>Query</h4>{_table(_COLUMNS, query)}" if query else "",
        "" if row.request is None else f"<h4>Body</h4>{_forms(row.request, 'required', 'optional')}",
        "" if row.example is None else f"<p>Example:</p>{_pre(json.dumps(row.example, indent=1))}",
        f"<h4>Answer</h4>{_answer(row)}",
        "</div></details>",
    ]
    return "".join(parts)


def _answer(row: Operation) -> str:
    if row.content_type != "application/json":
        return f"<p>{escape(row.content_type)}</p>"
    if row.answer in (ref("RpcReplies"), ref("RpcReply")):
        return "<p>The JSON-RPC reply, or the replies of a batch in order. What a method returns is the node's own.</p>"
    return _forms(row.answer, "always", "at times")


def _forms(schema: Mapping[str, Any], always: str, else_: str) -> str:
    found, shown = [], forms.tables(schema)
    for form in shown:
        rows = [(f"`{name}`", always if is_always else else_, words) for name, is_always, words in form.rows]
        if len(shown) > 1 or not rows:
            found.append(f"<p>{escape(form.caption)}</p>" if form.caption else "")
        found.append(_table(_COLUMNS, rows) if rows else "")
    return "".join(found) or '<p>An object; its fields are in <a href="/openapi.json">/openapi.json</a>.</p>'


def _errors() -> str:
    rows: Iterable[Err] = sorted(Err, key=lambda err: (err.row.http, err.name))
    lines = "".join(
        f"<tr><td><code>{err.name}</code></td><td>{err.row.http}</td><td>{'' if err.row.code is None else err.row.code}"
        f"</td><td>{escape(err.row.message)}</td></tr>"
        for err in rows
    )
    return (
        '<section id="errors"><h2>Errors</h2><p>Errors of this service cost nothing. An error of the node is passed on '
        "as it is, under HTTP 200.</p><table><thead><tr><th>Constant</th><th>HTTP</th><th>Code</th><th>Text</th></tr>"
        f"</thead><tbody>{lines}</tbody></table></section>"
    )


def _text(text: str) -> str:
    """Format a text with code between backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _pre(text: str) -> str:
    return f'<pre tabindex="0"><code>{escape(text)}</code></pre>'
