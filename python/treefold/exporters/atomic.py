"""Files that are written whole or not at all."""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from treefold._core import TreefoldError


def write_text_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` as UTF-8 to `path`, like `write_bytes_atomically`.

    Raises:
        TreefoldError: If UTF-8 cannot hold the text, the folder does not exist, or the file cannot be written.

    """
    try:
        content = text.encode("utf-8")
    except UnicodeError:
        problem = "the text holds characters that UTF-8 cannot; rename what bears them"
        raise TreefoldError(f"{os.fspath(path)}: {problem}") from None
    write_bytes_atomically(path, content)


def write_bytes_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write `content` to `path`: afterwards the file holds all of it or, on failure, what it held before.

    The bytes go to a temporary file in the same folder, which then takes the place of `path`; it is removed when
    anything fails. A symbolic link keeps pointing where it did, and permissions stay as they were. What is no regular
    file, such as /dev/stdout, is written directly.

    Raises:
        TreefoldError: If the folder does not exist, or the file may not or cannot be written.

    """
    target = Path(path)
    try:
        target = Path(os.path.realpath(path))
        mode = target.stat().st_mode if target.exists() else None
        if mode is not None and not stat.S_ISREG(mode):
            target.write_bytes(content)
        else:
            _replace(target, content, mode)
    except (OSError, ValueError) as error:
        raise TreefoldError(f"{os.fspath(path)}: {_problem(error, target)}") from None


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse before long work what `write_bytes_atomically` would refuse after it.

    Raises:
        TreefoldError: If `path` is a folder, or its folder does not exist or may not be written to.

    """
    target = Path(os.path.realpath(path))
    error: OSError
    if target.is_dir():
        error = IsADirectoryError()
    elif os.access(target.parent, os.W_OK | os.X_OK):
        return
    else:
        error = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    raise TreefoldError(f"{os.fspath(path)}: {_problem(error, target)}")


def _replace(target: Path, content: bytes, mode: int | None) -> None:
    temporary = target.with_name(f".treefold-{os.urandom(8).hex()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            temporary.chmod(stat.S_IMODE(mode))
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _problem(error: OSError | ValueError, target: Path) -> str:
    if isinstance(error, IsADirectoryError):
        return "is a folder; name a file in it"
    if not target.parent.is_dir():
        return f"cannot be written: there is no folder '{target.parent.name}'; create it first"
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return f"cannot be written: {reason}; choose another place"
