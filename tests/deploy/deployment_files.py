"""Parser of a Dockerfile."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PINNED = re.compile(
    r"(?P<name>[a-z]+):(?P<version>\d+\.\d+\.\d+)-(?P<variant>[\w.-]+)@sha256:(?P<digest>[0-9a-f]{64})"
)
"""An image reference with its patch release and its digest."""


@dataclass(frozen=True)
class Stage:
    """A stage's instructions after its FROM, as (instruction, arguments), with continuation lines joined."""

    name: str
    base: str
    steps: tuple[tuple[str, str], ...]

    def arguments(self, instruction: str) -> list[str]:
        return [rest for word, rest in self.steps if word == instruction]

    def environment(self) -> dict[str, str]:
        return dict(pair.split("=", 1) for line in self.arguments("ENV") for pair in shlex.split(line))


@dataclass(frozen=True)
class Image:
    """A parsed Dockerfile. `defaults`: build arguments before the first stage. The last stage is the final
    image."""

    defaults: dict[str, str]
    stages: tuple[Stage, ...]

    @property
    def last(self) -> Stage:
        return self.stages[-1]

    def base_of(self, stage: Stage) -> str:
        return self.defaults[stage.base[2:-1]] if stage.base.startswith("${") else stage.base


def read_dockerfile(text: str) -> Image:
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    steps = [line.partition(" ") for line in "\n".join(lines).replace("\\\n", " ").splitlines()]
    starts = [number for number, (word, _, _) in enumerate(steps) if word == "FROM"]
    defaults = dict(rest.split("=", 1) for word, _, rest in steps[: starts[0]] if word == "ARG")
    stages = []
    for start, end in zip(starts, [*starts[1:], len(steps)], strict=True):
        base, _, name = steps[start][2].partition(" AS ")
        stages.append(
            Stage(name, base.strip(), tuple((word, rest.strip()) for word, _, rest in steps[start + 1 : end]))
        )
    return Image(defaults, tuple(stages))
