"""Assembles the commands, and ends the command line with its errors and its exit code."""

import errno
import platform
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer

import treefold
from treefold import _core, interrupts
from treefold.cli import (
    catalog,
    certificates,
    compare,
    draw,
    explain,
    networks,
    plans,
    probe,
    reproduce,
    run,
    simulate,
    train,
    view,
)
from treefold.cli.app import SETTINGS, USAGE_ERROR, Command, Commands, explain_usage
from treefold.cli.terminal import notify, prepare_streams
from treefold.cli.wording import in_options
from treefold.errors import TreefoldError
from treefold.extras import EXTRAS, is_installed

app = typer.Typer(cls=Commands, rich_markup_mode=None, pretty_exceptions_enable=False, context_settings=SETTINGS)


def _version() -> str:
    """Return the version, the commit of the compiled core, and which extras are installed."""
    here = [extra for extra in EXTRAS if is_installed(extra)]
    absent = [extra for extra in EXTRAS if extra not in here]
    lists = [f"{title}: {', '.join(names)}" for title, names in (("extras", here), ("not installed", absent)) if names]
    python = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    return f"treefold {treefold.__version__}, commit {_core.commit()}, {python}\n{'; '.join(lists)}"


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(_version())
        raise typer.Exit


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print version, commit and extras."),
    ] = False,
) -> None:
    """Give it your network; get the fastest collective for it, proof that it is right, and a prediction of its time."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


_COMMANDS: tuple[Callable[..., None], ...] = (
    networks.topology,
    plans.plan,
    plans.check,
    plans.replan,
    networks.bound,
    explain.explain,
    simulate.simulate,
    compare.compare,
    view.view,
    draw.draw,
    train.train,
    run.run,
    probe.probe,
    certificates.certificates,
    reproduce.reproduce,
    catalog.algorithms,
    catalog.machine,
)
for _each in _COMMANDS:
    app.command(cls=Command)(_each)

_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def _fail(message: str) -> NoReturn:
    notify(f"error: {message}")
    sys.exit(2)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    notify(f"warning: {in_options(str(message))}")


def main() -> None:
    """Run the command line."""
    prepare_streams()
    warnings.showwarning = _show_warning
    try:
        result = app(standalone_mode=False)
    except TreefoldError as error:
        _fail(in_options(str(error)))
    except UnicodeEncodeError as error:
        _fail(f"'{error.object}' is not text; write it in UTF-8")
    except USAGE_ERROR as error:
        _fail(explain_usage(error))
    except (typer.Abort, KeyboardInterrupt):
        result = interrupts.EXIT_CODE
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        sys.stdout = None  # otherwise the interpreter tries to write again at exit
        _fail(f"standard output cannot be written ({error.strerror}); is its disk full?")
    if result == interrupts.EXIT_CODE:  # typer returns it if it has caught the interrupt itself
        interrupts.end()
    sys.exit(result if isinstance(result, int) else 0)
