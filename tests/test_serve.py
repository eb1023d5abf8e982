"""``otel-drift serve`` as a process: what it does with sessions, and what happens when something around it fails."""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from alert_receiver import alert_receiver
from drift_cases import drifting
from model_server import ModelServer, Reply
from otel_drift.ledger import Ledger
from otel_drift.testing import conversation
from service_process import MODEL, QUICK, Serving, asked_by, judged_by, serving, wait_until

JSONL = '\n[output]\nsinks = ["jsonl:findings.jsonl"]\n'
SECRET = "whsec_" + "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"


def written(service: Serving) -> list[dict[str, Any]]:
    file = service.folder / "findings.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def standing(service: Serving, session: str, name: str) -> str | None:
    """The value that stands for a session's answer."""
    values = [one for one in written(service) if one["session_id"] == session and one["name"] == name]
    return None if not values or values[-1]["withdrawn"] else values[-1]["label"]


def settled(service: Serving) -> bool:
    told = service.status()
    return told["sessions"]["open"] == 0 and not any(one.get("owed") for one in told["sinks"].values())


def test_a_session_is_audited_once_settled_and_again_when_more_of_it_comes(tmp_path: Path) -> None:
    """The new result replaces the old: the answer that contradicted was regenerated, so the finding is withdrawn."""
    with serving(tmp_path, QUICK + JSONL) as service:
        spans = conversation("s1", ends=time.time_ns())
        assert service.send(spans[:6]).status_code == 200
        wait_until(lambda: settled(service), "two turns are audited")
        assert standing(service, "s1", "factual_drift.contradiction") is None

        assert service.send(spans[6:]).status_code == 200
        wait_until(lambda: standing(service, "s1", "factual_drift.contradiction") == "MAJOR", "the third turn counts")
        again = service.send(spans)
        assert again.status_code == 200, "a sender that repeats itself does no harm"
        wait_until(lambda: settled(service), "nothing is left to do")
        told = service.status()

        assert told["problems"] == []
        assert told["kept"]["spans"] >= len(spans)
        assert service.get("/healthz").status_code == service.get("/readyz").status_code == 200
        metrics = service.get("/metrics").text
        assert 'otel_drift_findings_total{severity="MAJOR",type="CONTRADICTION"} 1.0' in metrics
        assert service.stop() == 0
    assert service.status()["processes"][0]["state"] == "stopped"
    keys = [(one["otel_drift.result.id"], one["revision"]) for one in written(service)]
    assert len(keys) == len(set(keys))
    assert "jacket" not in service.log.read_text()


def test_a_judge_that_is_down_throughout_delays_and_loses_nothing(tmp_path: Path) -> None:
    """Received all the while; audited once it is there; the first critical finding reaches the webhook, signed."""
    with ModelServer([Reply(status=500)]) as model, alert_receiver() as hook:
        config = QUICK + JSONL + judged_by(model) + f'\n[alerts]\nto = ["webhook:{hook.url}"]\ngroup_seconds = 0\n'
        with serving(tmp_path, config, {**MODEL, "OTEL_DRIFT_WEBHOOK_SECRET": SECRET}) as service:
            service.send(conversation("s1", ends=time.time_ns()))
            wait_until(lambda: service.status()["sessions"]["put_off"].get("judge") == 1, "it is put off", 60)
            assert service.send(conversation("s2", ends=time.time_ns())).status_code == 200
            assert [one for one in written(service) if one["name"] == "factual_drift"] == []
            model.script = [Reply(drifting())]  # it is back
            service.kill()
            service.start()
            wait_until(lambda: standing(service, "s1", "drift_severity") == "CRITICAL", "s1 is audited", 120)
            wait_until(lambda: standing(service, "s2", "drift_severity") == "CRITICAL", "s2 is audited", 120)
            wait_until(lambda: len(hook.taken) >= 1, "the alert is told", 60)
            assert service.stop() == 0
    alerts = [alert for posted in hook.taken for alert in posted.json["data"]["alerts"]]
    assert {alert["session_id"] for alert in alerts} == {"s1", "s2"}
    assert {alert["severity"] for alert in alerts} == {"CRITICAL"}
    assert all(posted.headers["webhook-signature"].startswith("v1,") for posted in hook.taken)
    assert "jacket" not in json.dumps(alerts), "no text leaves with an alert"


