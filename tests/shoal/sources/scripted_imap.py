"""An IMAP server with one mailbox, whose mails and answers a test sets."""

from __future__ import annotations

import base64
import re
import socketserver
import ssl
import threading
from typing import Any

FETCH = re.compile(r"(UID )?FETCH (\d+)(?::(\d+))? \((.*)\)")


class ScriptedMailbox:
    """Mails by UID. `commands`: what clients sent; `refuses`: answers to commands that begin with a text.

    Such an answer is `hang up`, a status as in `NO later`, or data before the status OK, from `*` on.
    """

    def __init__(self, mails: dict[int, bytes], context: ssl.SSLContext | None = None) -> None:
        self.mails = mails
        self.validity = 17
        self.name = '"INBOX"'
        self.capabilities = "IMAP4rev1 AUTH=PLAIN"
        self.secret = "\0anna\0the password"
        self.refuses: dict[str, str] = {}
        self.commands: list[str] = []
        mailbox = self

        class Handler(socketserver.StreamRequestHandler):
            disable_nagle_algorithm = True

            def setup(self) -> None:
                if context is not None:
                    self.request = context.wrap_socket(self.request, server_side=True)
                super().setup()

            def handle(self) -> None:
                mailbox.serve(self.rfile, self.wfile)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, request: Any, client_address: Any) -> None: ...

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def serve(self, reader: Any, writer: Any) -> None:
        writer.write(b"* OK ready\r\n")
        while line := reader.readline():
            tag, _, command = line.decode().rstrip().partition(" ")
            self.commands.append(command)
            refusal = next((text for start, text in self.refuses.items() if command.startswith(start)), None)
            if refusal == "hang up":
                return
            if command.startswith("AUTHENTICATE PLAIN"):
                writer.write(b"+ \r\n")
                is_right = base64.b64decode(reader.readline()).decode() == self.secret
                refusal = refusal or (None if is_right else "NO [AUTHENTICATIONFAILED] wrong password")
            if refusal is not None and not refusal.startswith("*"):
                writer.write(f"{tag} {refusal}\r\n".encode())
                continue
            answer = self.answer(command) if refusal is None else refusal.encode()
            writer.write(answer + f"{tag} OK done\r\n".encode())

    def answer(self, command: str) -> bytes:
        if command == "CAPABILITY":
            return f"* CAPABILITY {self.capabilities}\r\n".encode()
        if command == f"EXAMINE {self.name}":
            return f"* {len(self.mails)} EXISTS\r\n* OK [UIDVALIDITY {self.validity}] valid\r\n".encode()
        uids = sorted(self.mails)
        if (match := FETCH.fullmatch(command)) is None:
            return b""
        first, last = int(match[2]), int(match[3] or match[2])
        chosen = [uid for i, uid in enumerate(uids) if first <= (uid if match[1] else i + 1) <= last]
        return b"".join(self.fetched(uids.index(uid) + 1, uid, match[4]) for uid in chosen)

    def fetched(self, position: int, uid: int, items: str) -> bytes:
        mail = self.mails[uid]
        if "BODY.PEEK[]" not in items:
            return f"* {position} FETCH (UID {uid} RFC822.SIZE {len(mail)})\r\n".encode()
        part = mail[: int(items.partition("<0.")[2].partition(">")[0])]
        return f"* {position} FETCH (UID {uid} BODY[]<0> {{{len(part)}}}\r\n".encode() + part + b")\r\n"
