"""The git repository around a folder and its remotes, read from its files without running git."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from shoal.errors import DocumentError
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