def test_a_sink_that_is_down_stops_no_other(tmp_path: Path) -> None:
    sinks = '\n[output]\nsinks = ["phoenix:http://127.0.0.1:9?project=shop", "jsonl:findings.jsonl"]\n'
    with serving(tmp_path, QUICK + sinks) as service:
        service.send(conversation("s1", ends=time.time_ns()))
        wait_until(lambda: standing(service, "s1", "drift_severity") == "MAJOR", "the other sink has it", 60)
        told = service.status()
        assert told["sinks"]["phoenix:http://127.0.0.1:9?project=shop"]["owed"] > 0
        wait_until(lambda: any("127.0.0.1:9" in one for one in service.status()["problems"]), "status says so", 60)
        assert service.get("/readyz").status_code == 200, "it can take work in all the same"
        assert service.stop() == 0


def test_a_disk_quota_refuses_and_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """The file of the database cannot grow: senders are told to wait, and the service goes on once it can."""
    service = Serving(tmp_path, QUICK + JSONL)
    service.start()
    service.stop()
    size = (tmp_path / "ledger.db").stat().st_size
    service.preexec = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size + 400_000, resource.RLIM_INFINITY))
    service.start()
    acknowledged, refused = set(), 0
    for number in range(60):
        padding = {"padding": "".join(chr(33 + (number * 7 + place * place) % 90) for place in range(20_000))}
        spans = conversation(f"s{number}", ends=time.time_ns(), attributes=padding)
        answer = service.send(spans)
        if answer.status_code == 200:
            acknowledged |= {span.span_id for span in spans}
        else:
            refused += 1
            assert answer.status_code in (429, 503), answer.text
            assert int(answer.headers["retry-after"]) > 0
        if refused > 3:
            break
    assert refused > 3
    assert acknowledged
    assert service.get("/healthz").status_code == 200
    wait_until(lambda: service.get("/readyz").status_code == 503, "readiness says so", 60)
    service.stop()

    service.preexec = None
    service.start()
    wait_until(lambda: settled(service), "what was acknowledged is audited", 90)
    service.stop()
    from test_serve_kill import stored

    assert stored(tmp_path / "ledger.db") == acknowledged


def test_what_a_stop_finds_under_way_is_finished_or_handed_back(tmp_path: Path) -> None:
    """A slow judge: SIGTERM while it thinks; the next start goes on without asking again what was answered."""
    with ModelServer([Reply(drifting(), delay=3)]) as model:
        with serving(tmp_path, QUICK + JSONL + judged_by(model), MODEL) as service:
            for number in range(6):
                service.send(conversation(f"s{number}", turns=asked_by(number), ends=time.time_ns()))
            wait_until(lambda: len(model.requests) >= 1, "the judge is asked", 60)
            assert service.stop() == 0
            asked = len(model.requests)
            assert service.status()["sessions"]["held"] == 0
            model.script = [Reply(drifting())]
            service.start()
            wait_until(lambda: settled(service), "all are audited", 90)
            service.stop()
        assert asked < 6
        assert len(model.requests) == 6, "what was being judged was finished, and nothing is asked again"
    assert {one["session_id"] for one in written(service) if one["name"] == "drift_severity"} >= {
        f"s{number}" for number in range(6)
    }


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ('[serve]\nhttp = ""\ngrpc = ""\n', "names nothing to receive or follow"),
        ('[serve]\nhttp = "0.0.0.0:0"\n', "OTEL_DRIFT_SERVE_TOKEN"),
        ('[serve]\nhttp = "127.0.0.1:4100"\ngrpc = "127.0.0.1:4100"\n', "each needs a port of its own"),
        ('[serve]\nfollow = ["traces/"]\n', "name a platform"),
        ('[serve]\nfollow = ["nowhere:http://x"]\n', "no source called 'nowhere'"),
        ('[alerts]\nto = ["pager:x"]\n', "no alerter called 'pager'"),
        ("[budget]\nhigh_risk = ['whim']\n", "whim: use feedback"),
        ('[serve]\ntls_certificate = "no.pem"\ntls_key = "no.key"\n', "no.pem"),
        ('[telemetry]\nlog_format = "xml"\n', "telemetry.log_format"),
    ],
)
def test_what_is_wrong_with_the_settings_is_said_before_anything_starts(tmp_path: Path, config: str, said: str) -> None:
    service = Serving(tmp_path, config)
    done = service.command("serve", "--config", "otel-drift.toml", "--check")
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_check_says_all_that_is_wrong_and_makes_nothing(tmp_path: Path) -> None:
    config = """
        [judge]
        api_base = "http://127.0.0.1:9/v1"
        [serve]
        http = "0.0.0.0:0"
        follow = ["nowhere:http://x", "phoenix:http://127.0.0.1:9?project=shop"]
        [output]
        sinks = ["jsonl:no/such/folder.jsonl", "papyrus:x"]
        [alerts]
        to = ["pager:x"]
        [actions]
        longform = ["horn:x"]
        [privacy]
        redact = ["faces"]
    """
    service = Serving(tmp_path, config)
    before = sorted(tmp_path.iterdir())
    done = service.command("serve", "--config", "otel-drift.toml", "--check")

    assert done.returncode == 2
    wrong = [
        "OTEL_DRIFT_SERVE_TOKEN", "judge.model", "'nowhere'", "no/such/folder.jsonl", "'papyrus'", "'pager'", "'horn'",
        "faces",
    ]  # fmt: skip
    assert [sum(one in line for line in done.stderr.splitlines()) for one in wrong] == [1] * len(wrong), done.stderr
    assert sorted(tmp_path.iterdir()) == before
    (tmp_path / "ledger.db").write_text("of another program, for sure")
    done = service.command("serve", "--config", "otel-drift.toml", "--check")
    assert "is not a SQLite database" in done.stderr
    assert "'horn'" in done.stderr
    assert (tmp_path / "ledger.db").read_text() == "of another program, for sure"


