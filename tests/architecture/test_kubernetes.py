"""deploy/kubernetes: names that lead on, pods without rights, probes, budgets, workers by how many are useful."""

from __future__ import annotations

import re
import shutil
import subprocess
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.api import auth, server
from shoal.api.app import make_api
from shoal.core import address
from shoal.core.address import Network
from shoal.core.advice import HORIZON_S
from shoal.frontier.frontier import Frontier
from shoal.settings import SERVED_QUEUES, Settings
from shoal.wiring import Platform, no_ring, redis_urls
from tests.architecture.deployed import (
    BASE,
    KEDA,
    flags,
    kubernetes_services,
    manifests,
    of_kind,
    only_container,
    stages,
)
from tests.architecture.test_deploy import documented_metrics, run_promtool
from tests.conftest import lack
from tests.documents import REPOSITORY

SPECIAL = [(str(network), kind) for network, kind in (*address.KINDS_4, *address.KINDS_6)]
"""Networks that the guard knows, and what it calls them."""
USEFUL = "shoal_workers_useful"


def _deployments() -> dict[str, Any]:
    return {each["metadata"]["name"]: each for each in of_kind("Deployment")}


def _pod(deployment: Any) -> Any:
    return deployment["spec"]["template"]["spec"]


def _queues() -> dict[str, set[str]]:
    """Worker → what it serves."""
    return {each.name: set(each.settings.queue_names) for each in kubernetes_services() if each.is_worker}


def test_kustomizations_name_every_file() -> None:
    for folder in (BASE, KEDA):
        named = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
        files = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml", "secret.example.yaml"}
        assert {name for name in named if name.endswith(".yaml")} == files
        assert [name for name in named if not (folder / name).exists()] == []


def test_everything_is_in_the_namespace() -> None:
    (namespace,) = of_kind("Namespace")
    others = [each for each in manifests(BASE, KEDA) if each["kind"] != "Namespace"]
    assert {each["metadata"]["namespace"] for each in others} == {namespace["metadata"]["name"]}


def test_the_secret_has_no_values_and_is_not_applied() -> None:
    (secret,) = of_kind("Secret")
    assert "data" not in secret
    assert set(secret["stringData"].values()) == {""}
    assert "secret.example.yaml" not in (BASE / "kustomization.yaml").read_text(encoding="utf-8")


def test_what_pods_refer_to_is_there() -> None:
    names = {(each["kind"], each["metadata"]["name"]) for each in manifests(BASE)}
    for name, each in _deployments().items():
        for source in only_container(each)["envFrom"]:
            kind = "ConfigMap" if "configMapRef" in source else "Secret"
            assert (kind, next(iter(source.values()))["name"]) in names, name
        volumes = {volume["name"]: volume for volume in _pod(each)["volumes"]}
        assert {mount["name"] for mount in only_container(each)["volumeMounts"]} == set(volumes)


def test_the_archive_is_where_all_can_reach_it() -> None:
    """A pod keeps only what it is writing, with room for several segments."""
    assert {each.settings.archive_url for each in kubernetes_services()} == {"s3://shoal-archive/"}
    for name, each in _deployments().items():
        volumes = {volume["name"]: volume for volume in _pod(each)["volumes"]}
        assert volumes["archive"]["emptyDir"] == {"sizeLimit": "4Gi"}, name


def test_selectors_find_their_pods() -> None:
    labels = {name: each["spec"]["template"]["metadata"]["labels"] for name, each in _deployments().items()}
    for name, each in _deployments().items():
        assert each["spec"]["selector"]["matchLabels"].items() <= labels[name].items()
    (service,) = of_kind("Service")
    assert service["spec"]["selector"].items() <= labels["api"].items()
    for policy in of_kind("NetworkPolicy"):
        wanted = policy["spec"]["podSelector"].get("matchLabels", {}).items()
        assert any(wanted <= each.items() for each in labels.values()), policy["metadata"]["name"]


