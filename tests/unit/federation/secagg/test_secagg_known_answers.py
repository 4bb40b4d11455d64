"""The primitives give the answers of their RFCs, and the recorded vectors hold for two independent
implementations.

The second implementation of the expander is written here from the RFCs and the standard library
alone.
"""

import hashlib
import hmac
import json
import struct
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from clone import VECTORS
from fastlloyd.base.randomness import PublicSeed, PublicStream, derive, keystream
from fastlloyd.federation.secagg.keys import Identity, verify
from fastlloyd.federation.secagg.masks import GroupKey
from fastlloyd.federation.secagg.ring import Ring
from masks import MaskedUpload, expand_mask

KNOWN = json.loads((VECTORS / "masks.json").read_text())

# ------------------------------------------------------- second implementation


def rotate(x: int, n: int) -> int:
    return (x << n | x >> (32 - n)) & 0xFFFFFFFF


def chacha20_block(key: bytes, counter: int, nonce: bytes) -> bytes:
    """RFC 8439, section 2.3."""
    start = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key), counter]
    start += struct.unpack("<3I", nonce)
    x = list(start)
    columns = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)]
    diagonals = [(0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]
    for a, b, c, d in (columns + diagonals) * 10:
        for first, second, last, n in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[first] = (x[first] + x[second]) & 0xFFFFFFFF
            x[last] = rotate(x[last] ^ x[first], n)
    return struct.pack("<16I", *((v + s) & 0xFFFFFFFF for v, s in zip(x, start, strict=True)))


def chacha20(key: bytes, n_bytes: int) -> bytes:
    return b"".join(chacha20_block(key, i, bytes(12)) for i in range(-(-n_bytes // 64)))[:n_bytes]


def hkdf_expand(key: bytes, info: bytes) -> bytes:
    """RFC 5869, section 2.3, for the 32 bytes that are one block of SHA-256."""
    return hmac.new(key, info + b"\x01", hashlib.sha256).digest()


def replayed_mask(vector: dict[str, Any]) -> bytes:
    name = vector["client"].encode()
    context = (
        bytes.fromhex(vector["plan_digest"])
        + bytes.fromhex(vector["run_id"])
        + struct.pack(">Q", vector["round"])
    )
    context += struct.pack(">I", len(name)) + name + bytes.fromhex(vector["upload_nonce"])
    context += bytes.fromhex(vector["transcript_hash"]) + bytes.fromhex(vector["centroids_digest"])
    key = hkdf_expand(bytes.fromhex(vector["group_key"]), b"fastlloyd/v1/mask" + context)
    return chacha20(key, vector["ring_bits"] // 8 * vector["length"])


# ------------------------------------------------------------- known answers


def test_chacha20_gives_the_key_stream_of_rfc_8439() -> None:
    # Section 2.3.2, by the second implementation; the library numbers blocks in the first 4 bytes
    # of its nonce.
    key, nonce = bytes(range(32)), bytes.fromhex("000000090000004a00000000")
    block = bytes.fromhex(
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )
    assert chacha20_block(key, 1, nonce) == block
    library = Cipher(
        algorithms.ChaCha20(key, nonce=struct.pack("<I", 1) + nonce), mode=None
    ).encryptor()
    assert library.update(bytes(64)) == block
    # Appendix A.1, vectors 1 and 2: key, nonce zero, blocks 0 and 1.
    stream = bytes.fromhex(
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"
    )
    assert chacha20(bytes(32), 128) == stream
    assert (
        Cipher(algorithms.ChaCha20(bytes(32), nonce=bytes(16)), mode=None)
        .encryptor()
        .update(bytes(128))
        == stream
    )


def test_the_second_implementation_replays_every_recorded_mask() -> None:
    assert len(KNOWN["masks"]) >= 8
    for vector in KNOWN["masks"]:
        assert replayed_mask(vector).hex() == vector["mask"], vector["client"]


def test_the_package_replays_every_recorded_mask() -> None:
    for vector in KNOWN["masks"]:
        ring = Ring.of(vector["ring_bits"])
        upload = MaskedUpload(
            plan_digest=bytes.fromhex(vector["plan_digest"]),
            run_id=bytes.fromhex(vector["run_id"]),
            round=vector["round"],
            client=vector["client"],
            upload_nonce=bytes.fromhex(vector["upload_nonce"]),
            transcript_hash=bytes.fromhex(vector["transcript_hash"]),
            centroids_digest=bytes.fromhex(vector["centroids_digest"]),
        )
        mask = expand_mask(
            GroupKey(bytes.fromhex(vector["group_key"])), upload, vector["length"], ring
        )
        assert ring.to_bytes(mask).hex() == vector["mask"], vector["client"]


def test_both_implementations_replay_every_recorded_public_stream() -> None:
    assert len(KNOWN["public"]) >= 3
    for vector in KNOWN["public"]:
        seed, label = bytes.fromhex(vector["seed"]), bytes.fromhex(vector["label"])
        words = PublicStream(PublicSeed(seed), label).words(vector["n_words"])
        assert words.dtype == np.uint64
        assert words.astype("<u8").tobytes().hex() == vector["words"]
        key = hkdf_expand(seed, b"fastlloyd/v1/public" + struct.pack(">I", len(label)) + label)
        assert chacha20(key, 8 * vector["n_words"]).hex() == vector["words"]


@pytest.mark.parametrize(
    ("key", "info", "expanded"),
    [
        (
            "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5",
            bytes(range(0xF0, 0xFA)),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf",
        ),
        (
            "06a6b88c5853361a06104c9ceb35b45cef760014904671014a193f40c15fc244",
            bytes(range(0xB0, 0x100)),
            "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c",
        ),
        (
            "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04",
            b"",
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d",
        ),
    ],
)
def test_keys_are_derived_as_in_rfc_5869(key: str, info: bytes, expanded: str) -> None:
    # Appendix A.1 to A.3: PRK and info as given; OKM is longer there, its first 32 bytes are ours.
    assert derive(bytes.fromhex(key), info).hex() == expanded
    assert hkdf_expand(bytes.fromhex(key), info).hex() == expanded


def test_the_key_stream_is_chacha20_under_the_derived_key() -> None:
    for n_bytes in (0, 1, 63, 64, 65, 1000):
        assert keystream(bytes(range(32)), b"info", n_bytes) == chacha20(
            hkdf_expand(bytes(range(32)), b"info"), n_bytes
        )


@pytest.mark.parametrize(
    ("secret", "public", "message", "signature"),
    [
        (
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        ),
        (
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        ),
    ],
)
def test_identities_sign_as_in_rfc_8032(
    secret: str, public: str, message: str, signature: str
) -> None:
    # Section 7.1, tests 1 and 2.
    identity = Identity.from_private_bytes(bytes.fromhex(secret))
    assert identity.public.hex() == public
    assert identity.sign(bytes.fromhex(message)).hex() == signature
    verify(bytes.fromhex(public), bytes.fromhex(signature), bytes.fromhex(message))
