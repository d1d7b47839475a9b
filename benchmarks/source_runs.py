"""Runs of a source on a real server: first, unchanged, with changes, and killed in between.

    python -m benchmarks.source_runs s3 [--objects 10000] [--kills 5]

Needs for `s3`: moto[server] and boto3; for `sftp`: asyncssh and paramiko; for `webdav`: wsgidav and cheroot;
for `git`: git; for `imap`: dovecot, and to be run by root; for `web`: nothing. A server runs in a process of
its own (git needs none) and has many small texts, made from the sample articles. A run is a process of its
own too, and its processor time is counted with that of its children.

Prints each run with its share of the first. Between the runs, 1 % of the texts are changed, moved or deleted.
At the end all three happen, and the run is killed with SIGKILL at random moments. Then the library must equal
one that was made at once: the same contents by source path, nothing twice.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import hashlib
import http.server
import json
import os
import random
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shoal import Engine
from shoal.settings import Settings

HOST = "127.0.0.1"
FOLDER_TEXTS = 100
"""Texts in one folder."""
CHANGED_SHARE = 0.01
LONGEST_LIFE_SECONDS = 20.0
"""Of a process that is killed."""
QUERY = "SELECT source_path, content FROM documents JOIN document_texts ON document_id = id"
USER, PASSWORD = "reader", "a-secret"
DOVECOT = f"""
    base_dir = {{folder}}/run
    state_dir = {{folder}}/run
    log_path = {{folder}}/dovecot.log
    listen = {HOST}
    protocols = imap
    ssl = no
    disable_plaintext_auth = no
    first_valid_uid = 1
    mail_location = maildir:{{root}}
    passdb {{{{
      driver = static
      args = password={PASSWORD}
    }}}}
    userdb {{{{
      driver = static
      args = uid=nobody gid=nogroup home={{folder}}
    }}}}
    service imap-login {{{{
      chroot =
      inet_listener imap {{{{
        port = {{port}}
      }}}}
    }}}}