def test_containers_have_no_rights() -> None:
    users = {step.text for image in ("slim", "browser") for step in stages()[image] if step.word == "USER"}
    for name, each in _deployments().items():
        pod, container = _pod(each)["securityContext"], only_container(each)["securityContext"]
        assert pod["runAsNonRoot"] is True, name
        assert {f"{pod['runAsUser']}:{pod['runAsGroup']}"} == users
        assert container["readOnlyRootFilesystem"] is True
        assert container["allowPrivilegeEscalation"] is False
        assert container["capabilities"] == {"drop": ["ALL"]}
        assert _pod(each)["automountServiceAccountToken"] is False
        assert ("seccompProfile" in pod) == (name != "worker-browser")
        assert set(only_container(each)["resources"]) == {"requests", "limits"}


def test_the_database_is_upgraded_before_the_housekeeping_starts_by_who_has_no_rights_either() -> None:
    pods = {name: _pod(each) for name, each in _deployments().items()}
    first = {name: pod["initContainers"] for name, pod in pods.items() if "initContainers" in pod}
    assert set(first) == {"control"}
    ((upgrade,), main) = first["control"], only_container(_deployments()["control"])
    flags(tuple(upgrade["args"]))
    assert upgrade["args"] == ["db", "upgrade"]
    assert {name: upgrade[name] for name in ("image", "envFrom", "securityContext")} == {
        name: main[name] for name in ("image", "envFrom", "securityContext")
    }
    assert set(upgrade["resources"]) == {"requests", "limits"}
    volumes = {volume["name"] for volume in pods["control"]["volumes"]}
    assert {mount["name"] for mount in upgrade["volumeMounts"]} <= volumes


def test_those_that_render_have_a_browser_and_all_workers_somebody_who_buries() -> None:
    for name, queues in _queues().items():
        renders = any(queue.startswith("browser.") for queue in queues)
        image = only_container(_deployments()[name])["image"]
        assert image == ("shoal:browser" if renders else "shoal:slim")
        assert _pod(_deployments()[name])["shareProcessNamespace"] is True
    (named,) = yaml.safe_load((BASE / "kustomization.yaml").read_text(encoding="utf-8"))["images"]
    assert named["name"] == "shoal"


def _open_paths(home: Path) -> set[str]:
    """What the API answers without a key."""
    settings = Settings(home=home, redis_url="redis://127.0.0.1:1")
    platform = Platform.open(settings, Frontier.at(redis_urls(settings).frontier), no_ring)
    try:
        return {rule.rule for rule in make_api(platform).url_map.iter_rules() if rule.endpoint in auth.OPEN}
    finally:
        platform.close()


def test_probes_ask_what_the_api_answers_without_a_key(tmp_path: Path) -> None:
    container = only_container(_deployments()["api"])
    (port,) = container["ports"]
    probes = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert {probe["path"] for probe in probes.values()} <= _open_paths(tmp_path)
    assert {probe["port"] for probe in probes.values()} == {port["name"]}
    assert probes["liveness"]["path"] != probes["readiness"]["path"]  # a store that is away is no reason to start anew


def test_ports_are_the_apis() -> None:
    (api,) = (each for each in kubernetes_services() if each.name == "api")
    container = only_container(_deployments()["api"])
    (service,) = of_kind("Service")
    (opened,) = (each for each in of_kind("NetworkPolicy") if each["spec"].get("ingress"))
    assert api.settings.api_host == "0.0.0.0"
    assert container["ports"] == [{"name": "http", "containerPort": api.settings.api_port}]
    assert service["spec"]["ports"] == [{"name": "http", "port": api.settings.api_port, "targetPort": "http"}]
    assert [port["port"] for rule in opened["spec"]["ingress"] for port in rule["ports"]] == [api.settings.api_port]


