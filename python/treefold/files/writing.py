"""Writes files completely or not at all."""

import errno
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

from treefold.errors import OutsideError, TreefoldError
from treefold.files.streams import open_descriptor
from treefold.text import message


def write_text_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` as UTF-8 to `path`, like `write_bytes_atomically`.

    Raises:
        TreefoldError: If UTF-8 cannot encode the text.
        OutsideError: If the folder does not exist, or the file cannot be written.

    """
    try:
        content = text.encode("utf-8")
    except UnicodeError:
        problem = "a name holds characters that UTF-8 cannot encode; rename it"
        raise TreefoldError(message(os.fspath(path), problem)) from None
    write_bytes_atomically(path, content)


def write_bytes_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write `content` to `path`; if that fails, the file keeps its old content.

    The bytes go to a temporary file in the same folder, which then replaces `path`, or is removed if anything fails.
    A symbolic link keeps its target, and permissions stay as they were. Streams are written directly.

    Raises:
        OutsideError: If the folder does not exist, or the file cannot be written.

    """
    try:
        if is_stream(path):
            _write_stream(os.fspath(path), content)
        else:
            target = Path(os.path.realpath(path))
            _replace(target, content, target.stat().st_mode if target.exists() else None)
    except BrokenPipeError:
        raise  # the reader has gone; the caller decides whether that is an error
    except (OSError, ValueError) as error:
        raise _problem(error, path) from None


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Tell whether `path` is an open stream such as /dev/stdout, a pipe or a device."""
    try:
        is_regular = stat.S_IFMT(os.stat(path).st_mode) in (stat.S_IFREG, stat.S_IFDIR)
    except (OSError, ValueError):
        is_regular = True
    return not is_regular or open_descriptor(os.fspath(path)) is not None


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a path before long work if `write_bytes_atomically` would refuse it afterwards.

    Raises:
        OutsideError: If `path` is a folder, or its folder does not exist or is not writable.

    """
    try:
        target = Path(os.path.realpath(path))
        if is_stream(path):
            return
        if target.is_dir():
            raise IsADirectoryError
        with suppress(FileNotFoundError):
            target.lstat()  # fails if the name is too long
        if not target.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if not os.access(target.parent, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except (OSError, ValueError) as error:
        raise _problem(error, path) from None


def check_writable_as(path: str | os.PathLike[str], extension: str, of: str) -> None:
    """Refuse a path before long work: one to which nothing can be written, or whose extension is another.

    Args:
        path: The path.
        extension: The extension, such as `.json`.
        of: What the files of this extension hold, in words such as `plans`.

    Raises:
        TreefoldError: Saying what the path could be.

    """
    check_writable(path)
    suffix = Path(path).suffix
    if suffix.lower() != extension and not is_stream(path):
        problem = f"its extension '{suffix}' is not the extension of {of}" if suffix else "it has no extension"
        raise TreefoldError(message(os.fspath(path), f"{problem}; write {Path(path).with_suffix(extension)}"))


def _write_stream(path: str, content: bytes) -> None:
    descriptor = open_descriptor(path)
    if descriptor is None:
        with open(path, "wb") as file:
            file.write(content)
        return
    if sys.stdout is not None:
        sys.stdout.flush()  # keeps earlier output before the content
    with os.fdopen(os.dup(descriptor), "wb") as stream:
        stream.write(content)


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


def _problem(error: OSError | ValueError, path: str | os.PathLike[str]) -> OutsideError:
    folder = os.path.dirname(os.fspath(path)) or "."
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    problem = f"cannot be written: {reason}; choose another place"
    if isinstance(error, IsADirectoryError):
        problem = "is a folder; name a file in it"
    elif not os.path.isdir(folder):
        problem = f"cannot be written: there is no folder '{os.path.basename(folder)}'; create it first"
    return OutsideError(message(os.fspath(path), problem))
