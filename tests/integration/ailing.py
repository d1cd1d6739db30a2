"""A test aid: Collectors with every ailment that the exporting has to bear, over HTTP and gRPC."""

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sidecar.testing import unwell
from sidecar.testing.otlp import OtlpReceiver

PROTOCOLS = ("http/protobuf", "grpc")
# What never answers, or takes longer than anybody waits.
HANGING = ("silent", "slow")
# What can be delivered later, when the Collector is well.
CURABLE = ("refusing", "silent", "cutting", "babbling", "status 429", "status 503", "redirect", "untrusted", "slow")
FATAL = ("status 400", "status 401")
AILMENTS = (*CURABLE, *FATAL, "partial")
_RAW = {
    "refusing": unwell.refusing,
    "silent": unwell.silent,
    "babbling": unwell.babbling,
}


@dataclass(frozen=True)
class Ailing:
    """`receiver` is behind the endpoint where it is one that answers."""

    endpoint: str
    receiver: OtlpReceiver | None


@contextlib.contextmanager
def ailing(ailment: str, protocol: str, folder: Path) -> Iterator[Ailing]:
    if ailment == "cutting":
        # gRPC says no more than a greeting before it is greeted.
        with unwell.cutting(40 if protocol == "grpc" else 200) as endpoint:
            yield Ailing(endpoint, None)
        return
    if ailment in _RAW:
        with _RAW[ailment]() as endpoint:
            yield Ailing(endpoint, None)
        return
    tls = _certificate(folder) if ailment == "untrusted" else None
    with OtlpReceiver(grpc=protocol == "grpc", tls=tls) as receiver:
        if ailment.startswith("status "):
            receiver.http_status = int(ailment.removeprefix("status "))
            receiver.retry_after_s = 30 if ailment in CURABLE else None
        elif ailment == "redirect":
            receiver.http_status = 302
        elif ailment == "slow":
            receiver.delay_s = 3
        elif ailment == "partial":
            receiver.refused_records = 1
        yield Ailing(receiver.grpc_endpoint if protocol == "grpc" else receiver.http_endpoint, receiver)


def _certificate(folder: Path) -> tuple[str, str]:
    """A certificate of 127.0.0.1 that nobody has signed."""
    certificate, key = str(folder / "certificate.pem"), str(folder / "key.pem")
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", *kind, *subject, "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key
