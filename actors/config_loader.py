"""Reads the settings once, from defaults, a TOML file and the environment, and checks them whole.

Implements: style, "Configuration". Values come from defaults, then the file, then the environment
(`LEDGER_<BRANCH>__<FIELD>`), the later one winning; `Loaded.sources` has the origin of each.
Importing this module reads nothing, and no other module reads settings from the environment.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from pydantic import ValidationError

from actors.config import ENVIRONMENT_PREFIX, Config, ConfigError
from actors.provider_config import BlockEngineConfig, NodeConfig

# Common names of these variables, in addition to LEDGER_STORAGE__...
_ALIASES = {"DATABASE_URL": "storage.postgres_url", "REDIS_URL": "storage.redis_url"}
# Lists of objects with a URL: JSON, or URLs with commas between them.
_LISTS = (tuple[NodeConfig, ...], tuple[BlockEngineConfig, ...])
_BOUNDS = ("greater_than_equal", "less_than_equal")
# Settings of client commands, whose names begin like these: one machine may have both.
_OF_CLIENTS = frozenset(f"LEDGER_GATEWAY_{name}" for name in ("URL", "API_KEY", "KEYPAIR", "PROFILE", "NODE_URL"))


@dataclass(frozen=True, slots=True)
class Loaded:
    config: Config
    sources: Mapping[str, str]  # "branch.field" to "default", "file NAME" or "environment NAME".


def load(environ: Mapping[str, str], toml_path: Path | None = None) -> Loaded:
    """Read defaults, then the file, then the environment. Raises ConfigError with every mistake at once."""
    if not __debug__:
        raise ConfigError("python -O removes the assertions that guard the ledger: start without -O and PYTHONOPTIMIZE")
    tree: dict[str, dict[str, Any]] = {}
    sources: dict[str, str] = {}
    mistakes: list[str] = []
    if toml_path is not None:
        _merge_file(toml_path, tree, sources, mistakes)
    _merge_environment(environ, tree, sources, mistakes)
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    try:
        config = Config.model_validate(tree)
    except ValidationError as error:
        raise ConfigError("\n".join(_sentence(row, sources) for row in _causes(error))) from None
    for branch, fields in Config.model_fields.items():
        assert fields.annotation is not None
        for field in fields.annotation.model_fields:
            sources.setdefault(f"{branch}.{field}", "default")
    return Loaded(config, sources)


def _merge_file(path: Path, tree: dict[str, dict[str, Any]], sources: dict[str, str], mistakes: list[str]) -> None:
    try:
        text = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        mistakes.append(f"{path}: cannot be read ({error.strerror}); give an existing file to --config")
        return
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        mistakes.append(f"{path}: not valid TOML: {error}")
        return
    for branch, fields in text.items():
        if not isinstance(fields, dict):
            mistakes.append(f"{path}: {branch}: wanted a table such as [accounts]")
            continue
        for field, value in fields.items():
            tree.setdefault(branch, {})[field] = value
            sources[f"{branch}.{field}"] = f"file {path.name}"


def _merge_environment(
    environ: Mapping[str, str], tree: dict[str, dict[str, Any]], sources: dict[str, str], mistakes: list[str]
) -> None:
    for name, value in sorted(environ.items()):
        target = _ALIASES.get(name)
        if target is None:
            if not name.startswith(ENVIRONMENT_PREFIX) or name in _OF_CLIENTS:
                continue
            target = name.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".", 1)
        branch, _, field = target.partition(".")
        if not field:
            mistakes.append(f"{name}: wanted {ENVIRONMENT_PREFIX}<BRANCH>__<FIELD>, as `config --show` lists them")
            continue
        try:
            parsed = _parsed(_kind(branch, field), value)
        except (ValueError, RecursionError):  # The second one of a thousand brackets.
            is_table = get_origin(_kind(branch, field)) is dict
            wanted = "an object" if is_table else "an array of objects, or URLs with commas between them"
            mistakes.append(f"{name}: not valid JSON; wanted {wanted}")
            continue
        tree.setdefault(branch, {})[field] = parsed
        sources[f"{branch}.{field}"] = f"environment {name}"


def _kind(branch: str, field: str) -> Any:
    info = Config.model_fields.get(branch)
    if info is None or info.annotation is None or field not in info.annotation.model_fields:
        return None
    return info.annotation.model_fields[field].annotation


def _parsed(kind: Any, value: str) -> Any:
    """Convert a variable's text to the form of its field. Raises ValueError for malformed JSON."""
    if kind in _LISTS and value.lstrip().startswith("["):
        return json.loads(value)
    if get_origin(kind) is dict:
        return json.loads(value)
    if get_origin(kind) is not tuple:
        return value
    parts = [part.strip() for part in value.split(",") if part.strip()]
    return [{"url": part} for part in parts] if kind in _LISTS else parts


def _causes(error: ValidationError) -> list[Any]:
    """Return the mistakes without those that only follow from another one."""
    rows = error.errors(include_url=False)
    bad_lists = {row["loc"][:-1] for row in rows}  # A list whose items are wrong is reported as too short as well.
    return [
        row
        for row in rows
        if row["type"] != "default_factory_not_called" and not (row["type"] == "too_short" and row["loc"] in bad_lists)
    ]


def _sentence(row: Any, sources: Mapping[str, str]) -> str:
    name = ".".join(str(part) for part in row["loc"])
    setting = ".".join(str(part) for part in row["loc"][:2])  # Further parts are a path within its value.
    where = f" (from {sources[setting]})" if setting in sources else ""
    if row["type"] == "extra_forbidden":
        return f"{name}: no such setting{where}; `config --show` lists them all"
    if row["type"] in _BOUNDS and (wanted := _range(row["loc"])) is not None:
        return f"{name}: {row['input']}, wanted {wanted}{where}"
    # For our own checks only the text: pydantic's begins with "Value error".
    text = row["ctx"]["error"] if row["type"] == "value_error" else row["msg"]
    return f"{name}: {text}{where}"


def _range(path: tuple[int | str, ...]) -> str | None:
    """Return the range of the number at this place of the tree: pydantic names only the end that was passed."""
    found: Any = Config
    for part in path:
        fields = getattr(found, "model_fields", None)
        if fields is None:  # A list or a table: the form of its items.
            found = get_args(found)[-1 if get_origin(found) is dict else 0]
            continue
        field = fields[part]
        found, ends = field.annotation, field.metadata
    if get_origin(found) is Annotated:
        _, *ends = get_args(found)
        ends = ends[0].metadata
    ends = {kind: getattr(end, kind) for end in ends for kind in ("ge", "gt", "le", "lt") if hasattr(end, kind)}
    return f"{ends['ge']:,} to {ends['le']:,}" if {"ge", "le"} <= ends.keys() else None
