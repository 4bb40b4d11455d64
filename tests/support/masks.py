"""The masks of one upload, by the paths that hide it."""

from dataclasses import dataclass

from fastlloyd.federation.secagg.masks import (
    GroupKey,
    GroupMasks,
    MaskContext,
    PairwiseMasks,
    upload_field,
)
from fastlloyd.federation.secagg.ring import Ring, RingVector


@dataclass(frozen=True, kw_only=True)
class MaskedUpload(MaskContext):
    """Everything one mask is bound to."""

    client: str
    upload_nonce: bytes

    def to_bytes(self) -> bytes:
        """The encoding that the mask's key is derived from, behind its label."""
        return self.before + upload_field(self.client, self.upload_nonce) + self.after


def expand_mask(key: GroupKey, upload: MaskedUpload, length: int, ring: Ring) -> RingVector:
    """What hides `length` zeros."""
    return GroupMasks(key, ring).hide(
        ring.zeros(length), upload, upload.client, upload.upload_nonce
    )


def expand_pair_mask(key: GroupKey, upload: MaskedUpload, length: int, ring: Ring) -> RingVector:
    """What hides `length` zeros of the later of two clients: the mask of their pair alone. `key` is
    that of the pair.
    """
    no_group_key = GroupKey(bytes(32))  # the earlier one uses it
    masks = PairwiseMasks(
        no_group_key, ring, ("earlier", upload.client), upload.client, {"earlier": key.secret}
    )
    return masks.hide(ring.zeros(length), upload, upload.client, upload.upload_nonce)
