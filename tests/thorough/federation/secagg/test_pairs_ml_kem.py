"""ML-KEM against its published answers."""

import hashlib

import ml_kem
from fastlloyd.federation.secagg.pairs import (
    CIPHERTEXT_BYTES,
    RunKeys,
)


def test_ml_kem_gives_the_published_answers_by_two_routes() -> None:
    # 100 keys, secrets and ciphertexts, random ones too, hashed as in TestAccumulated of Go's
    # crypto/mlkem.
    stream, one, other = (
        hashlib.shake_128().digest(100 * (64 + 32 + CIPHERTEXT_BYTES)),
        hashlib.shake_128(),
        hashlib.shake_128(),
    )
    for _ in range(100):
        seed, m, wrong, stream = stream[:64], stream[64:96], stream[96:1184], stream[1184:]
        public, private = ml_kem.keys(seed)
        secret, ciphertext = ml_kem.encapsulate(public, m)
        assert ml_kem.decapsulate(private, ciphertext) == secret
        one.update(public + ciphertext + secret + ml_kem.decapsulate(private, wrong))
        keys = RunKeys.from_private_bytes(bytes(32) + seed + bytes(32))
        other.update(
            keys.encapsulation_key
            + ciphertext
            + keys.decapsulate(ciphertext)
            + keys.decapsulate(wrong)
        )
    published = "1114b1b6699ed191734fa339376afa7e285c9e6acf6ff0177d346696ce564415"
    assert one.hexdigest(32) == other.hexdigest(32) == published
