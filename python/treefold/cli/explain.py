"""The command `explain`: bottlenecks of a network, and what changes of it would be worth."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from treefold import _core, auto, explaining
from treefold.cli.groups import completing, expanded
from treefold.cli.options import Collective, Json, Network, NetworkOptions, Root, one_algorithm
from treefold.cli.terminal import notify, show, working
from treefold.collectives import check_has_root
from treefold.errors import TreefoldError
from treefold.explaining import QUICK
from treefold.explaining.cables import split_upgrade
from treefold.explaining.questions import change_asked
from treefold.explanation_results import Explanation
from treefold.files.writing import check_writable_as
from treefold.report import explain_table
from treefold.text import some

if TYPE_CHECKING:
    from treefold.viewing import Page


@dataclass(frozen=True, kw_only=True)
class Questions:
    """The options that ask what would be if the network were another."""

    upgrade: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LINK=RATE",
            help="Answer only what another bandwidth of a link would change, for example 'A - B=10Gbit/s' (both "
            "directions) or 'A -> B=10Gbit/s' (one), or that of a shared capacity by its name. May be repeated: all "
            "changes are made at once.",
        ),
    ] = None
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LINK|SITE",
            help="Answer only what the loss of a link or of a node would change. May be repeated.",
        ),
    ] = None

    def asked(self) -> dict[str, Any]:
        """Return the keyword arguments of `treefold.explain`."""
        rates: dict[str, str] = {}
        for text in self.upgrade or ():
            link, rate = split_upgrade(text)
            if link in rates:
                raise TreefoldError(f"--upgrade '{link}' is given twice; give it once")
            rates[link] = rate
        return {"upgrade": rates, "without": self.without or []}

    def label(self) -> str:
        """Return what the changed network is called, such as `without site9`."""
        asked = [("with", self.upgrade), ("without", self.without)]
        return ", ".join(f"{word} {some(names, 2)}" for word, names in asked if names)


@dataclass(frozen=True, kw_only=True)
class What:
    """The options that say what is explained."""

    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm",
            "-a",
            help="The algorithm of all plans, or auto for the fastest in each case, which takes long; by default the "
            f"one of {', '.join(QUICK)} that is fastest on the whole network.",
            autocompletion=completing(auto.names()),
        ),
    ] = None
    size: Annotated[str | None, typer.Option(metavar="SIZE", help="The size of the vector; by default 64MiB.")] = None
    collective: Collective = None
    root: Root = None

    def asked(self) -> dict[str, Any]:
        """Return the keyword arguments of `treefold.explain`."""
        collective = _core.parse_collective("all-reduce" if self.collective is None else self.collective)
        check_has_root(collective, self.root or 0)
        size_bytes = None if self.size is None else _core.parse_size(self.size)
        algorithm = one_algorithm(self.algorithm)
        return {"algorithm": algorithm, "size_bytes": size_bytes, "collective": collective, "root": self.root or 0}


@expanded
def explain(
    network: Network,
    *,
    what: What,
    questions: Questions,
    is_whole: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Explain everything, and list all of it: also beside a question, and for a large network, for which "
            "it takes long.",
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Also write a page to this file, .html: the network, coloured by what was found; for a question, the "
            "network before and after the change.",
        ),
    ] = None,
    as_json: Json = False,
    network_options: NetworkOptions,
) -> None:
    """Explain what limits a network, and what failures cost.

    A link here is a cable: all links between two nodes, in both directions. Shown are what limits the rate, by how much
    10 % more of each link raises the bound, what the failure of each link and each node costs after replanning, and
    what few or low trees cost. With --upgrade or --without, only that question is answered.

    Examples:
    treefold explain b4
    treefold explain b4 -o b4.html
    treefold explain b4 --upgrade 'site0 - site1=100MB/s' --upgrade 'site0 - site4=100MB/s'
    treefold explain b4 --without site3 --without 'site0 - site1'
    treefold explain b4 --without site9 -o site9.html

    """
    asked = questions.asked()
    if output is not None:
        check_writable_as(output, ".html", "pages")
    loaded = network_options.load(network)
    with working("explaining"):
        found = explaining.explain(loaded, **what.asked(), **asked, is_whole=is_whole)
    page = None if output is None else _page(loaded, found, questions, what.root or 0)
    show(found.as_dict(), as_json, lambda: explain_table(found, is_whole=is_whole))
    if page is not None and output is not None:
        with working("writing"):
            page.save(output)
        notify(f"wrote {output}; open it in a browser")


def _page(network: _core.Topology, found: Explanation, questions: Questions, root: int) -> "Page":
    """Return the page of the network, or of the network beside the one that was asked about."""
    from treefold import viewing

    problem = found.now.problem if found.answer is None else found.now.problem or found.answer.then.problem
    if problem:
        raise TreefoldError(f"there is no plan for a page to show: {problem}")
    if found.answer is None:
        asked: dict[str, Any] = {"collective": found.collective, "size_bytes": found.size_bytes, "root": root}
        with working("planning"):
            return viewing.view(network, found, algorithm=found.now.algorithm or "auto", **asked)
    changed = change_asked(network, **questions.asked()).of(network)
    with working("planning"):
        return viewing.view_answer(network, changed, found, label=questions.label(), root=network.rank_names[root])
