"""The files for several machines agree with the code: compose profile, Kubernetes, alarms and dashboard.

No container engine and no cluster is needed. Kubernetes' fields are checked with a schema of all fields
(`kubernetes_schema.py`), which refuses those that do not exist.
"""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from deployment_files import ROOT

from shoal.cli.app import run
from shoal.settings import describe
from shoal_api.server import STOP_SECONDS

DEPLOY = ROOT / "deploy"
CLUSTER = DEPLOY / "compose" / "cluster.yml"
MANIFESTS = sorted(
    path for path in (DEPLOY / "kubernetes").glob("*.yaml") if path.name != "kustomization.yaml"
)
RELEASE = re.compile(r"[a-z/]+:v?\d+\.\d+(\.\d+)?(-[a-z]+)?")
METRIC = re.compile(r"\bshoal_[a-z_]+")


def _interpolate(text: str) -> str:
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


@pytest.fixture(scope="module")
def cluster() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(_interpolate(CLUSTER.read_text()))
    return loaded


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads((ROOT / "tests" / "deploy" / "kubernetes.schema.json").read_text())
    return jsonschema.Draft202012Validator(schema)


def manifests() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in MANIFESTS:
        for document in yaml.safe_load_all(path.read_text()):
            yield path.name, document


def manifest(kind: str, name: str) -> dict[str, Any]:
    return next(d for _, d in manifests() if (d["kind"], d["metadata"]["name"]) == (kind, name))


def pods() -> list[dict[str, Any]]:
    return [
        document["spec"]["template"]["spec"]
        for _, document in manifests()
        if "template" in document.get("spec", {})
    ]


def known_settings() -> set[str]:
    return {setting["name"] for setting in describe()}


def known_metrics() -> set[str]:
    names = set(
        re.findall(r"^\| `(shoal_\w+)` \| (\w+)", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE)
    )
    return {name for name, _ in names} | {
        f"{name}_{part}" for name, kind in names if kind == "histogram" for part in ("bucket", "sum", "count")
    }


def test_compose_files_match_the_specification() -> None:
    pytest.importorskip("check_jsonschema", reason="check-jsonschema contains the schema of compose files")
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*check, str(CLUSTER)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    included = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["include"]
    assert included == [{"path": str(CLUSTER.relative_to(ROOT)), "project_directory": "."}]


def test_services_of_the_profile_have_least_privilege(cluster: dict[str, Any]) -> None:
    internal = {name for name, network in cluster["networks"].items() if network and network.get("internal")}
    for name, service in cluster["services"].items():
        assert service["profiles"] == ["cluster"], name
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service.get("user", "unset") not in {"root", "0", "0:0"}, name
        assert "build" in service or "user" in service, name
        assert "build" in service or RELEASE.fullmatch(service["image"]), f"{name} has no release"
        if "ports" not in service:
            assert set(service["networks"]) <= internal, name
    published = {n: s["ports"] for n, s in cluster["services"].items() if "ports" in s}
    assert published.keys() == {"cluster-proxy", "grafana"}
    assert all(re.match(r"127\.0\.0\.1:", port) for ports in published.values() for port in ports)


def test_services_of_the_profile_start_with_one_name(cluster: dict[str, Any]) -> None:
    reached, queue = set(), ["grafana"]
    while queue:
        name = queue.pop()
        reached.add(name)
        queue += [other for other in cluster["services"][name].get("depends_on", {}) if other not in reached]
    assert reached == set(cluster["services"])
    assert "up --build --detach grafana" in CLUSTER.read_text()


def test_files_that_are_mounted_exist(cluster: dict[str, Any]) -> None:
    mounts = [volume for service in cluster["services"].values() for volume in service.get("volumes", [])]
    sources = {mount.split(":")[0] for mount in mounts}
    assert {source for source in sources if source.startswith(".") and not (ROOT / source).exists()} == set()
    assert {source for source in sources if not source.startswith(".")} == set(cluster["volumes"])


