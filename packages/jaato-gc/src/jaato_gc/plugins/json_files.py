"""The JSON files of a configuration: where they are, and how they are read."""

import json
from pathlib import Path
from typing import Any

from jaato_gc.errors import GCConfigError

FILE_NAME = "gc.json"
DEFAULT_FOLDER = ".jaato"
DEFAULT_PROFILES = f"{DEFAULT_FOLDER}/profiles"
MAX_FILE_BYTES = 1 << 20
"""A configuration has a few hundred bytes; a larger file is something else."""


def find_gc_file(
    file_path: str | Path | None = None,
    workspace_root: str | Path | None = None,
    config_root: str | Path | None = None,
) -> Path | None:
    """Returns the file that `load_gc_from_file` reads; ``None`` if there is none.

    Args:
        file_path: The file. A relative path begins at ``workspace_root``.
        workspace_root: The folder of the project; by default the current one.
        config_root: The folder of the configuration; by default ``.jaato`` of the project.
    """
    workspace = _expanded(workspace_root or "")
    if file_path is not None:
        file = workspace / _expanded(file_path)
        return file if _may_exist(file) else None
    folder = _expanded(config_root) if config_root else workspace / DEFAULT_FOLDER
    file = folder / FILE_NAME
    return file if _may_exist(file) else _file_in_home()


def find_profile(profile: str | Path, directory: str | Path = DEFAULT_PROFILES) -> Path:
    """Returns the file of a profile.

    Args:
        profile: The name of its file without ``.json``, the name in it, or its path.
        directory: The folder of the profiles.

    Raises:
        GCConfigError: There is none, or a profile can't be read.
    """
    profile, directory = str(profile), Path(directory)
    if profile.endswith(".json") and Path(profile).exists():
        return Path(profile)
    path = directory / f"{profile}.json"
    if path.exists():
        return path
    profiles = sorted(directory.glob("*.json")) if directory.is_dir() else []
    for candidate in profiles:
        if read_json(candidate).get("name") == profile:
            return candidate
    names = ", ".join(candidate.stem for candidate in profiles) or "none"
    raise GCConfigError(f"profile {profile!r} does not exist in {directory}: it has {names}")


def is_own_file(path: Path) -> bool:
    """Returns whether a file is the user's own: in ``.jaato`` of the home folder."""
    try:
        folder = (Path.home() / DEFAULT_FOLDER).resolve()
        return path.parent.resolve().is_relative_to(folder)  # the file may be a link of the user
    except (OSError, RuntimeError):
        return False


def read_json(path: Path) -> dict[str, Any]:
    """Returns the object in a JSON file.

    Raises:
        GCConfigError: The file can't be read, or is not a JSON object.
    """
    try:
        if path.exists() and not path.is_file():
            raise GCConfigError(f"{path} is not a regular file: name a JSON file")
        with path.open("rb") as file:  # its size may be unknown, or change
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise GCConfigError(
                f"{path} has {path.stat().st_size} bytes, far more than a configuration: is it "
                f"another file? At most {MAX_FILE_BYTES} are read"
            )
        text = content.decode("utf-8-sig")
        document = json.loads(text, object_pairs_hook=_without_duplicates)
    except OSError as error:
        raise GCConfigError(f"{path} can't be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise GCConfigError(f"{path} can't be read as JSON: {error}") from error
    if not isinstance(document, dict):
        raise GCConfigError(f'{path} must hold a JSON object, such as {{"type": "truncate"}}')
    return document


def _expanded(path: str | Path) -> Path:
    """Returns a path with the home directory for ``~``, if that is known."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def _may_exist(path: Path) -> bool:
    """Returns whether a path exists, or can't be looked up: reading it says why."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        pass
    return True


def _file_in_home() -> Path | None:
    """Returns the file of the user. A service may have no home, or may not enter it."""
    try:
        file = Path.home() / DEFAULT_FOLDER / FILE_NAME
        file.lstat()
    except (OSError, RuntimeError):
        return None
    return file


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for key, value in pairs:
        if key in document:
            raise ValueError(f"{key!r} is given twice: keep one")
        document[key] = value
    return document
