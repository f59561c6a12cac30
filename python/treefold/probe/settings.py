"""The settings of a probe, and the check of those that worker 0 sends."""

from dataclasses import dataclass

from treefold import checks
from treefold.errors import TreefoldError
from treefold.importers import Document
from treefold.rendezvous import validation


class BudgetError(TreefoldError):
    """The settings allow too few seconds or bytes for what is to be measured."""

    def __init__(self, setting: str, problem: str, remedy: str) -> None:
        """Say the problem, and the remedy for callers who give `Settings`; those with options of their own say others.

        Args:
            setting: The field of `Settings` that is too small.
            problem: Its value, and what it is too small for.
            remedy: The advice.

        """
        super().__init__(f"{problem}; {remedy}")
        self.setting, self.problem = setting, problem


@dataclass(frozen=True)
class Settings:
    """The settings of a probe; all workers use those of worker 0.

    Attributes:
        seconds: The approximate time of all measurements together, in seconds; by default each transfer takes one
            second. A transfer takes 0.1 to 5 s; a time that leaves less than 0.1 s for each is refused. Lines that one
            TCP stream does not fill take a few transfers more.
        most_bytes: The maximum number of bytes that all workers send together, by default 64 GiB; each transfer needs
            at least 1 MiB.
        parallel: Whether pairs that share no worker are measured at the same time.
        links: A topology document whose links are measured, each in its direction, for example that of `read_links`.
            Each of its accelerators is a worker: by name if all workers have names, else in order. All its links must
            be between accelerators. By default all pairs are measured.

    Raises:
        TreefoldError: If `seconds` is not a number above 0, `most_bytes` is not a whole number of at least 1, or
            `links` is not a topology document.

    Example:
        >>> from treefold import probe
        >>> probe.Settings(seconds=30.0, parallel=True).most_bytes
        68719476736

    """

    seconds: float | None = None
    most_bytes: int = 64 << 30
    parallel: bool = False
    links: Document | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None and checks.number("seconds", self.seconds, "seconds") <= 0:
            raise TreefoldError(f"seconds is {checks.shown(self.seconds)}; it must be above 0, for example 30")
        checks.whole("most_bytes", self.most_bytes, 1, 2**63 - 1)
        if not isinstance(self.links, dict | None):
            raise TreefoldError(
                f"links {checks.shown(self.links)} is not a topology document; read a file with read_links"
            )


_DOCUMENT: validation.Schema = {
    "name": str,
    "nodes": [{"name": str, "kind": str}],
    "links": [{"source": str, "target": str, "both_ways": bool}],
}

SCHEMA: dict[str, validation.Schema] = {
    "seconds": lambda value: value is None or validation.is_amount(value),
    "most_bytes": validation.is_count,
    "parallel": bool,
    "links": lambda value: value is None or validation.matches(value, _DOCUMENT),
}
"""The schemas that the JSON of `Settings` has to match, by field."""
