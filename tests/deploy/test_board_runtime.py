"""Which runtimes the install script puts on which board."""

from __future__ import annotations

import msgspec
import pytest

from deploy import board_runtime
from deploy.board_runtime import WHEELS, Host, decide, main, on_request
from edge_contracts.capabilities import BoardFacts, Capabilities, OsFacts
from edge_contracts.profiles import Profile, load_profiles

PROFILES = {profile.name: profile for profile in load_profiles()}
BOOKWORM_ARM64 = Host("aarch64", (3, 11), (2, 36), frozenset())


def extras(profile: Profile, host: Host) -> list[str]:
    return [verdict.extra for verdict in decide(profile, host) if verdict.extra]


def facts(profile: str | None, arch: str) -> bytes:
    board, system = BoardFacts(profile=profile), OsFacts(kernel_arch="aarch64", userland_arch=arch)
    return msgspec.json.encode(Capabilities(board=board, os=system))


def test_a_pi_4_gets_both_cpu_runtimes() -> None:
    assert extras(PROFILES["raspberry-pi-4b"], BOOKWORM_ARM64) == ["litert", "onnxruntime"]


def test_a_pi_with_a_32_bit_userland_gets_the_one_runtime_that_has_wheels_for_it() -> None:
    host = Host("armv7l", (3, 11), (2, 36), frozenset())
    assert extras(PROFILES["raspberry-pi-4b"], host) == ["tflite"]


def test_what_a_profile_says_to_avoid_is_not_installed_and_the_reason_is_its_own() -> None:
    verdicts = {verdict.runtime: verdict for verdict in decide(PROFILES["raspberry-pi-zero-2-w"], BOOKWORM_ARM64)}
    assert verdicts["onnxruntime"].extra is None
    assert "512 MB" in verdicts["onnxruntime"].reason


@pytest.mark.parametrize("build", ["onnxruntime-gpu", "onnxruntime-cann", "onnxruntime-openvino"])
@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_no_board_gets_the_plain_wheel_over_a_vendors_build(profile: str, build: str) -> None:
    host = Host(PROFILES[profile].arch, (3, 10), (2, 35), frozenset({"numpy", build}))
    assert "onnxruntime" not in extras(PROFILES[profile], host)


def test_onnxruntime_extensions_is_no_build_of_onnxruntime() -> None:
    host = Host("aarch64", (3, 11), (2, 36), frozenset({"onnxruntime-extensions", "onnxruntime"}))
    assert "onnxruntime" in extras(PROFILES["raspberry-pi-5"], host)


def test_a_jetson_without_nvidias_build_is_told_where_the_choice_lies() -> None:
    verdicts = {
        v.runtime: v for v in decide(PROFILES["jetson-orin-nano"], Host("aarch64", (3, 10), (2, 35), frozenset()))
    }
    assert verdicts["onnxruntime"].extra is None
    assert "--runtime onnxruntime" in verdicts["onnxruntime"].reason
    assert verdicts["tflite"].extra == "litert"


def test_an_old_glibc_is_named() -> None:
    verdict = on_request("onnxruntime", Host("aarch64", (3, 11), (2, 27), frozenset()))
    assert verdict.extra is None
    assert verdict.reason == "onnxruntime needs glibc 2.28, here is 2.27"


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_every_board_gets_a_runtime_on_the_first_way_its_profile_names(profile: str) -> None:
    """On the Python and the glibc of that way; a board whose only runtime is a vendor's own is none of ours."""
    board = PROFILES[profile]
    old_glibc = "2.27" in board.install[0].how
    host = Host(
        board.arch,
        (3, 10) if "3.10" in board.install[0].python else (3, 11),
        (2, 27) if old_glibc else None,
        frozenset(),
    )
    assert extras(board, host), decide(board, host)


def test_every_runtime_of_the_profiles_is_one_that_the_table_of_wheels_knows() -> None:
    named = {advice.name for profile in PROFILES.values() for advice in profile.runtimes}
    assert named <= {wheel.runtime for wheel in WHEELS}


def test_the_command_prints_extras_alone_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--recorded", "--python", "3.13"], facts("raspberry-pi-5", "aarch64")) == 0
    printed = capsys.readouterr()
    assert printed.out == "onnxruntime\nlitert\n"
    assert "fp32 is fast on this core" in printed.err


def test_an_unknown_board_gets_what_its_architecture_can_take(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--recorded", "--python", "3.11"], facts(None, "armv7l")) == 0
    assert capsys.readouterr().out == "tflite\n"


def test_a_runtime_asked_for_that_cannot_be_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--recorded", "--python", "3.13", "--runtime", "tflite"], facts(None, "aarch64")) == 2
    assert "no wheel for Python 3.13" in capsys.readouterr().err
    assert main(["--recorded", "--runtime", "tensorflow"], facts(None, "aarch64")) == 2


@pytest.mark.parametrize("damaged", [b"", b"{", b'{"board": 3}', b"\xff"])
def test_facts_that_are_none_are_refused_in_one_line(damaged: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], damaged) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_extras_are_those_of_the_distribution() -> None:
    from importlib.metadata import metadata

    offered = metadata("mindedge").get_all("Provides-Extra") or []
    assert {wheel.extra for wheel in board_runtime.WHEELS} <= set(offered)
