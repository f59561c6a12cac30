"""Turns dataclasses into groups of options: a command with a parameter of such a type gets an option for each field.

The option of a field is an `Annotated` hint with a `typer.Option`, or it comes from the field's metadata: `help`, and
if necessary `flag`, `panel`, `metavar` and `values`. If the name of a field ends with a unit (`_bytes`, `_s`), its
value has a unit on the command line.
"""

import inspect
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, fields, is_dataclass
from functools import cache, wraps
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer

from treefold import _core
from treefold.errors import TreefoldError
from treefold.text import message

_READERS: Mapping[str, Callable[[str], float]] = {"bytes": _core.parse_size, "s": _core.parse_time}
_METAVARS = {"bytes": "SIZE", "s": "TIME"}


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


def flags_given(*groups: Any) -> list[str]:
    """Return the flags of the options of groups that are given; None stands for an option that is not."""
    return [flag_named(name) for group in groups for name, value in vars(group).items() if value is not None]


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each field of its groups, and pass it each group as one value."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    @wraps(command)
    def called(**given: Any) -> None:
        values = {name: _group(group, given) for name, group in groups.items()}
        command(**given, **values)

    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += _parameters(groups[name])
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))
    # Typer reads this signature; it has no other way to share options between commands.
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called


def _group(group: type, given: dict[str, Any]) -> Any:
    values = {each.name: given.pop(each.name) for each in fields(group)}
    return group(**{each.name: _read(each, values[each.name]) for each in fields(group)})


def _read(of: "Field[Any]", value: Any) -> Any:
    reader = _reader(of)
    return value if reader is None or not isinstance(value, str) else quantity(_flag(of), reader, value)


def _reader(of: "Field[Any]") -> Callable[[str], float] | None:
    """Return the function that reads the quantities of a field; None if its values are not quantities."""
    return _READERS.get(_unit(of)) if of.metadata else None


def _unit(of: "Field[Any]") -> str:
    return of.name.rpartition("_")[2]


@cache
def _parameters(group: type) -> list[inspect.Parameter]:
    """Return a parameter for each field of a group."""
    hints = get_type_hints(group, include_extras=True)
    return [_parameter(each, hints[each.name]) for each in fields(group)]


def _parameter(of: "Field[Any]", hint: Any) -> inspect.Parameter:
    if get_origin(hint) is not Annotated:
        hint = _from_metadata(of, hint)
    return inspect.Parameter(of.name, inspect.Parameter.KEYWORD_ONLY, default=of.default, annotation=hint)


def _from_metadata(of: "Field[Any]", hint: Any) -> Any:
    """Return the hint of an option from the metadata of its field."""
    values = of.metadata.get("values")
    option = typer.Option(
        _flag(of),
        help=of.metadata["help"],
        metavar=of.metadata.get("metavar") or _METAVARS.get(_unit(of)),
        rich_help_panel=of.metadata.get("panel"),
        autocompletion=completing(values) if values else None,
    )
    return Annotated[_kind(of, hint), option]


def _flag(of: "Field[Any]") -> str:
    return of.metadata.get("flag") or flag_named(of.name)


def flag_named(name: str) -> str:
    """Return the flag of the option that is a field of this name."""
    return f"--{name.replace('_', '-')}"


def _kind(of: "Field[Any]", hint: Any) -> Any:
    """Return the type that typer reads: text for quantities and names, otherwise the plain type of the field."""
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    plain = next((kind for kind in (str, bool, int, float) if kind in parts), str)
    kind = plain if _reader(of) is None else str
    return kind | None if of.default is None else kind
