"""The command `certificates`."""

from pathlib import Path
from typing import Annotated

import typer

from treefold import certificates as making
from treefold.cli.options import Json
from treefold.cli.terminal import show
from treefold.report.align import align

_NEXT = "# copy each folder to its site, set TREEFOLD_TLS to it there, and keep authority.key to yourself"


def certificates(
    sites: Annotated[
        list[str],
        typer.Argument(
            metavar="SITE...",
            help="The sites. A worker's TREEFOLD_NAME is its site, or begins with it and a '/' or ':' (paris/gpu0).",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="The folder of the authority, in which each site gets a folder."
        ),
    ],
    days: Annotated[
        int, typer.Option(help=f"The number of days for which the certificates are valid, at most {making.MOST_DAYS}.")
    ] = 365,
    as_json: Json = False,
) -> None:
    """Make certificates with which workers encrypt what they send.

    The first use makes an authority in the folder, and later ones add sites with it. Copy the folder of each site to
    that site, and set TREEFOLD_TLS to it for all workers there. What is there is never overwritten: to renew a
    certificate, remove the site's folder first.

    Examples:
    treefold certificates paris rome -o keys
    treefold certificates oslo -o keys --days 30

    """
    made = making.make(sites, output, days)
    rows = [
        {"site": each.site, "folder": str(each.folder), "valid_until": f"{each.valid_until:%Y-%m-%d}"} for each in made
    ]
    head = ["site", "folder", "valid until"]
    show(
        rows, as_json, lambda: "\n".join([align([head, *(list(row.values()) for row in rows)], left={0, 1, 2}), _NEXT])
    )
