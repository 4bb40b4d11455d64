"""The client `c0` of the tests' federation in a process of its own: PORT, folder with keys and
certificates.
"""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from fastlloyd.federation.protocol.actions import ClientResult
from fastlloyd.federation.transport.grpc.client import GrpcClient
from fastlloyd.federation.transport.grpc.tls import TlsIdentity
from federation import make_federation, make_plan
from network import SessionClient


def main(port: str, folder: Path) -> int:
    federation = make_federation(make_plan(3))
    identity = TlsIdentity(
        certificate=(folder / "c0.der").read_bytes(),
        private_key=(folder / "c0.pem").read_bytes(),
    )
    client = GrpcClient(
        SessionClient(federation.client("c0")),
        federation.plan,
        address=f"127.0.0.1:{port}",
        identity=identity,
        server_certificate=(folder / "server.der").read_bytes(),
    )
    return 0 if isinstance(asyncio.run(client.run()), ClientResult) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
