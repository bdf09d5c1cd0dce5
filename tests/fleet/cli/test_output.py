from __future__ import annotations

import io
import json

import pytest

from fleet.__main__ import main
from fleet.cli.device import _rows, backend_text
from fleet.cli.output import ProgressLine
from fleet.cli.rollout import _newest
from fleet.cli.rollout_text import lines
from fleet.cli.token import token_state
from fleet.cli.watch import watch
from fleet.domain.wave import Tally
from fleet.errors import ClientError
from fleet.http.api_types import RolloutDeviceView, TokenView
from tests.simulators.fleet_client import FleetSimulator, device, model, rollout, wave


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_failure_under_json_is_one_document_on_stdout_and_one_line_on_stderr(
    capsys: pytest.CaptureFixture[str], tmp_path: object
) -> None:
    code = main(["device", "list", "--json", "--data", str(tmp_path), "--server", "http://127.0.0.1:9"])
    told = capsys.readouterr()
    assert code == 2, "there is no token"
    assert json.loads(told.out)["error"] in told.err
    assert told.err.count("\n") == 1


def test_wrong_usage_under_json_is_a_document_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["rollout", "create", "--json"])
    assert stop.value.code == 2
    assert "error" in json.loads(capsys.readouterr().out)


def test_a_screen_prints_no_document(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["tui", "--json"])
    assert "unrecognized arguments: --json" in capsys.readouterr().err


def test_progress_is_one_line_on_a_terminal_and_nothing_elsewhere() -> None:
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        with ProgressLine("sending", stream) as line:
            for done in range(0, 2_000_001, 500_000):
                line.show(done, 2_000_000)
    assert "\n" not in terminal.getvalue()
    assert "100 % of 2.00 MB" in terminal.getvalue()
    assert file.getvalue() == ""


def test_raced_and_served_latency_stand_in_columns_of_their_own() -> None:
    (row,) = _rows(device("d", model(p90_ms=None, race_p90_ms=0.0267, requests=3)))
    assert row[6:9] == ("0.0267 ms", None, 3)
    assert backend_text(model()) == "openvino int8, 1 thread"


def test_a_device_that_is_sent_back_is_told_once() -> None:
    rows = [
        RolloutDeviceView(device="cam-1", wave=1, state="committed", deployment="r1-1", online=True),
        RolloutDeviceView(device="cam-1", wave=1, state="committed", deployment="r1-1-back", online=True, kind="back"),
    ]
    view = rollout("r1", "rolled_back", devices=rows, waves=[wave(1, "rolled_back", withdrawn=1)],
                   counts=Tally(withdrawn=1))  # fmt: skip
    text = "\n".join(lines(view))
    assert text.count("cam-1") == 1
    assert "cam-1  went back" in text
    assert "wave 1 (100%): rolled back; 1 withdrawn" in text


def test_what_is_watched_is_told_once() -> None:
    told: list[str] = []
    fleet = FleetSimulator(rollouts=[rollout("r1")])

    def end(_: float) -> None:
        fleet.rollout_list = [rollout("r1", "succeeded", why="3 devices committed")]

    last = watch(fleet, "r1", told.append, sleep=end)  # type: ignore[arg-type]
    assert last.state == "succeeded"
    assert len(told) == len(set(told))
    assert sum("succeeded: 3 devices committed" in line for line in told) == 1


@pytest.mark.parametrize(
    ("uses", "expires_ms", "state"), [(0, None, "used up"), (1, 99, "expired"), (1, 101, "usable"), (1, None, "usable")]
)
def test_a_token_tells_whether_it_still_lets_a_device_in(uses: int, expires_ms: int | None, state: str) -> None:
    view = TokenView(id="t", site="s", uses_left=uses, created_ms=0, expires_ms=expires_ms)
    assert token_state(view, 100) == state


def test_status_without_an_id_is_of_the_newest_rollout() -> None:
    assert _newest(FleetSimulator(rollouts=[rollout("r2"), rollout("r1")])) == "r2"
    with pytest.raises(ClientError, match="no rollout yet"):
        _newest(FleetSimulator())
