"""Failures of connections as a process of its own meets them."""

import importlib.util
import os
import subprocess
import sys

import pytest


@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="gRPC is not installed")
@pytest.mark.parametrize(
    ("suites", "said"), [("", "GRPC_SSL_CIPHER_SUITES="), ("ECDHE-PSK-AES128-CBC-SHA", "ready")]
)
def test_where_grpc_was_imported_by_others_tls_1_2_is_refused_already_or_nothing_is_done(
    suites: str, said: str
) -> None:
    code = (
        "import grpc\nfrom fastlloyd.federation.transport.grpc.tls import"
        " load_grpc\nload_grpc()\nprint('ready')"
    )
    environment = os.environ | {"GRPC_SSL_CIPHER_SUITES": suites}
    command = [sys.executable, "-c", code]
    # this Python
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert said in found.stdout + found.stderr
    assert (found.returncode == 0) is (said == "ready")
