"""Noise in processes of their own."""

import subprocess
import sys


def test_w02_the_first_draw_of_every_deployment_is_its_own() -> None:
    program = (
        "from fractions import Fraction; from fastlloyd.dp.noise import SystemNoise; "
        "print(SystemNoise().gaussian(Fraction(2) ** 40, 2).tolist())"
    )
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
        for _ in range(2)
    ]
    assert runs[0].stdout != runs[1].stdout
    assert runs[0].stdout.startswith(b"[")
