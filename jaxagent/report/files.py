"""Files: refused before any work if they cannot be written, and never seen half written."""

import json
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np


def require_empty(folder: Path) -> None:
    """ValueError unless `folder` is empty or could be made now; the check leaves nothing behind."""
    if folder.is_dir() and any(folder.iterdir()):
        raise ValueError(f"--out must be a new or an empty folder, got {folder} with files in it")
    _require_room(folder, [folder, *folder.absolute().parents])


def require_writable(file: Path) -> None:
    """ValueError unless `file` could be written now; the check leaves nothing behind."""
    if file.is_dir():
        raise ValueError(f"a file must have a file's name, got the folder {file}")
    _require_room(file, file.absolute().parents)


def _require_room(wanted: Path, parents: Iterable[Path]) -> None:
    """ValueError unless something can be made in the nearest of `parents` that exists."""
    nearest = next(parent for parent in parents if os.path.lexists(parent))
    if not nearest.is_dir():
        raise ValueError(f"{wanted} cannot be written: {nearest} is not a folder")
    try:
        with tempfile.TemporaryDirectory(dir=nearest, prefix=".jaxagent-"):
            pass
    except OSError as error:
        raise ValueError(f"{wanted} cannot be written in {nearest}: {error.strerror}") from error


def write(file: Path, fill: Callable[[BinaryIO], Any]) -> None:
    """Write by `fill(handle)` beside the name, then rename: readers see all of it or nothing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    try:
        with os.fdopen(handle, "wb") as stream:
            fill(stream)
        os.chmod(temporary, 0o644)
        os.replace(temporary, file)
    except BaseException:
        os.unlink(temporary)
        raise


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
    if hasattr(content, "_asdict"):
        return plain(content._asdict())
    if isinstance(content, np.ndarray | np.generic):
        return plain(content.tolist())
    if isinstance(content, list | tuple):
        return [plain(value) for value in content]
    if isinstance(content, float) and not np.isfinite(content):
        return str(content)
    return content