def test_an_api_has_time_for_its_last_requests_after_nobody_is_sent_there() -> None:
    api = _deployments()["api"]
    _, wait_s = only_container(api)["lifecycle"]["preStop"]["exec"]["command"]
    assert _pod(api)["terminationGracePeriodSeconds"] >= float(wait_s) + server.GRACE_S + 5


def test_every_deployment_has_a_budget_that_lets_somebody_go() -> None:
    budgets = {each["metadata"]["name"]: each["spec"] for each in of_kind("PodDisruptionBudget")}
    assert set(budgets) == set(_deployments())
    for name, each in _deployments().items():
        assert budgets[name]["selector"] == each["spec"]["selector"]
        assert each["spec"]["replicas"] > budgets[name].get("minAvailable", 0), name


def _ways(policy: Any) -> list[Any]:
    """Where a policy lets its pods go, on any port or on some."""
    return [each["ipBlock"] for rule in policy["spec"].get("egress", []) for each in rule.get("to", [])]


def _lets(ways: list[Any], network: str) -> bool:
    """Does any of them lead there?"""
    wanted = ip_network(network)
    return any(
        _is_within(wanted, way["cidr"]) and not any(_is_within(wanted, each) for each in way["except"]) for way in ways
    )


def _is_within(one: Network, other: str) -> bool:
    return one.version == ip_network(other).version and one.subnet_of(ip_network(other))  # pyright: ignore[reportArgumentType]


def _nat64(network: str) -> str:
    """As one without IPv4 reaches it."""
    read = ip_network(network)
    start = ip_network("64:ff9b::/96").network_address
    return f"{start + int(read.network_address)}/{96 + read.prefixlen}"


def test_every_way_out_is_for_both_families_and_what_it_leaves_out_is_in_it() -> None:
    """What is no part of its network, Kubernetes refuses."""
    policies = [policy for policy in of_kind("NetworkPolicy") if _ways(policy)]
    assert len(policies) == 3
    for policy in policies:
        assert [way["cidr"] for way in _ways(policy)] == ["0.0.0.0/0", "::/0"]
        for way in _ways(policy):
            assert all(_is_within(ip_network(each), way["cidr"]) for each in way["except"])


def test_no_pod_reaches_metadata_services() -> None:
    ways = [way for policy in of_kind("NetworkPolicy") for way in _ways(policy)]
    networks = [network for network, kind in SPECIAL if kind in (address.METADATA, "link-local")]
    assert {ip_network(network).version for network in networks} == {4, 6}
    assert [network for network in networks if _lets(ways, network)] == []


def test_the_web_is_for_those_who_fetch_and_deliver() -> None:
    (web,) = (each for each in of_kind("NetworkPolicy") if each["metadata"]["name"] == "to-the-web")
    wanted = web["spec"]["podSelector"]["matchLabels"].items()
    let = {n for n, d in _deployments().items() if wanted <= d["spec"]["template"]["metadata"]["labels"].items()}
    assert let == set(_queues())


def test_the_web_is_what_the_guard_calls_so_and_no_private_network_of_either_family() -> None:
    (web,) = (each for each in of_kind("NetworkPolicy") if each["metadata"]["name"] == "to-the-web")
    closed = [network for network, kind in SPECIAL if kind != "documentation"]
    closed += [_nat64(network) for network in closed if ip_network(network).version == 4]
    assert [network for network in closed if _lets(_ways(web), network)] == []
    for public in ("93.184.216.34/32", "2606:2800:220:1::1/128", _nat64("93.184.216.34/32")):
        assert _lets(_ways(web), public)


# --- as many as there is work for -----------------------------------------------------------------------------------


def _scaled() -> dict[str, Any]:
    return {each["spec"]["scaleTargetRef"]["name"]: each["spec"] for each in of_kind("ScaledObject")}


def _query(scaled: Any) -> str:
    (trigger,) = scaled["triggers"]
    return trigger["metadata"]["query"]


