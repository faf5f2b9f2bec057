"""What `deploy/` brings along: alert rules and a dashboard about metrics that there are, each rule tried on series."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import lack
from tests.documents import REPOSITORY, plain, table

METRICS = "docs/guides/metrics.md"
DEPLOY = REPOSITORY / "deploy"
RULES, CASES = DEPLOY / "prometheus" / "rules.yml", DEPLOY / "prometheus" / "rules.test.yml"
DASHBOARD = DEPLOY / "grafana" / "shoal.json"


def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _rules() -> dict[str, str]:
    """Alert → its expression."""
    return {rule["alert"]: rule["expr"] for group in _read(RULES)["groups"] for rule in group["rules"]}


def _drawn() -> list[str]:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def documented_metrics() -> set[str]:
    return {plain(name) for name, *_ in table(METRICS, "metric", "type")}


def _used(expression: str) -> set[str]:
    return {re.sub(r"_bucket$", "", name) for name in re.findall(r"\bshoal_\w+", expression)}


def _promtool() -> str:
    found = shutil.which("promtool") or shutil.which("promtool", path=str(Path(sys.prefix) / "tools"))
    return found or lack("there is no promtool (scripts/get-services gets it on Debian)")


def run_promtool(*args: str | Path) -> None:
    done = subprocess.run([_promtool(), *args], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_and_dashboard_use_metrics_that_the_guide_names() -> None:
    used = {name for expression in (*_rules().values(), *_drawn()) for name in _used(expression)}
    assert used - documented_metrics() == set()


def test_series_of_the_rules_tests_are_metrics_that_the_guide_names() -> None:
    series = [each["series"] for case in _read(CASES)["tests"] for each in case["input_series"]]
    assert {name for text in series for name in _used(text)} - documented_metrics() == set()


def test_the_dashboard_shows_every_metric() -> None:
    assert documented_metrics() - {name for expression in _drawn() for name in _used(expression)} == set()


def test_the_guide_has_every_alert() -> None:
    assert [plain(name) for name, *_ in table(METRICS, "alert", "says")] == list(_rules())


def test_every_alert_is_tried_where_it_fires_and_where_it_must_not() -> None:
    tried = [each for case in _read(CASES)["tests"] for each in case["alert_rule_test"]]
    assert {each["alertname"] for each in tried if each.get("exp_alerts")} == set(_rules())
    assert {each["alertname"] for each in tried if not each.get("exp_alerts")} == set(_rules())


def test_every_alert_fires_when_it_must_and_only_then() -> None:
    run_promtool("test", "rules", CASES)


def test_prometheus_takes_its_configuration() -> None:
    run_promtool("check", "config", DEPLOY / "prometheus" / "prometheus.yml")


def test_prometheus_takes_the_one_of_compose() -> None:
    run_promtool("check", "config", "--syntax-only", DEPLOY / "compose" / "prometheus.yml")


def test_prometheus_understands_what_the_dashboard_asks(tmp_path: Path) -> None:
    queries = [expression.replace("$__rate_interval", "5m") for expression in _drawn()]
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
    (tmp_path / "queries.yml").write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    run_promtool("check", "rules", tmp_path / "queries.yml")