"""
EXPIRE_LEASES = tuple(
    f"UPDATE {table} SET lease_expires_at = 0 WHERE lease_expires_at > 0"
    for table in ("source_runs", "job_items", "waves")
)


class Texts:
    """Texts in a folder; `put` and `delete` may be those of a bucket."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.names: list[str] = []

    def put(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def get(self, name: str) -> str:
        return (self.root / name).read_text(encoding="utf-8")

    def delete(self, name: str) -> None:
        (self.root / name).unlink()

    def settle(self) -> None:
        """Let the server know of what has changed."""


class Bucket(Texts):
    """Texts in a bucket."""

    def __init__(self, root: Path, port: int) -> None:
        super().__init__(root)
        import boto3

        self._client = boto3.client("s3", endpoint_url=f"http://{HOST}:{port}", region_name="us-east-1")
        self._client.create_bucket(Bucket="texts")

    def put(self, name: str, text: str) -> None:
        super().put(name, text)
        self._client.put_object(Bucket="texts", Key=f"all/{name}", Body=text.encode())

    def delete(self, name: str) -> None:
        super().delete(name)
        self._client.delete_object(Bucket="texts", Key=f"all/{name}")


class Repository(Texts):
    """Texts in a Git repository."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._git("init", "--quiet")

    def settle(self) -> None:
        self._git("add", "--all")
        self._git("-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "--quiet", "--message=T")

    def _git(self, *arguments: str) -> None:
        subprocess.run(["git", "-C", self.root, *arguments], check=True)


class Mailbox(Texts):
    """Texts as mails in a Maildir. A mail never changes: another text is another mail."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._files: dict[str, Path] = {}
        self._n_mails = 0
        for path in (root.parent, root, *(root / name for name in ("cur", "new", "tmp"))):
            path.mkdir(exist_ok=True)
            path.chmod(0o777)  # mails belong to a user without rights

    def put(self, name: str, text: str) -> None:
        if name in self._files:
            self.delete(name)
        self._n_mails += 1
        self._files[name] = self.root / "cur" / f"{self._n_mails}.texts:2,"
        self._files[name].write_text(f"From: t@example.org\nSubject: {text.splitlines()[0]}\n\n{text}")

    def get(self, name: str) -> str:
        return self._files[name].read_text().partition("\n\n")[2]

    def delete(self, name: str) -> None:
        self._files.pop(name).unlink()


class Site(Texts):
    """Texts of a site with a site map of files with 5,000 entries each."""

    def settle(self) -> None:
        files = []
        for number, begin in enumerate(range(0, len(self.names), 5_000)):
            entries = "".join(
                f"<url><loc>/{name}</loc><lastmod>{self._version(name)}</lastmod></url>"
                for name in self.names[begin : begin + 5_000]
            )
            (self.root / f"map{number}.xml").write_text(f"<urlset>{entries}</urlset>")
            files.append(f"<sitemap><loc>/map{number}.xml</loc></sitemap>")
        (self.root / "sitemap.xml").write_text(f"<sitemapindex>{''.join(files)}</sitemapindex>")

    def _version(self, name: str) -> str:
        """A version in place of a time, so that a change within a second is one."""
        return hashlib.md5(self.get(name).encode(), usedforsecurity=False).hexdigest()


def serve(kind: str, port: int, root: str) -> None:
    """Serve a folder, or an empty store of buckets."""
    if kind == "s3":
        from moto.server import main

        main(["-H", HOST, "-p", str(port)])
    elif kind == "sftp":
        asyncio.run(_serve_sftp(port, root))
    elif kind == "webdav":
        from cheroot import wsgi
        from wsgidav.wsgidav_app import WsgiDAVApp

        users = {"*": {USER: {"password": PASSWORD}}}
        config = {"provider_mapping": {"/": root}, "simple_dc": {"user_mapping": users}, "verbose": 0}
        wsgi.Server((HOST, port), WsgiDAVApp(config)).start()
    elif kind == "imap":
        folder = Path(root).parent
        (folder / "dovecot.conf").write_text(DOVECOT.format(folder=folder, root=root, port=port))
        os.execvp("dovecot", ["dovecot", "-F", "-c", str(folder / "dovecot.conf")])
    else:
        handler = functools.partial(_QuietHandler, directory=root)
        http.server.ThreadingHTTPServer((HOST, port), handler).serve_forever()


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        """Say nothing."""


async def _serve_sftp(port: int, root: str) -> None:
    import asyncssh

    class Server(asyncssh.SSHServer):
        def password_auth_supported(self) -> bool:
            return True

        def validate_password(self, username: str, password: str) -> bool:
            return (username, password) == (USER, PASSWORD)

    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(Path(root).with_name("key"))
    await asyncssh.listen(
        HOST, port, server_factory=Server, server_host_keys=[key], allow_scp=False,
        sftp_factory=lambda channel: asyncssh.SFTPServer(channel, chroot=bytes(Path(root).parent)),
    )  # fmt: skip
    await asyncio.Event().wait()


def source_of(kind: str, port: int, root: Path) -> dict[str, Any]:
    """The arguments of the source of a server."""
    password = {"password": "env:SOURCE_SECRET_PASSWORD"}
    if kind == "s3":
        options = {"endpoint_url": f"http://{HOST}:{port}", "region": "us-east-1"}
        secrets = {"key": "env:SOURCE_SECRET_PASSWORD", "secret": "env:SOURCE_SECRET_PASSWORD"}
        return {"url": "s3://texts/all", "options": options, "secrets": secrets}
    if kind == "sftp":
        import asyncssh

        host_key = asyncssh.read_private_key(root.with_name("key")).get_fingerprint()
        options = {"port": str(port), "username": USER, "host_key": host_key}
        return {"url": f"sftp://{HOST}/texts", "options": options, "secrets": password}
    if kind == "webdav":
        return {"url": f"webdav://{HOST}:{port}", "options": {"username": USER}, "secrets": password}
    if kind == "imap":
        return {"url": f"imap://{HOST}:{port}", "options": {"username": USER}, "secrets": password}
    return {"url": f"git+file://{root}" if kind == "git" else f"http://{HOST}:{port}/sitemap.xml"}


def settings_of(database: Path, source: dict[str, Any]) -> Settings:
    addresses = [source["url"], source.get("options", {}).get("endpoint_url", "")]
    return Settings(
        database_url=f"sqlite:///{database}", sources=" ".join(addresses).strip(), fetch_private=HOST
    )


def follow(database: Path, source: dict[str, Any]) -> None:
    """Run the source of a library in this process, and print what it did and cost."""
    with Engine(settings=settings_of(database, source)) as engine:
        run = engine.sources.run("texts")
        kept = ("status", "error", "n_listed", "n_new", "n_changed", "n_moved", "n_removed", "n_failed")
        outcome = {name: getattr(run, name) for name in kept}
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    outcome["seconds"] = sum(each.ru_utime + each.ru_stime for each in used)
    outcome["mib"] = used[0].ru_maxrss / 1024
    print(json.dumps(outcome))


def begin(database: Path, source: dict[str, Any]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", __spec__.name, "--follow", str(database), json.dumps(source)]
    environment = {**os.environ, "SOURCE_SECRET_PASSWORD": PASSWORD, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def run_to_end(database: Path, source: dict[str, Any], label: str, first: float | None) -> float:
    """Run a source, print the run, and return its processor time in seconds."""
    out, _ = begin(database, source).communicate()
    outcome = json.loads(out)
    seconds = float(outcome.pop("seconds"))
    share = "" if first is None else f" {seconds / first:6.1%}"
    numbers = ", ".join(f"{name.removeprefix('n_')} {value}" for name, value in outcome.items() if value)
    print(f"{label:<12}{seconds:8.2f} s{share:<8}{numbers}", flush=True)
    return seconds


def added(database: Path, source: dict[str, Any]) -> Path:
    with Engine(settings=settings_of(database, source)) as engine:
        engine.sources.add("texts", **source)
    return database


def contents(database: Path) -> dict[str, str]:
    """The contents of a library by source path. Raises AssertionError for a path that two documents have."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        found = connection.execute(QUERY).fetchall()
    assert len(found) == len({path for path, _ in found}), "a document is there twice"
    return dict(found)


def change(texts: Texts, chance: random.Random, what: str) -> None:
    """Change, move or delete a share of the texts."""
    for name in chance.sample(texts.names, max(1, int(len(texts.names) * CHANGED_SHARE))):
        text = texts.get(name)
        if what == "changed":
            texts.put(name, f"{text}\n\nThe tide of day {chance.randrange(10**6)} was high.\n")
            continue
        texts.delete(name)
        texts.names.remove(name)
        if what == "moved":
            new = f"moved/{chance.randrange(10**9)}.md"
            texts.put(new, text)
            texts.names.append(new)
    texts.settle()


def kill_runs(database: Path, source: dict[str, Any], n_kills: int, chance: random.Random) -> None:
    """Begin a run and kill it at a random moment, again and again."""
    for _ in range(n_kills):
        process = begin(database, source)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(1.0, LONGEST_LIFE_SECONDS))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        with contextlib.closing(sqlite3.connect(database)) as connection, connection:
            for statement in EXPIRE_LEASES:  # time passes
                connection.execute(statement)


def fill(texts: Texts, n_objects: int, chance: random.Random) -> None:
    articles = Path(__file__).parents[1] / "shoal" / "sample_corpus"
    paragraphs = [
        part for path in sorted(articles.glob("*.md")) for part in path.read_text().split("\n\n")
        if len(part) > 100
    ]  # fmt: skip
    for number in range(n_objects):
        name = f"{number // FOLDER_TEXTS:03}/{number:05}.md"
        texts.put(name, f"# Note {number}\n\n" + "\n\n".join(chance.sample(paragraphs, 2)) + "\n")
        texts.names.append(name)
    texts.settle()


@contextlib.contextmanager
def running(kind: str, root: Path) -> Iterator[int]:
    """Run a server; yield its port."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = int(free.getsockname()[1])
    command = [sys.executable, "-m", __spec__.name, "--serve", kind, str(port), str(root)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
                break
            time.sleep(0.1)
        yield port
    finally:
        server.kill()
        server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=["s3", "sftp", "webdav", "web", "git", "imap"])
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=5)
    arguments = parser.parse_args()
    kind, chance = arguments.kind, random.Random(7)
    os.environ |= {"AWS_ACCESS_KEY_ID": USER, "AWS_SECRET_ACCESS_KEY": PASSWORD}
    scratch = Path(tempfile.mkdtemp())
    root = scratch / "texts"
    root.mkdir()
    try:
        with running(kind, root) if kind != "git" else contextlib.nullcontext(0) as port:
            of_kind = {"web": Site, "git": Repository, "imap": Mailbox}
            texts = Bucket(root, port) if kind == "s3" else of_kind.get(kind, Texts)(root)
            fill(texts, arguments.objects, chance)
            source = source_of(kind, port, root)
            database = added(scratch / "library.db", source)
            kill_runs(database, source, arguments.kills // 2, chance)
            run_to_end(database, source, "killed", None)
            whole = added(scratch / "first.db", source)
            first = run_to_end(whole, source, "first", None)
            run_to_end(whole, source, "unchanged", first)
            for what in ("changed", "moved", "deleted"):
                change(texts, chance, what)
                run_to_end(whole, source, what, first)
            for what in ("changed", "moved", "deleted"):
                change(texts, chance, what)
            kill_runs(database, source, arguments.kills - arguments.kills // 2, chance)
            run_to_end(database, source, "killed", first)
            run_to_end(whole, source, "all three", first)
            fresh = added(scratch / "fresh.db", source)
            run_to_end(fresh, source, "fresh", first)
            expected = contents(fresh)
            assert len(expected) == len(texts.names), f"{len(expected)} of {len(texts.names)} texts"
            assert contents(database) == expected, "the library that was killed differs"
            assert contents(whole) == expected, "the library that followed differs"
            print(f"equal: {len(expected):,} documents in three libraries")
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    elif sys.argv[1:2] == ["--follow"]:
        follow(Path(sys.argv[2]), json.loads(sys.argv[3]))
    else:
        main()
