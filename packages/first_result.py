"""Commands of a first result with no extra installed, in an empty folder."""

import csv
import subprocess
import sys
from pathlib import Path


def fastlloyd(*arguments: str) -> str:
    """Run a command of fastlloyd, and return what it prints."""
    command = [sys.executable, "-m", "fastlloyd", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"fastlloyd {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def main() -> None:
    """Cluster a table, alone and as several, and read the results."""
    with Path("visits.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("age", "cost"))
        rows.writerows(
            (30 + 40 * (i % 2) + i % 7, 2 + 6 * (i % 2) + i % 3 / 4) for i in range(2000)
        )
    settings = ("-k", "2", "--bounds", "age=0:100,cost=0:10", "--n-records", "3000")
    counted = ("--dataset", "visits", "--new-dataset", "--ledger", "ledger.store")
    fastlloyd("fit", "visits.csv", *settings, *counted, "--out", "result")
    fastlloyd("result", "result", "--statement", "--ledger", "ledger.store")
    fastlloyd("result", "result", "--check")
    fastlloyd("assign", "result", "visits.csv", "--out", "labels.csv")
    fastlloyd("simulate", "visits.csv", *settings, "--clients", "3", "--out", "simulated")
    assert "visits" in fastlloyd("ledger", "show", "ledger.store")
    assert not any(name in sys.modules for name in ("numba", "sklearn", "pyarrow", "grpc"))


if __name__ == "__main__":
    main()