def test_commands_and_variables_of_services_are_known(
    cluster: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    services = [service for service in cluster["services"].values() if "build" in service]
    assert len(services) == 4
    for service in services:
        assert {name for name in service["environment"] if name.startswith("SHOAL_")} <= known_settings()
        assert service["command"][0] == "shoal"
        assert run([*service["command"][1:], "--help"]) == 0, capsys.readouterr().err
    keys = {service["environment"]["SHOAL_BROKER_URL"].split("@")[1] for service in services}
    assert keys == {"cluster-rabbitmq:5672/shoal"}


@pytest.mark.parametrize("name", sorted(path.name for path in MANIFESTS))
def test_manifests_match_the_schema_of_kubernetes(
    name: str, validator: jsonschema.Draft202012Validator
) -> None:
    for file, document in manifests():
        if file == name:
            found = [f"{list(e.absolute_path)}: {e.message[:300]}" for e in validator.iter_errors(document)]
            assert found == [], document["kind"]


def _rename(parent: dict[str, Any], old: str, new: str) -> None:
    parent[new] = parent.pop(old)


@pytest.mark.parametrize(
    ("kind", "name", "damage"),
    [
        ("StatefulSet", "shoal-api", lambda m: _rename(_container(m)["ports"][0], "containerPort", "port")),
        ("StatefulSet", "shoal-api", lambda m: _rename(_container(m), "readinessProbe", "readyProbe")),
        ("StatefulSet", "shoal-api", lambda m: m["spec"].pop("selector")),
        ("Deployment", "shoal-worker", lambda m: _container(m).update(command="shoal worker")),
        ("HorizontalPodAutoscaler", "shoal-api", lambda m: m["spec"].update(maxReplicas="ten")),
        ("ScaledObject", "shoal-worker", lambda m: m["spec"]["triggers"][0]["metadata"].update(threshold=60)),
        ("NetworkPolicy", "shoal", lambda m: _rename(m["spec"], "egress", "outgoing")),
        ("Job", "shoal-migrate", lambda m: m.update(apiVersion="batch/v2")),
    ],
)
def test_wrong_field_of_a_manifest_is_found(
    kind: str,
    name: str,
    damage: Callable[[dict[str, Any]], object],
    validator: jsonschema.Draft202012Validator,
) -> None:
    damaged = copy.deepcopy(manifest(kind, name))
    assert validator.is_valid(damaged)
    damage(damaged)
    assert not validator.is_valid(damaged)


def _container(document: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = document["spec"]["template"]["spec"]["containers"][0]
    return container


def test_pods_fulfil_the_restricted_standard() -> None:
    assert len(pods()) == 3
    for pod in pods():
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 10001, "the user of the image"
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert {"memory"} <= container["resources"]["limits"].keys()
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            assert mounted == {"data", "tmp"}


def test_commands_probes_and_variables_of_pods_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    for pod in pods():
        (container,) = pod["containers"]
        program, *arguments = container["command"]
        assert program == "shoal"
        assert run([*arguments, "--help"]) == 0, capsys.readouterr().err
    api, worker = (
        _container(manifest("StatefulSet", "shoal-api")),
        _container(manifest("Deployment", "shoal-worker")),
    )
    assert api["livenessProbe"]["httpGet"]["path"] == "/health"
    assert api["readinessProbe"]["httpGet"]["path"] == "/ready"
    assert worker["livenessProbe"]["exec"]["command"] == ["python", "-P", "-m", "shoal_worker.health"]
    variables = {*manifest("ConfigMap", "shoal")["data"], *manifest("Secret", "shoal")["stringData"]}
    assert variables <= known_settings()
    port = int(manifest("ConfigMap", "shoal")["data"]["SHOAL_PORT"])
    assert [entry["containerPort"] for entry in api["ports"]] == [port]
    grace = manifest("StatefulSet", "shoal-api")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > STOP_SECONDS


def test_selectors_find_their_pods() -> None:
    labels = [
        d["spec"]["template"]["metadata"]["labels"] for _, d in manifests() if "template" in d.get("spec", {})
    ]
    selectors = [d["spec"]["selector"] for _, d in manifests() if d["kind"] == "Service"]
    selectors += [
        d["spec"]["selector"]["matchLabels"] for _, d in manifests() if d["kind"] == "PodDisruptionBudget"
    ]
    selectors += [
        d["spec"]["podSelector"]["matchLabels"] for _, d in manifests() if d["kind"] == "NetworkPolicy"
    ]
    assert len(selectors) == 6
    for selector in selectors:
        assert any(selector.items() <= found.items() for found in labels), selector
    scaled = {
        d["spec"]["scaleTargetRef"]["name"] for _, d in manifests() if "scaleTargetRef" in d.get("spec", {})
    }
    assert scaled == {"shoal-api", "shoal-worker"}


def test_kustomization_has_every_manifest_but_the_example() -> None:
    listed = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == [path.name for path in MANIFESTS if path.name != "secret.example.yaml"]
    if shutil.which("kubectl"):
        built = subprocess.run(
            ["kubectl", "kustomize", str(DEPLOY / "kubernetes")], capture_output=True, text=True
        )
        assert built.returncode == 0, built.stderr
        assert "image: registry.example/shoal:" in built.stdout


def expressions(path: Path) -> list[str]:
    """The PromQL expressions of the dashboard, the alarms or the autoscaler."""
    loaded = yaml.safe_load(path.read_text())
    if path.suffix == ".json":
        return [target["expr"] for panel in loaded["panels"] for target in panel.get("targets", [])]
    if "groups" in loaded:
        return [rule["expr"] for group in loaded["groups"] for rule in group["rules"]]
    raise AssertionError(path)


DASHBOARD = DEPLOY / "grafana" / "dashboards" / "shoal.json"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"


def test_every_metric_in_use_exists() -> None:
    triggers = manifest("ScaledObject", "shoal-worker")["spec"]["triggers"]
    queries = [trigger["metadata"]["query"] for trigger in triggers]
    for expression in [*expressions(DASHBOARD), *expressions(ALERTS), *queries]:
        assert set(METRIC.findall(expression)) <= known_metrics(), expression
        assert expression.count("(") == expression.count(")"), expression


def test_alerts_say_what_to_do() -> None:
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}, rule["alert"]
        assert rule["labels"].keys() == {"severity"}, rule["alert"]
        assert rule["annotations"].keys() == {"summary", "action"}, rule["alert"]


def test_dashboard_is_provisioned_and_its_panels_do_not_overlap() -> None:
    source = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yml").read_text())
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert {panel["datasource"]["uid"] for panel in panels if "datasource" in panel} == {
        source["datasources"][0]["uid"]
    }
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
