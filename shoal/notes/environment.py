"""The environment of an agent's session: operating system, repository, folder, MCP servers and tags."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from shoal.errors import DocumentError, InvalidFieldError
from shoal.notes import environment_tags
from shoal.support.regular_files import read_file

MAX_CONFIG_BYTES = 256 * 1024
MAX_LINK_BYTES = 8 * 1024
MAX_PARENTS = 40
MAX_REMOTES = 10

_HOST_TAGS = (
    ("github", "github"),
    ("gitlab", "gitlab"),
    ("bitbucket", "bitbucket"),
    ("codeberg", "codeberg"),
    ("gitea", "gitea"),
    ("sr.ht", "sourcehut"),
    ("dev.azure.com", "azure-devops"),
    ("visualstudio.com", "azure-devops"),
    ("huggingface", "hugging-face"),
)
"""Part of the name of a host -> tag."""

_REMOTE = re.compile(r'\[remote "([^"\n]{1,200})"\]')
_URL = re.compile(r"url\s*+=\s*+(\S.*)", re.IGNORECASE)
_SCHEME_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*+://(?:[^/@\s]*+@)?([^/:\s]*+)(?::\d*+)?/(.*)", re.IGNORECASE)
# user@host:path; a single letter before the colon is a drive of Windows
_SCP_ADDRESS = re.compile(r"(?:[^/@:\s]++@)?([^/@:\s]{2,}+):(.*)")


@dataclass(frozen=True, slots=True)
class Remote:
    """A remote of a repository. `host` and `owner` are empty for a path on this machine."""

    host: str
    owner: str
    name: str

    def tags(self) -> tuple[str, ...]:
        """Return the tags of the host and the owner."""
        services = [tag for part, tag in _HOST_TAGS if part in self.host][:1]
        return (*services, *([self.owner] if self.owner else []))


@dataclass(frozen=True, slots=True)
class Repository:
    """A working tree: its root and the folder with its `config`."""

    root: Path
    git_folder: Path

    @property
    def folder_name(self) -> str:
        """Name of the working tree's folder; of a linked worktree, that of the main working tree."""
        return self.git_folder.parent.name if self.git_folder.name == ".git" else self.root.name

    def remotes(self) -> tuple[Remote, ...]:
        """Return the remotes, `origin` first; none if the configuration cannot be read."""
        text = _read(self.git_folder / "config", MAX_CONFIG_BYTES)
        urls: dict[str, str] = {}
        remote = None
        for line in map(str.strip, text.splitlines()):
            if line.startswith("["):
                match = _REMOTE.match(line)
                remote = match[1] if match else None
            elif remote and remote not in urls and (match := _URL.match(line)):
                urls[remote] = match[1].strip().strip('"')
        names = sorted(urls, key=lambda name: name != "origin")[:MAX_REMOTES]
        return tuple(remote for name in names if (remote := parse_address(urls[name])))


def find_repository(folder: Path) -> Repository | None:
    """Return the repository that a folder lies in, also a linked worktree or a submodule; else None."""
    for root in islice((folder, *folder.parents), MAX_PARENTS):
        marker = root / ".git"
        try:
            if marker.is_symlink():
                continue
            if marker.is_dir():
                return Repository(root, marker)
            if marker.is_file():
                return Repository(root, _linked_folder(marker))
        except (OSError, ValueError):
            continue
    return None


def parse_address(address: str) -> Remote | None:
    """Return the parts of the address of a remote, without user, password and port; None if it has no
    name."""
    address = address[:2000]
    match = _SCHEME_ADDRESS.fullmatch(address) or _SCP_ADDRESS.fullmatch(address)
    host, path = (match[1].lower(), match[2]) if match else ("", address)
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    name = parts[-1].removesuffix(".git") if parts else ""
    if not name:
        return None
    return Remote(host, parts[0].lower() if host and len(parts) > 1 else "", name)


def _linked_folder(marker: Path) -> Path:
    """Return the folder with the `config` that a `.git` file leads to.

    A worktree's folder names the folder that it shares with the main one in `commondir`.
    """
    git_folder = marker.parent / _read(marker, MAX_LINK_BYTES).partition("gitdir:")[2].strip()
    common = _read(git_folder / "commondir", MAX_LINK_BYTES).strip()
    return Path(os.path.normpath(git_folder / common)) if common else git_folder


def _read(path: Path, max_bytes: int) -> str:
    """Return the text of a regular file; empty if it is a link, too large, or cannot be read."""
    try:
        return read_file(path, max_bytes, path.parent).decode("utf-8", "replace")
    except (OSError, ValueError, DocumentError):
        return ""


MAX_TAGS = 50
MAX_TAG_CHARS = 100
MAX_SERVERS = 100
MAX_NAME_CHARS = 200
MAX_PATH_CHARS = 4096

