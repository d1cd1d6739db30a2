"""What of the environment a daemon may keep."""

import pytest

from sidecar.core.daemon_environment import daemon_environment


@pytest.mark.parametrize(
    "name",
    [
        *("HOME", "PATH", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "LC_ALL", "XDG_RUNTIME_DIR"),
        *("OTEL_EXPORTER_OTLP_ENDPOINT", "SSL_CERT_FILE", "SSL_CERT_DIR", "SIDECAR_SOCKET", "SIDECAR_CONFIG"),
    ],
)
def test_kept(name: str) -> None:
    assert daemon_environment({name: "value"}) == {name: "value"}


@pytest.mark.parametrize(
    "name",
    [
        *("API_KEY", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD", "PYTHONPATH", "TRACEPARENT", "HTTP_PROXY", "home"),
        *("SIDECAR_TOOL_CALL_ID", "SIDECAR_TOOL_NAME", "SIDECAR_SESSION_ID", "SIDECAR_ACTIVE", "SIDECAR_TIMEOUT"),
    ],
)
def test_left_out(name: str) -> None:
    assert daemon_environment({name: "value"}) == {}


def test_names_of_the_user_are_added_but_not_what_is_one_commands_own() -> None:
    environ = {"HTTPS_PROXY": "p", "AWS_PROFILE": "a", "SIDECAR_TIMEOUT": "1"}
    assert daemon_environment(environ, ("HTTPS_PROXY", "SIDECAR_TIMEOUT")) == {"HTTPS_PROXY": "p"}
