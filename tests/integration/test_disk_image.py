"""After a run that has ended, none of its keys is anywhere on the disk: not in a file, not in free
blocks.

The disk is an image with a file system of its own, which is read raw.
"""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clone import SUPPORT
from disk_image import holds, mounted, pieces
from fastlloyd.federation.plan.plan import Masks, TrustMode
from fastlloyd.federation.store import Store, read
from fastlloyd.federation.store.events import Outcome, encode
from fastlloyd.federation.store.key_file import KeyFile, keys_path
from fastlloyd.federation.store.sealed import Sealed, Secrets, Text
from known_noise import KnownNoise
from mortal_parties import World
from runs_with_deaths import FEDERATIONS, NAMES
from stores import run_id


class Kept:
    """All that the stores of a run were given to keep, and the keys it was sealed under."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.secrets: dict[str, set[bytes]] = {}
        self.messages: set[bytes] = set()
        self.keys: set[bytes] = set()
        of_secrets, of_messages, add = Sealed.of_secrets, Sealed.of_messages, KeyFile.add

        def see_secrets(sealed: Sealed, secrets: Secrets) -> object:
            for (_, name), secret in secrets.items():
                self.secrets.setdefault(name.split(" ")[0], set()).add(bytes(secret))
            return of_secrets(sealed, secrets)

        def see_messages(sealed: Sealed, texts: list[Text]) -> object:
            self.messages |= {data for _, _, data in texts}
            return of_messages(sealed, texts)

        def see_key(file: KeyFile, run: bytes) -> bytes:
            key = add(file, run)
            self.keys.add(key)
            return key

        monkeypatch.setattr(Sealed, "of_secrets", see_secrets)
        monkeypatch.setattr(Sealed, "of_messages", see_messages)
        monkeypatch.setattr(KeyFile, "add", see_key)


def _run(folder: Path, masks: Masks) -> tuple[set[bytes], bytes]:
    """A whole run, from stores that are made to stores that are closed: all noise that was drawn,
    and the events, which stay.
    """
    federation = FEDERATIONS[TrustMode.CLIENT_NOISE, masks]
    plan = federation.plan
    with World(plan, federation.X, folder) as world:
        assert set(world.run()) == set(NAMES)
    noise = {
        plan.draw_client_noise(each, KnownNoise(name), plan.n_clients).astype("<i8").tobytes()
        for name in NAMES
        for each in plan.mechanism.all_rounds
    }
    bodies = [encode(each) for mortal in world.parties.values() for each in read(mortal.path)[1]]
    return noise, b"".join(bodies)


def _told(kept: Kept, noise: set[bytes], stays: bytes) -> set[bytes]:
    """Pieces of everything that nobody may find; ids and names in messages are in events, too."""
    secrets = {secret for found in kept.secrets.values() for secret in found}
    hidden = {piece for each in (*secrets, *kept.keys, *noise) for piece in pieces(each)}
    said = {piece for each in kept.messages for piece in pieces(each)}
    return hidden | {piece for piece in said if piece not in stays}


@pytest.mark.parametrize("masks", Masks)
def test_after_a_run_no_key_message_or_noise_of_it_is_anywhere_on_the_disk(
    masks: Masks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(monkeypatch)
    with mounted(tmp_path) as (image, place):
        noise, stays = _run(place, masks)
    assert {"run-keys", "pair-secret", "group-key"} <= set(kept.secrets)
    assert len(kept.keys) == len(NAMES) + 1
    told = _told(kept, noise, stays)
    assert len(told) > 500
    assert holds(image, told) == set()


def test_what_is_not_sealed_is_found_after_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look at the raw disk finds what is there: with stores that do not seal, the keys."""
    kept = Kept(monkeypatch)
    monkeypatch.setattr(Sealed, "_seal", lambda *arguments: arguments[-1])
    monkeypatch.setattr(Sealed, "_open", lambda *arguments: arguments[-1])
    with mounted(tmp_path) as (image, place):
        _run(place, Masks.GROUP)
    for name, secrets in kept.secrets.items():
        assert holds(image, {piece for secret in secrets for piece in pieces(secret)}), name


def test_a_process_that_was_killed_leaves_no_key_once_its_run_is_given_up(tmp_path: Path) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from stores import new_store, reserved, run_id\n"
        "store = new_store(Path(sys.argv[2]))\n"
        "secrets = {(run_id(1), 'key'): bytes(range(100, 200))}\n"
        "store.append([reserved(run_id(1))], secrets=secrets)\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with mounted(tmp_path) as (image, place):
        command = [sys.executable, "-c", program, str(SUPPORT), str(place)]
        pipe = subprocess.PIPE
        # our own program
        with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            process.send_signal(signal.SIGKILL)
        path = place / "clinic-a.store"
        content = keys_path(path).read_bytes()
        with Store.open(path) as store:
            assert store.secrets(run_id(1)) == {"key": bytes(range(100, 200))}
            store.append([store.history.runs[run_id(1)].end(Outcome.ABORTED)])
    key = content[40:72]
    assert len(set(key)) > 8
    assert holds(image, pieces(key) | pieces(bytes(range(100, 200)))) == set()
