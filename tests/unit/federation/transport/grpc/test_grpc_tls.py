"""Channel arguments follow from the plan."""

from fastlloyd.federation.protocol.messages import Limits
from fastlloyd.federation.transport.grpc.frames import FRAME_BYTES
from fastlloyd.federation.transport.grpc.tls import Keepalive, server_options


def test_the_line_is_measured_only_where_a_frame_may_exceed_the_first_window() -> None:
    for max_bytes, probes in (
        (1000, 0),
        (65_535 - FRAME_BYTES, 0),
        (65_536 - FRAME_BYTES, 1),
        (10**6, 1),
    ):
        options = dict(server_options(Limits(2, (100,), {}, max_bytes), 2, Keepalive()))
        assert options["grpc.http2.bdp_probe"] == probes
        assert options["grpc.max_receive_message_length"] == max_bytes + FRAME_BYTES
