"""Files: refused before any work if they cannot be written, and never seen half written."""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

PREFIX = ".jaxagent-"  # of what is not in place yet


def require_empty(folder: Path) -> None:
    """ValueError unless `folder` is empty or could be made now; the check leaves nothing behind."""
    if folder.is_dir() and any(folder.iterdir()):
        raise ValueError(f"--out must be a new or an empty folder, got {folder} with files in it")
    _require_room(folder, [folder, *folder.absolute().parents])


def require_writable(file: Path) -> None:
    """ValueError unless `file` could be written now; the check leaves nothing behind."""
    if file.exists() and not file.is_file():
        raise ValueError(f"a regular file must be named, got {file}")
    _require_room(file, Path(os.path.realpath(file)).parents)


def _require_room(wanted: Path, parents: Iterable[Path]) -> None:
    """ValueError unless something can be made in the nearest of `parents` that exists."""
    nearest = next(parent for parent in parents if os.path.lexists(parent))
    if not nearest.is_dir():
        raise ValueError(f"{wanted} cannot be written: {nearest} is not a folder")
    try:
        with tempfile.TemporaryDirectory(dir=nearest, prefix=PREFIX):
            pass
    except OSError as error:
        raise ValueError(f"{wanted} cannot be written in {nearest}: {error.strerror}") from error


def write(file: Path, fill: Callable[[BinaryIO], Any]) -> None:
    """Write by `fill(handle)` beside the name, then rename: readers see all of it or nothing.

    A symbolic link is written through; an existing file keeps its mode.
    """
    file = Path(os.path.realpath(file))
    file.parent.mkdir(parents=True, exist_ok=True)
    mode = file.stat().st_mode & 0o777 if file.exists() else 0o666 & ~_umask()
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=PREFIX)
    try:
        with os.fdopen(handle, "wb") as stream:
            fill(stream)
        os.chmod(temporary, mode)
        os.replace(temporary, file)
    finally:
        Path(temporary).unlink(missing_ok=True)


def write_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Fill a folder by `fill(beside)`, then put it in place: all of its files are there, or none.

    A new folder comes by one rename. Into an empty one that was there the files
    are linked one by one, so nothing of another's is ever replaced. ValueError
    if it is no longer empty.
    """
    folder = Path(os.path.realpath(folder))
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=PREFIX))
    try:
        fill(beside)
        os.chmod(beside, 0o777 & ~_umask())
        if folder.exists():
            for file in sorted(beside.iterdir()):
                os.link(file, folder / file.name)
        else:
            os.rename(beside, folder)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            raise ValueError(f"--out must be empty, got {folder}, filled meanwhile") from error
        raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_json(file: Path, content: Any) -> None:
    """Indented JSON; a number that is not finite becomes a string, since JSON has none."""
    text = json.dumps(plain(content), indent=2, allow_nan=False) + "\n"
    write(file, lambda stream: stream.write(text.encode()))


def write_arrays(file: Path, arrays: dict[str, np.ndarray]) -> None:
    """An .npz of named arrays, without pickle."""
    write(file, lambda stream: np.savez(stream, **arrays))  # type: ignore[arg-type]


def plain(content: Any) -> Any:
    """Records, arrays and NumPy scalars as what JSON knows."""
    if isinstance(content, dict):
        return {str(key): plain(value) for key, value in content.items()}
    fields = getattr(content, "_fields", None)
    if fields is not None:  # a record
        return plain(dict(zip(fields, content, strict=True)))
    if isinstance(content, np.ndarray | np.generic):
        return plain(content.tolist())
    if isinstance(content, list | tuple):
        return [plain(value) for value in content]
    if isinstance(content, float) and not np.isfinite(content):
        return str(content)
    return content
