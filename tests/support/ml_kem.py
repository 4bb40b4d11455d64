"""ML-KEM-768, straight from the algorithms of FIPS 203: a second route for tests. Slow, and not
constant in time.
"""

from collections.abc import Iterator
from hashlib import sha3_256, sha3_512, shake_128, shake_256

Polynomial = list[int]
"""256 numbers below Q: coefficients, or values in the order of the transform."""

Q, K, DU, DV = 3329, 3, 10, 4
LENGTHS = (128, 64, 32, 16, 8, 4, 2)


def bit_reversed(i: int) -> int:
    return int(f"{i:07b}"[::-1], 2)


ZETAS = [pow(17, bit_reversed(i), Q) for i in range(128)]
GAMMAS = [pow(17, 2 * bit_reversed(i) + 1, Q) for i in range(128)]


def blocks(lengths: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    for length in lengths:
        for start in range(0, 256, 2 * length):
            yield length, start


def transform(f: Polynomial) -> Polynomial:
    """Algorithm 9, NTT."""
    f = list(f)
    for zeta, (length, start) in zip(ZETAS[1:], blocks(LENGTHS), strict=True):
        for j in range(start, start + length):
            t = zeta * f[j + length] % Q
            f[j], f[j + length] = (f[j] + t) % Q, (f[j] - t) % Q
    return f


def transform_back(f: Polynomial) -> Polynomial:
    """Algorithm 10, the inverse of NTT."""
    f = list(f)
    for zeta, (length, start) in zip(ZETAS[:0:-1], blocks(LENGTHS[::-1]), strict=True):
        for j in range(start, start + length):
            f[j], f[j + length] = (f[j] + f[j + length]) % Q, zeta * (f[j + length] - f[j]) % Q
    return [3303 * x % Q for x in f]


def multiply(f: Polynomial, g: Polynomial) -> Polynomial:
    """Algorithms 11 and 12: the product of two transformed polynomials."""
    h: Polynomial = []
    for a, b, c, d, gamma in zip(f[::2], f[1::2], g[::2], g[1::2], GAMMAS, strict=True):
        h += [(a * c + b * d * gamma) % Q, (a * d + b * c) % Q]
    return h


def add(*terms: Polynomial) -> Polynomial:
    return [sum(column) % Q for column in zip(*terms, strict=True)]


def dot(fs: list[Polynomial], gs: list[Polynomial]) -> Polynomial:
    return add(*map(multiply, fs, gs))


def encode(f: Polynomial, d: int) -> bytes:
    """Algorithm 5, ByteEncode: d bits a number."""
    return sum(x << d * i for i, x in enumerate(f)).to_bytes(32 * d, "little")


def decode(encoded: bytes, d: int) -> list[Polynomial]:
    """Algorithm 6, ByteDecode, of as many polynomials as there are."""
    numbers = int.from_bytes(encoded, "little")
    every = [numbers >> d * i & (1 << d) - 1 for i in range(8 * len(encoded) // d)]
    return [every[i : i + 256] for i in range(0, len(every), 256)]


def compress(f: Polynomial, d: int) -> Polynomial:
    """Equation 4.7: the nearest of 2^d numbers."""
    return [((x << d) + Q // 2) // Q % (1 << d) for x in f]


def decompress(f: Polynomial, d: int) -> Polynomial:
    """Equation 4.8."""
    return [(Q * y + (1 << d - 1)) >> d for y in f]


def uniform(seed: bytes) -> Polynomial:
    """Algorithm 7, SampleNTT. 336 triples do for every seed but one of 2^400."""
    stream, f = shake_128(seed).digest(1008), list[int]()
    for a, b, c in zip(stream[::3], stream[1::3], stream[2::3], strict=True):
        f += [x for x in (a + 256 * (b % 16), b // 16 + 16 * c) if x < Q]
    return f[:256]


def noise(seed: bytes, number: int) -> Polynomial:
    """Algorithm 8, SamplePolyCBD with eta = 2, of the pseudorandom function's 128 bytes."""
    bits = int.from_bytes(shake_256(seed + bytes([number])).digest(128), "little")
    nibbles = [bits >> 4 * i & 15 for i in range(256)]
    return [((x & 1) + (x >> 1 & 1) - (x >> 2 & 1) - (x >> 3 & 1)) % Q for x in nibbles]


def matrix(rho: bytes) -> list[list[Polynomial]]:
    return [[uniform(rho + bytes([j, i])) for j in range(K)] for i in range(K)]


def keys(seed: bytes) -> tuple[bytes, bytes]:
    """Algorithms 13 and 16: encapsulation key (1184 bytes) and decapsulation key (2400) of d |
    z.
    """
    d, z = seed[:32], seed[32:]
    expanded = sha3_512(d + bytes([K])).digest()
    rho, sigma = expanded[:32], expanded[32:]
    s, e = ([transform(noise(sigma, n)) for n in range(first, first + K)] for first in (0, K))
    public = b"".join(encode(add(dot(row, s), e[i]), 12) for i, row in enumerate(matrix(rho))) + rho
    return public, b"".join(encode(f, 12) for f in s) + public + sha3_256(public).digest() + z


def encrypt(public: bytes, plain: bytes, r: bytes) -> bytes:
    """Algorithm 14."""
    t, a = decode(public[:1152], 12), matrix(public[1152:])
    y = [transform(noise(r, n)) for n in range(K)]
    u = [add(transform_back(dot([row[i] for row in a], y)), noise(r, K + i)) for i in range(K)]
    v = add(transform_back(dot(t, y)), noise(r, 2 * K), decompress(decode(plain, 1)[0], 1))
    return b"".join(encode(compress(f, DU), DU) for f in u) + encode(compress(v, DV), DV)


def decrypt(secret: bytes, ciphertext: bytes) -> bytes:
    """Algorithm 15."""
    u = [transform(decompress(f, DU)) for f in decode(ciphertext[:960], DU)]
    v = decompress(decode(ciphertext[960:], DV)[0], DV)
    product = transform_back(dot(decode(secret, 12), u))
    return encode(compress([(x - y) % Q for x, y in zip(v, product, strict=True)], 1), 1)


def encapsulate(public: bytes, m: bytes) -> tuple[bytes, bytes]:
    """Algorithm 17: shared secret and ciphertext of 32 random bytes."""
    expanded = sha3_512(m + sha3_256(public).digest()).digest()
    return expanded[:32], encrypt(public, m, expanded[32:])


def decapsulate(private: bytes, ciphertext: bytes) -> bytes:
    """Algorithm 18: the shared secret, or what z makes of a ciphertext that was not made so."""
    secret, public, digest, z = (
        private[:1152],
        private[1152:2336],
        private[2336:2368],
        private[2368:],
    )
    m = decrypt(secret, ciphertext)
    expanded = sha3_512(m + digest).digest()
    if encrypt(public, m, expanded[32:]) == ciphertext:
        return expanded[:32]
    return shake_256(z + ciphertext).digest(32)
