"""Importing plans that name parties."""


def test_plans_without_certificates_do_not_load_the_parser() -> None:
    import subprocess
    import sys

    code = "import sys, fastlloyd.federation.plan.plan; print('cryptography.x509' in sys.modules)"
    # our own
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