def test_check_leaves_the_ledger_as_it_is(tmp_path: Path) -> None:
    """It enters no alerter, from which on findings would be told, and updates nothing."""
    config = (
        QUICK + JSONL + '\n[alerts]\nto = ["alertmanager:http://127.0.0.1:9"]\nembedded = true\nseverity = "major"\n'
    )
    service = Serving(tmp_path, config)
    assert service.command("serve", "--config", "otel-drift.toml", "--check").returncode == 0
    assert not (tmp_path / "ledger.db").exists()
    with Ledger.open(tmp_path / "ledger.db") as ledger, ledger.database.writing() as connection:
        connection.execute(sa.text("DROP INDEX otel_drift_delivery_settled"))
        connection.execute(sa.text("UPDATE otel_drift_version SET version_num = '0004'"))
    before = (tmp_path / "ledger.db").read_bytes()
    names = sorted(tmp_path.iterdir())

    done = service.command("serve", "--config", "otel-drift.toml", "--check")

    assert done.returncode == 0, done.stderr
    assert "is of an earlier version" in done.stderr
    assert (tmp_path / "ledger.db").read_bytes() == before
    assert sorted(tmp_path.iterdir()) == names


def test_check_says_that_the_settings_are_in_order_also_beside_a_running_service(tmp_path: Path) -> None:
    with serving(tmp_path, QUICK + JSONL) as service:
        done = service.command("serve", "--config", "otel-drift.toml", "--check")
        assert (done.returncode, done.stderr) == (0, "otel-drift: the settings are in order\n")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (QUICK, "written nowhere"),
        (QUICK + JSONL + '\n[alerts]\nto = ["alertmanager:http://127.0.0.1:9"]\n', "embedded = true"),
        (
            QUICK + JSONL + '\n[alerts]\nto = ["alertmanager:http://127.0.0.1:9"]\nembedded = true\n',
            'severity = "major"',
        ),
    ],
)
def test_settings_that_come_to_nothing_together_are_said(tmp_path: Path, config: str, said: str) -> None:
    done = Serving(tmp_path, config).command("serve", "--config", "otel-drift.toml", "--check")
    assert done.returncode == 0, done.stderr
    assert said in done.stderr


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with serving(tmp_path, QUICK) as service:
        port = service.addresses["http"].rpartition(":")[2]
        config = QUICK.replace('http = "127.0.0.1:0"', f'http = "127.0.0.1:{port}"')
        (tmp_path / "other").mkdir()
        other = Serving(tmp_path / "other", config).command("serve", "--config", "otel-drift.toml")
        assert other.returncode == 2
        assert "cannot listen" in other.stderr
        assert "Traceback" not in other.stderr


def test_a_process_that_was_killed_is_missed_until_another_runs_on_its_host(tmp_path: Path) -> None:
    with serving(tmp_path, QUICK + JSONL) as service:
        wait_until(lambda: bool(service.status()["processes"]), "it says that it is at work")
        service.kill()
        with Ledger.open(tmp_path / "ledger.db") as ledger, ledger.database.writing() as connection:
            connection.execute(sa.text("UPDATE otel_drift_process SET heartbeat = heartbeat - 60000000000"))
        told = service.status()
        assert told["processes"][0]["state"] == "silent"
        assert any("fell silent" in problem for problem in told["problems"])
        service.start()
        wait_until(lambda: service.status()["problems"] == [], "all is in order again")


def test_status_without_a_service_says_so(tmp_path: Path) -> None:
    service = Serving(tmp_path, QUICK)
    told = service.status()
    assert told["processes"] == []
    assert "no service is running" in told["problems"][0]
    assert service.command("status", "--check").returncode == 3