def test_whoever_is_scaled_is_there_and_has_no_number_of_its_own() -> None:
    (patch,) = yaml.safe_load((KEDA / "kustomization.yaml").read_text(encoding="utf-8"))["patches"]
    freed = {name for name in _deployments() if re.fullmatch(patch["target"]["name"], name)}
    assert freed == set(_scaled())
    for name, scaled in _scaled().items():
        assert scaled["minReplicaCount"] < scaled["maxReplicaCount"], name


def test_workers_are_scaled_by_metrics_that_there_are_and_by_the_queues_that_they_serve() -> None:
    for name, scaled in _scaled().items():
        query = _query(scaled)
        assert set(re.findall(r"\bshoal_\w+", query)) == {USEFUL}
        assert documented_metrics() >= {USEFUL}
        (pattern,) = re.findall(r'queue=~"([^"]+)"', query)
        assert {queue for queue in SERVED_QUEUES if re.fullmatch(pattern, queue)} == _queues()[name]


def test_a_pod_counts_for_as_many_as_it_has_processes() -> None:
    processes = {each.name: each.settings.processes for each in kubernetes_services() if each.is_worker}
    for name, scaled in _scaled().items():
        (trigger,) = scaled["triggers"]
        assert int(trigger["metadata"]["threshold"]) == processes[name], name


def test_pods_come_more_slowly_than_workers_tell_what_they_do_and_go_more_slowly_than_they_come() -> None:
    for name, scaled in _scaled().items():
        behavior = scaled["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
        up, down = behavior["scaleUp"], behavior["scaleDown"]
        assert up["stabilizationWindowSeconds"] >= 2 * scaled["pollingInterval"], name
        assert all(policy["periodSeconds"] >= HORIZON_S for policy in up["policies"])
        assert down["stabilizationWindowSeconds"] > up["stabilizationWindowSeconds"]


def test_prometheus_adds_up_what_the_queues_of_a_worker_need(tmp_path: Path) -> None:
    """Two APIs tell the same: a half more than the number of the queue. None tells anything at first."""
    rules: list[dict[str, str]] = []
    checks: list[dict[str, object]] = []
    needs = {queue: number + 0.5 for number, queue in enumerate(SERVED_QUEUES)}
    for name, scaled in _scaled().items():
        rules.append({"record": name.replace("-", ":"), "expr": _query(scaled)})
        needed = sum(needs[queue] for queue in _queues()[name])
        checks += [_check(name, "0m", 0.0), _check(name, "5m", needed)]
    series = [
        {"series": f'{USEFUL}{{queue="{queue}",instance="{api}"}}', "values": f"_ {need}x10"}
        for queue, need in needs.items()
        for api in "ab"
    ]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "scale", "rules": rules}]}))
    case = {"interval": "1m", "input_series": series, "promql_expr_test": checks}
    (tmp_path / "case.yml").write_text(yaml.safe_dump({"rule_files": ["rules.yml"], "tests": [case]}))
    run_promtool("test", "rules", tmp_path / "case.yml")


def _check(name: str, at: str, value: float) -> dict[str, object]:
    record = name.replace("-", ":")
    sample = {"labels": f'{{__name__="{record}"}}', "value": value}
    return {"expr": record, "eval_time": at, "exp_samples": [sample]}


@pytest.mark.parametrize("folder", [BASE, KEDA], ids=lambda folder: folder.name)
def test_kustomize_puts_it_together(folder: Path) -> None:
    kubectl = shutil.which("kubectl") or lack("kubectl is not on the PATH, and puts the manifests together")
    done = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    made = [each for each in yaml.safe_load_all(done.stdout) if each["kind"] == "Deployment"]
    assert {each["metadata"]["name"] for each in made} == set(_deployments())
    free = {each["metadata"]["name"] for each in made if "replicas" not in each["spec"]}
    assert free == (set(_scaled()) if folder == KEDA else set())
    assert REPOSITORY in folder.parents
