"""A service to attack: somebody with one search token tries to see what it may not show.

usage: python -m benchmarks.token_trial FOLDER [--port 8034] [--hours 2] [--documents 80] [--seed 34]

Fills a library in FOLDER with documents of five tenants, for one tenant, for groups, for everyone and for
nobody, with mails and attachments, hidden keys, notes of each tenant, pins, synonyms, a saved search, learned
words and a second collection. Each hidden document has a secret: a code, a name that stands nowhere else, and
a word that no dictionary has. Starts a service on the port, prints its address and a token of the tenant
`dan`, and runs until Ctrl-C. `FOLDER/secrets.json` has the secrets of what the token may not see; who tries
must not read FOLDER.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from benchmarks.token_model import CODES, FILTERS, PRINCIPALS, TAGS, TENANTS, sentence
from shoal.access.key_store import KeyStore
from shoal.collections.catalog import Catalog
from shoal.collections.collections import Collections
from shoal.engine import Engine
from shoal.filters.parsing import make_filter
from shoal.filters.visibility import Viewer
from shoal.settings import Settings
from shoal.support.search_tokens import make_token, new_pair

TENANT = "dan"
HIDDEN = ("salary", "date")
SYLLABLES = (
    "bra",
    "dor",
    "fen",
    "gul",
    "hix",
    "jom",
    "kel",
    "mur",
    "nop",
    "quel",
    "sor",
    "tav",
    "vun",
    "zet",
)
SHARED = "The tide reaches the harbour twice a day, and the whale follows the runners of the orchard."

FORMS = ("The form is for the orchard and the whale.", "The form is for the judge and the verdict.")


def word(chance: random.Random) -> str:
    """Return a made-up word."""
    return "".join(chance.choice(SYLLABLES) for _ in range(3))


def document(number: int, rights: dict[str, Any], owner: str, chance: random.Random) -> dict[str, Any]:
    """Return a document with a secret in its text, its metadata and its title."""
    code, name, rare = f"KX-{chance.randrange(10**4, 10**5)}", word(chance).title(), word(chance)
    body = " ".join(sentence(chance) for _ in range(chance.randint(4, 9)))
    content = (
        f"# {chance.choice(TAGS).title()} of {owner}\n\n{body}\n\n## Access to {name}\n\n"
        f"The vault of {name} opens with {code}. The volcano near the {rare} is near that of the judge. "
        f"Nobody but {name} knows the {rare}."
    )
    return {
        "title": f"{name} report {number}",
        "content": content,
        "format": "markdown",
        "tags": [chance.choice(TAGS), f"of-{owner}"],
        "metadata": {
            "tenant": owner,
            "salary": chance.randrange(10_000, 99_999),
            "year": chance.randint(2000, 2025),
            "date": f"20{chance.randint(10, 25)}-0{chance.randint(1, 9)}-1{chance.randint(0, 9)}",
            f"key_{rare}": code,
        },
        "source_path": f"{owner}/{name.lower()}/{number}.md",
        **rights,
    }


def mail(path: Path, owner: str, chance: random.Random) -> None:
    """Write a mail with two attachments: one with a secret, and one that other mails have, too."""
    name, rare = word(chance).title(), word(chance)
    written = EmailMessage()
    written["From"], written["To"] = f"{name}@example.org", f"{owner}@example.org"
    written["Subject"] = f"Keys of {name}"
    written.set_content(
        f"Dear {owner}, {name} keeps the key of the {rare} in the harbour. {sentence(chance)}"
    )
    secret = f"The code of {name} is KX-{chance.randrange(10**4, 10**5)}. {sentence(chance)}"
    written.add_attachment(secret, filename=f"{rare}.txt")
    written.add_attachment(chance.choice(FORMS), filename=f"form of {rare}.txt")
    path.write_bytes(written.as_bytes())


def fill(engine: Engine, folder: Path, n: int, chance: random.Random) -> None:
    """Store documents, mails in a folder, notes, pins, synonyms and a saved search."""
    documents = []
    for number in range(n):
        for owner in TENANTS:
            rights = chance.choice(
                (
                    {"allow": [f"user:{owner}"]},
                    {"allow": [f"user:{owner}"]},
                    {"allow": ["group:red"]},
                    {"allow": ["group:blue"], "deny": [f"user:{TENANT}"]},
                    {"allow": ["everyone"], "deny": [f"user:{TENANT}"] if owner == "bob" else []},
                    {"allow": []},
                )
            )
            documents.append(document(number, rights, owner, chance))
    documents += [{"title": "Tides", "content": SHARED, "allow": ["user:ann"]}]
    ids = [result.id for result in engine.ingest_many(documents)]
    for number in range(n):
        owner, path = chance.choice(TENANTS), folder / f"mail {number}.eml"
        mail(path, owner, chance)
        engine.ingest_file(path, source_path=path.name, allow=[f"user:{owner}"])
    for owner in TENANTS:
        notes = engine.notes.of(owner)
        for _ in range(6):
            notes.add(
                f"{owner} prefers {word(chance)} for the vault {chance.choice(CODES)}",
                domain=f"{owner}/vault",
            )
    engine.pins.add("vault", [each for each in ids[:3] if each])
    engine.pins.add("tide", [each for each in ids[5:9] if each], match="contains")
    engine.vocabulary.synonyms.add(["vault", word(chance), "harbour"])
    engine.saved_searches.create("secrets", {"query": "vault of secrets"}, url="http://127.0.0.1:9/hook")


def secrets_of(engine: Engine) -> dict[str, Any]:
    """Return what the token may not see: ids and texts of hidden documents."""
    seen = engine.seen_by(viewer())
    visible = {each.id for each in seen.documents.list(limit=100_000).documents}
    hidden = [each for each in engine.documents.list(limit=100_000).documents if each.id not in visible]
    return {
        "visible": len(visible),
        "hidden": {
            each.id: {
                "title": each.title,
                "metadata": dict(each.metadata),
                "source_path": each.source_path,
                "text": engine.documents.content(each.id),
            }
            for each in hidden
        },
        "salaries": {
            each.id: each.metadata.get("salary")
            for each in engine.documents.list(limit=100_000).documents
            if each.id in visible
        },
    }


def viewer() -> Viewer:
    """What the token sees."""
    return Viewer(frozenset(PRINCIPALS[TENANT]), make_filter(FILTERS[TENANT]), frozenset(HIDDEN))


def main() -> None:
    """Make the library, start the service, and print the token."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=8034)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--documents", type=int, default=80)
    parser.add_argument("--seed", type=int, default=34)
    given = parser.parse_args()
    given.folder.mkdir(parents=True)
    database = f"sqlite:///{given.folder / 'shoal.db'}"
    settings = Settings(
        database_url=database,
        webhook_hosts="127.0.0.1:9",
        webhook_private="127.0.0.1",
        query_log="queries",
        min_occurrences_short=3,
        association_min=0.2,
    )
    with Engine(settings=settings) as engine:
        fill(engine, given.folder, given.documents, random.Random(given.seed))
        (given.folder / "secrets.json").write_text(json.dumps(secrets_of(engine), indent=1))
    private, public = new_pair()
    catalog = Catalog(settings)
    with Collections(settings) as collections:
        collections.create("vault")
    store = KeyStore(catalog)
    created = store.create("app", [("main", "read")])
    store.set_public_key(created.details.id, public)
    token = make_token(
        created.details.id,
        private,
        collections=["main"],
        seconds=given.hours * 3_600,
        principals=PRINCIPALS[TENANT],
        hidden=HIDDEN,
        owner=TENANT,
    )
    print(f"address: http://127.0.0.1:{given.port}\ntoken: {token}", flush=True)
    environment = {
        **os.environ,
        "SHOAL_TOKEN_SECONDS": str(int(given.hours * 3_600)),
        "SHOAL_QUERY_LOG": "queries",
    }
    subprocess.run(
        [sys.executable, "-m", "shoal.cli", "--db", database, "up", "--port", str(given.port)],
        env=environment,
        check=True,
    )


if __name__ == "__main__":
    main()
