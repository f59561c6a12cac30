"""Turns dataclasses into groups of options: a command with a parameter of such a type gets an option for each field.

The option of a field is an `Annotated` hint with a `typer.Option`, or it comes from the field's metadata: `help`, and
if necessary `flag`, `panel` and `values`. If the name of a field ends with a unit (`_bytes`, `_s`), its value has a
unit on the command line.
"""

import inspect
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer

from treefold import _core
from treefold.errors import TreefoldError
from treefold.text import message

_READERS: Mapping[str, Callable[[str], float]] = {"bytes": _core.parse_size, "s": _core.parse_time}


def completing(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a function that completes one of these names in a shell."""
    listed = list(names)
    return lambda incomplete: [name for name in listed if name.startswith(incomplete)]


def quantity(option: str, parse: Callable[[str], float], text: str | None) -> float | None:
    """Return the value of an option, None if it is not given; errors name the option."""
    try:
        return None if text is None else parse(text)
    except TreefoldError as error:
        raise TreefoldError(message(option, str(error))) from None


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each field of its groups, and pass it each group as one value."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    @wraps(command)
    def called(**given: Any) -> None:
        values = {name: _group(group, given) for name, group in groups.items()}
        command(**given, **values)

    parameters = []
    for name, parameter in inspect.signature(command).parameters.items():
        own = [parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)]
        parameters += (
            [_parameter(group, each) for group in [groups[name]] for each in fields(group)] if name in groups else own
        )
    # Typer reads this signature; it has no other way to share options between commands.
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called


def _group(group: type, given: dict[str, Any]) -> Any:
    values = {each.name: given.pop(each.name) for each in fields(group)}
    return group(**{each.name: _read(each, values[each.name]) for each in fields(group)})


def _read(of: "Field[Any]", value: Any) -> Any:
    unit = of.name.rpartition("_")[2]
    if isinstance(value, str) and unit in _READERS and of.metadata:
        return quantity(_flag(of), _READERS[unit], value)
    return value


def _parameter(group: type, of: "Field[Any]") -> inspect.Parameter:
    hint = get_type_hints(group, include_extras=True)[of.name]
    if get_origin(hint) is not Annotated:
        hint = _declared(of, hint)
    default = of.default_factory() if of.default_factory is not MISSING else of.default
    return inspect.Parameter(of.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _declared(of: "Field[Any]", hint: Any) -> Any:
    """Return the hint of an option from the metadata of its field."""
    values, panel = of.metadata.get("values", ()), of.metadata.get("panel")
    kind = _kind(of, hint)
    option = typer.Option(
        _flag(of),
        help=of.metadata["help"],
        rich_help_panel=panel,
        autocompletion=completing(values) if values else None,
    )
    return Annotated[kind, option]


def _flag(of: "Field[Any]") -> str:
    return of.metadata.get("flag") or f"--{of.name.replace('_', '-')}"


def _kind(of: "Field[Any]", hint: Any) -> Any:
    """Return the type that typer reads: text for quantities and names, otherwise the plain type of the field."""
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    plain = next((kind for kind in (str, bool, int, float) if kind in parts), str)
    kind = str if of.name.rpartition("_")[2] in _READERS else plain
    return kind | None if of.default is None else kind