_OS_ALIASES = {"macos": "darwin", "mac": "darwin", "osx": "darwin", "win32": "windows", "win": "windows"}
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Environment:
    """Where a session works. An empty value means that it is unknown.

    os           lower case, as `platform.system()` names it: linux, darwin, windows
    repo         name of the repository, from its remote or its folder
    cwd          absolute path of the working directory
    mcp_servers  names of the connected servers, sorted
    tags         at most 50, sorted
    """

    os: str = ""
    repo: str = ""
    cwd: str = ""
    mcp_servers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, value: object, *, field: str = "environment") -> Environment:
        """Check an environment that a client sent: an object with some of the fields. Raises
        InvalidFieldError."""
        if not isinstance(value, Mapping):
            raise InvalidFieldError(field, "must be an object")
        unknown = [name for name in value if name not in ("os", "repo", "cwd", "mcp_servers", "tags")]
        if unknown:
            raise InvalidFieldError(
                field, f"{str(unknown[0])[:50]!r} is not one of os, repo, cwd, mcp_servers, tags"
            )
        servers = text_list(value.get("mcp_servers"), f"{field}.mcp_servers", MAX_SERVERS, MAX_NAME_CHARS)
        return cls(
            os=normalized_os(_text(value.get("os"), f"{field}.os", MAX_NAME_CHARS)),
            repo=_text(value.get("repo"), f"{field}.repo", MAX_NAME_CHARS),
            cwd=_text(value.get("cwd"), f"{field}.cwd", MAX_PATH_CHARS),
            mcp_servers=tuple(sorted(servers)),
            tags=tuple(sorted(checked_tags(value.get("tags"), f"{field}.tags"))),
        )

    def as_json(self) -> dict[str, str | list[str]]:
        """Return the JSON form, which `from_json` reads."""
        return {
            "os": self.os,
            "repo": self.repo,
            "cwd": self.cwd,
            "mcp_servers": list(self.mcp_servers),
            "tags": list(self.tags),
        }


def detect(
    folder: Path, mcp_servers: Iterable[str] = (), path_tags: Iterable[tuple[str, str]] = ()
) -> Environment:
    """Return the environment of a folder. Never fails: what cannot be read or is broken is ignored.

    path_tags: pairs of a folder pattern and a tag, beside the built-in ones (`note_path_tags`)

    Reads a bounded number of files and directory entries in the folder, its parents up to the root of the
    repository, and the repository's git configuration. Follows no symbolic link in them, and starts no
    process.
    """
    cwd = _absolute(folder)
    repository = find_repository(cwd)
    root = repository.root if repository else cwd
    remotes = repository.remotes() if repository else ()
    found = [
        *environment_tags.of_path(cwd, root, path_tags),
        *(tag for remote in remotes for tag in remote.tags()),
        *environment_tags.of_files(cwd, root),
    ]
    tags = dict.fromkeys(tag for tag in map(_clean_tag, found) if tag)
    servers = {_CONTROLS.sub("", name)[:MAX_NAME_CHARS] for name in mcp_servers}
    return Environment(
        os=normalized_os(platform.system()),
        repo=_CONTROLS.sub("", _repository_name(cwd, repository, remotes))[:MAX_NAME_CHARS],
        cwd=_CONTROLS.sub("", str(cwd))[:MAX_PATH_CHARS],
        mcp_servers=tuple(sorted(servers - {""})[:MAX_SERVERS]),
        tags=tuple(sorted(list(tags)[:MAX_TAGS])),
    )


def normalized_os(name: str) -> str:
    """Return the name of an operating system as `platform` has it, in lower case."""
    name = name.lower()
    return _OS_ALIASES.get(name, name)


def checked_tags(value: object, field: str = "tags") -> tuple[str, ...]:
    """Check tags of a note or an environment: in lower case, unique, in the given order. Raises
    InvalidFieldError."""
    texts = text_list(value, field, MAX_TAGS, MAX_TAG_CHARS)
    return tuple(dict.fromkeys(map(normalized_tag, texts)))


def normalized_tag(tag: str) -> str:
    """Return a tag in lower case with single spaces."""
    return " ".join(tag.lower().split())


def text_list(value: object, field: str, max_values: int, max_chars: int) -> tuple[str, ...]:
    """Check a list of texts: stripped and unique, in the given order. None is empty, and a text is a list of
    one. Raises InvalidFieldError."""
    if value is None:
        return ()
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list | tuple | set | frozenset):
        raise InvalidFieldError(field, "must be a list of texts")
    if len(values) > max_values:
        raise InvalidFieldError(field, f"has {len(values):,} values; the limit is {max_values:,}")
    texts = [_text(item, field, max_chars) for item in values]
    if not all(texts):
        raise InvalidFieldError(field, "must not contain an empty text")
    return tuple(dict.fromkeys(texts))


def _text(value: object, field: str, max_chars: int) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidFieldError(field, "must be a text")
    if len(value) > max_chars:
        raise InvalidFieldError(field, f"has {len(value):,} characters; the limit is {max_chars:,}")
    if _CONTROLS.search(value):
        raise InvalidFieldError(field, "must not contain control characters")
    return value.strip()


def _repository_name(cwd: Path, repository: Repository | None, remotes: Sequence[Remote]) -> str:
    """Return the name of the first remote, else of the folder; of a linked worktree, that of the main one."""
    if remotes:
        return remotes[0].name
    return repository.folder_name if repository else cwd.name


def _absolute(folder: Path) -> Path:
    """Return the folder without symbolic links and `..`, or at least absolute."""
    try:
        return folder.resolve()
    except (OSError, RuntimeError, ValueError):
        return Path(os.path.abspath(str(folder).replace("\0", "")))  # noqa: PTH100 - must not touch the disk


def _clean_tag(tag: str) -> str:
    return normalized_tag(_CONTROLS.sub(" ", tag))[:MAX_TAG_CHARS].strip()
