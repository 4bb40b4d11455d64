"""A process that talks over gRPC may start programs, also where Python has to fork for it."""

import importlib.util
import os
import subprocess
import sys

import pytest

from network_processes import HANG

# Connections come and go in other threads. `preexec_fn` forces a real fork; macOS always forks.
PROGRAM = """
import subprocess, threading
from concurrent.futures import ThreadPoolExecutor
from fastlloyd.federation.transport.grpc.tls import load_grpc

grpc = load_grpc()
server = grpc.server(ThreadPoolExecutor(2))
answer = grpc.unary_unary_rpc_method_handler(lambda request, context: request)
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("fastlloyd.Test", {"Echo": answer}),))
port = server.add_insecure_port("127.0.0.1:0")
server.start()
done = threading.Event()

def ask():
    while not done.is_set():
        with grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            channel.unary_unary("/fastlloyd.Test/Echo")(b"", timeout=60)

with ThreadPoolExecutor(2) as pool:
    asking = [pool.submit(ask) for _ in range(2)]
    try:
        codes = [subprocess.run(["true"], preexec_fn=int).returncode for _ in range(200)]
    finally:
        done.set()
print(*set(codes), flush=True)
for one in asking:
    one.result()
server.stop(None).wait()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="gRPC is not installed")
def test_a_fork_beside_grpc_ends_neither_the_child_nor_a_call() -> None:
    """With gRPC's own fork handlers some children abort before they run their program, and calls of
    the parent fail.
    """
    environment = {
        name: value for name, value in os.environ.items() if name != "GRPC_ENABLE_FORK_SUPPORT"
    }
    command = [sys.executable, "-c", PROGRAM]
    found = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=HANG, check=False
    )
    assert (found.returncode, found.stdout) == (0, "0\n"), found.stderr
