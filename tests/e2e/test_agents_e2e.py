"""An agent's day with a running service: its hooks are answered, and its transcript becomes notes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from chat_server import Reply, chat_server
from running_service import SHOAL, Service, shoal
from waiting import DEADLINE_SECONDS, until

QUOTE = "no, deploy with make release, the script forgets the migrations"
LESSON = {
    "text": "Deploy this project with `make release`, because the script forgets the migrations.",
    "topic": "deployment",
    "friction": "correction",
    "scope": "anywhere",
    "confidence": 0.95,
    "quote": QUOTE,
}


def hook(service: Service, event: str, **fields: Any) -> Any:
    data = json.dumps({"session_id": "s1", "cwd": str(service.db.parent), **fields})
    command = [*SHOAL, "hook", event, "--db", str(service.db)]
    done = subprocess.run(command, input=data, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def status(service: Service) -> Any:
    return json.loads(shoal("note", "status", "--json", "--db", service.db).stdout)


def test_transcript_of_a_session_becomes_notes_for_the_next(tmp_path: Path) -> None:
    transcript = tmp_path / "session.jsonl"
    said = [{"role": "assistant", "content": "The tests pass. " * 700}, {"role": "user", "content": QUOTE}]
    transcript.write_text("".join(json.dumps(message) + "\n" for message in said))
    with chat_server(Reply({"lessons": [LESSON]})) as server:
        service = Service(tmp_path, SHOAL_LLM_URL=server.url, SHOAL_LLM_MODEL="small")
        try:
            address = Path(f"{service.db}.service")
            assert until(lambda: address.exists() and address.read_text().strip()) == service.url
            assert hook(service, "stop", transcript_path=str(transcript)) == {}
            until(lambda: status(service)["n_active"] == 1)
            until(lambda: status(service)["extraction"]["n_waiting"] == 0)
            shown = hook(service, "prompt", session_id="s2", prompt="How do I deploy this project?")
            assert "make release" in shown["hookSpecificOutput"]["additionalContext"]
            log = service.log.read_text()
            assert "/api/v1/hooks/stop" in log
            assert "/api/v1/hooks/prompt" in log
        finally:
            assert service.stop() == 0
        assert not address.exists()
    # Without the service, the database answers.
    assert hook(service, "prompt", session_id="s2", prompt="How do I deploy this project?") == {}
    shown = hook(service, "prompt", session_id="s3", prompt="How do I deploy this project?")
    assert "make release" in shown["hookSpecificOutput"]["additionalContext"]
