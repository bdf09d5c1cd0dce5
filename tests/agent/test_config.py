from __future__ import annotations

import argparse
from pathlib import Path

import msgspec
import pytest

from agent.composition import serving_options
from agent.config import AgentConfig, load_config
from agent.errors import ConfigurationError


def load(environ: dict[str, str] | None = None, **flags: object) -> AgentConfig:
    return load_config(argparse.Namespace(**flags), environ or {})


def test_the_defaults_bind_loopback() -> None:
    config = load()
    assert (config.host, config.port, config.update.allow_unsigned) == ("127.0.0.1", 8000, False)


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text('host = "h1"\nport = 1\nrace_budget_s = 1.5\n[link]\nkeepalive_s = 7\n')
    environ = {"MINDEDGE_AGENT_PORT": "2", "MINDEDGE_AGENT_LINK_LONGEST_RETRY_S": "9", "MINDEDGE_AGENT_HOST": "h2"}
    config = load(environ, config=str(file), host="h3", telemetry_s=4.0)
    assert (config.host, config.port, config.race_budget_s) == ("h3", 2, 1.5)
    assert (config.link.keepalive_s, config.link.longest_retry_s, config.telemetry.interval_s) == (7, 9.0, 4.0)


def test_the_data_folder_comes_from_flag_environment_file_or_the_users_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load({"MINDEDGE_DATA": "/e"}, data="/f").data_dir == Path("/f")
    assert load({"MINDEDGE_DATA": "/e"}).data_dir == Path("/e")
    file = tmp_path / "agent.toml"
    file.write_text('data_dir = "/t"')
    assert load({"MINDEDGE_CONFIG": str(file)}).data_dir == Path("/t")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert load({"HOME": "/home/u"}).data_dir == Path("/home/u/.local/share/mindedge/agent")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert load().data_dir == Path("/var/lib/mindedge/agent")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("prt = 1", "prt"), ("[link]\nkeepalive = 1", "keepalive"), ('port = "x"', "port"), ("port = 70000", "port"),
        ("[update]\nmax_p90_ratio = 0.5", "max_p90_ratio"), ("objective = 'beauty'", "objective"), ("port = ", "TOML"),
        ("[link]\nhosts = 'a'", "hosts"),
    ],
)  # fmt: skip
def test_a_wrong_key_or_value_names_the_file_and_the_key(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load(config=str(file))
    assert str(file) in str(caught.value)
    assert named in str(caught.value)


@pytest.mark.parametrize("variable", ["MINDEDGE_AGENT_PRT", "MINDEDGE_AGENT_LINK_X", "MINDEDGE_AGENT_UPDATE"])
def test_an_unknown_variable_is_named(variable: str) -> None:
    with pytest.raises(ConfigurationError, match=variable):
        load({variable: "1"})


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        load(config=str(tmp_path / "gone.toml"))
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="not TOML"):
        load(config=str(tmp_path / "b.toml"))


def test_lists_in_variables_are_separated_by_commas() -> None:
    assert load({"MINDEDGE_AGENT_LINK_HOSTS": "a:1, b"}).link.hosts == ["a:1", "b"]


def test_how_models_are_served_comes_from_flags_variables_and_the_file(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text("[serving]\nbatch = true\nmax_batch = 4\ntoken_file = 't'\n")
    config = load({"MINDEDGE_AGENT_SERVING_MAX_QUEUE": "9"}, config=str(file), max_batch=16, client_token_file="u")
    serving = config.serving
    assert (serving.batch, serving.max_batch, serving.max_queue, serving.token_file) == (True, 16, 9, "u")
    options = serving_options(config)
    assert options.batching is not None
    assert (options.batching.max_batch, options.max_queue) == (16, 9)
    assert serving_options(load()).batching is None


@pytest.mark.parametrize(("flags", "named"), [({"tls_cert": "c.pem"}, "--tls-key"), ({"max_batch": 0}, "--max-batch")])
def test_what_does_not_fit_together_is_named_by_its_flag(flags: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        load(**flags)


def test_the_tree_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        load().port = 1  # type: ignore[misc]
    assert isinstance(load().link, msgspec.Struct)
